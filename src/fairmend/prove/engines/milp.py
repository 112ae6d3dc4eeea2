"""Engine "milp": the least margin of the input's class, by mixed-integer programming over each piece.

What the paper measures CUR with, and a second opinion on the other engines. FAIR is as good as the solver here: its
bound must exceed `TOLERANCE`, and what rounding the encoded lattice can make of it; and a few points must not refute
it, for HiGHS 1.15.1 was seen to return wrong optima of models with very small coefficients.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairmend.arrays import FloatArray, Floats
from fairmend.errors import FairmendError
from fairmend.milp import Solution, Status, get_solver
from fairmend.network import Network
from fairmend.prove.engines.boxes import Pieces, inputs_at_a_time
from fairmend.prove.engines.findings import TIME_LIMIT, Findings
from fairmend.prove.engines.relu_milp import Intervals, encode, intervals
from fairmend.prove.margin import proven_at
from fairmend.prove.rational import piecewise_linear
from fairmend.spec import Spec

TOLERANCE = 1e-6
"""A margin below this is not believed: the solver keeps its constraints to 1e-9, and layers add up."""

_INPUTS = 256  # bounds of this many at a time


def by_milp(net: Network, spec: Spec, X: FloatArray, findings: Findings, seed: int = 0) -> None:
    """Decide each input, unless the time limit comes first."""
    if not piecewise_linear(net):
        names = ", ".join(sorted({a.name for a in net.activations} & {"tanh", "sigmoid"}))
        raise FairmendError(
            f"engine milp encodes ReLU, leaky ReLU and identity, but the network has {names}; use engine branch"
        )
    step = inputs_at_a_time(spec, _INPUTS)
    for start in range(0, len(X), step):
        if findings.late:
            return
        _Solves(net, spec, X[start : start + step], findings, start, seed).run()


class _Solves:
    """The solves for some inputs; the first one's number is `start`."""

    def __init__(self, net: Network, spec: Spec, X: FloatArray, findings: Findings, start: int, seed: int) -> None:
        self.net, self.findings, self.seed = net, findings, seed
        self.pieces = Pieces(spec, X)
        self.rows = self.pieces.owner + start
        self.count, self.start = len(X), start
        roots = self.pieces.roots
        self.first, self.last = self.pieces.unrounded(roots)
        lower, upper = (ends.astype(np.float64) for ends in self.pieces.ends(roots))
        columns = self.pieces.columns
        lower[:, columns], upper[:, columns] = self.first, self.last
        self.base = lower
        self.known = intervals(net, lower, upper)
        self.tolerance = TOLERANCE + self._effect(self.pieces.rounded_off(roots))
        # Some points of each piece, (points, pieces, varying), and what the network makes of them.
        self.some = np.stack([roots.low, roots.high, self.pieces.middle(roots)])
        exact = net.astype(np.float64)
        points = [self.pieces.points(roots.piece, at) for at in self.some]
        self.logits = np.stack([exact.logits(at).reshape(len(at), -1) for at in points])

    def run(self) -> None:
        """Solve piece by piece, input by input."""
        each = np.searchsorted(self.rows, np.arange(self.start, self.start + self.count + 1))
        for row in range(self.start, self.start + self.count):
            first, last = each[row - self.start : row - self.start + 2].tolist()
            for piece in range(first, last):
                if not self.findings.unfair[row]:
                    if self.findings.late:
                        return
                    self._decide(row, piece)
            self.findings.finish([row])
            self.findings.report_progress()

    def _decide(self, row: int, piece: int) -> None:
        roots, lattice = self.pieces.roots, self.pieces.lattice
        low, high = roots.low[piece], roots.high[piece]
        # t counts lattice points from the lowest; on a continuous column it is the distance from there.
        t = high - low
        A = np.zeros((self.net.inputs, len(t)))
        steps = np.divide(self.last[piece] - self.first[piece], t, out=np.zeros_like(t), where=t > 0)
        A[self.pieces.columns, np.arange(len(t))] = steps
        known: Intervals = [(lows[piece : piece + 1], highs[piece : piece + 1]) for lows, highs in self.known]
        model = encode(self.net, A, self.base[piece], t, lattice, known)
        for direction in _directions(int(self.findings.own[row]), self.net.outputs):
            constant = float(direction @ model.c)
            left = self.findings.seconds_left
            solution = get_solver("highs").solve(
                replace(model.builder.build(), cost=direction @ model.A),
                time_limit=None if left == math.inf else max(0.0, left),
                threads=1,
                seed=self.seed,
            )
            bound = solution.bound + constant
            refuted = float((self.logits[:, piece] @ direction).min()) < bound - self.tolerance[piece]
            if bound > self.tolerance[piece] and not refuted:
                continue
            if solution.x is not None:
                at = low + np.clip(solution.x[model.inputs], 0.0, t)
                self._offer(row, piece, np.clip(np.where(lattice, np.rint(at), at), low, high))
            if refuted and not self.findings.unfair[row]:
                for some in self.some:
                    self._offer(row, piece, some[piece])
                self.findings.doubt([row], f"the solver's least margin, {bound:.2g}, is refuted by the network itself")
            if self.findings.unfair[row]:
                return
            self.findings.doubt([row], self._why(solution, constant, piece))

    def _offer(self, row: int, piece: int, at: Floats) -> None:
        """Offer a point as a witness, unless its other answer is only rounding: a minimiser likes to lie on a tie."""
        point = self.pieces.points(np.array([piece]), at[None])
        pair = np.concatenate([self.findings.X[row : row + 1], point])
        if proven_at(self.net, pair, self.net.predict(pair)).all():
            self.findings.offer(np.array([row]), point, np.zeros(1))

    def _why(self, solution: Solution, constant: float, piece: int) -> str:
        """Why a solve showed neither: that is for want of time, or too close to tell."""
        if solution.status in (Status.LIMIT, Status.FEASIBLE):
            return TIME_LIMIT
        if solution.status is not Status.OPTIMAL or solution.objective is None:
            return f"the solver gave up ({solution.status.value})"
        least, tolerance = solution.objective + constant, self.tolerance[piece]
        if least < -tolerance:
            return f"the solver's least margin, {least:.2g}, does not show in the network's own answers"
        return f"the least margin, {least:.2g}, is within the tolerance of the solver, {tolerance:.2g}"

    def _effect(self, off: Floats) -> Floats:
        """How much inputs that are off by (pieces, varying) can move a margin: every activation is 1-Lipschitz."""
        moved = np.zeros((len(off), self.net.inputs))
        moved[:, self.pieces.columns] = off
        for affine in self.net.affines:
            moved = moved @ np.abs(affine.weight.astype(np.float64)).T
        return np.asarray(moved.max(axis=1) * (1 if self.net.outputs == 1 else 2))


def _directions(own: int, outputs: int) -> Floats:
    """Rows (competitors, outputs) whose products with the logits are the margins of class `own`."""
    if outputs == 1:
        return np.array([[1.0 if own == 1 else -1.0]])
    return np.delete(np.eye(outputs)[own] - np.eye(outputs), own, axis=0)
