"""Engine "milp": the least margin of the input's class, by mixed-integer programming over each piece.

The paper measures CUR in this way, and it is a second opinion on the other engines. FAIR relies on the solver here: the
solver's bound must exceed `TOLERANCE` and the effect of rounding the encoded lattice, and a few points must not refute
it, because HiGHS 1.15.1 has returned wrong optima for models with very small coefficients.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairmend.arrays import FloatArray, Floats
from fairmend.errors import FairmendError
from fairmend.milp import Solution, Status, get_solver
from fairmend.network import Network
from fairmend.prove.engines.boxes import Pieces, inputs_per_batch
from fairmend.prove.engines.findings import TIME_LIMIT, Findings
from fairmend.prove.engines.relu_milp import Intervals, encode_network, unit_intervals
from fairmend.prove.margin import proven_at_points
from fairmend.prove.rational import is_piecewise_linear
from fairmend.spec import Spec

__all__ = ["certify_by_milp"]

TOLERANCE = 1e-6
"""The least margin that counts as proven: the solver keeps its constraints to 1e-9, and layers add up."""

_INPUTS = 256  # in a batch, for the bounds


def certify_by_milp(net: Network, spec: Spec, X: FloatArray, findings: Findings, seed: int = 0) -> None:
    """Decide each input, until the time limit."""
    if not is_piecewise_linear(net):
        names = ", ".join(sorted({a.name for a in net.activations} & {"tanh", "sigmoid"}))
        raise FairmendError(
            f"engine milp supports ReLU, leaky ReLU and identity, but the network has {names}; use engine branch"
        )
    step = inputs_per_batch(spec, _INPUTS)
    for start in range(0, len(X), step):
        if findings.out_of_time:
            return
        _Batch(net, spec, X[start : start + step], findings, start, seed).run()


class _Batch:
    """The solves for a batch of inputs; `start` is the number of the first input."""

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
        self.known = unit_intervals(net, lower, upper)
        self.tolerance = TOLERANCE + self._largest_effect(self.pieces.rounded_off(roots))
        # Some points of each piece, (points, pieces, varying), and their logits: they may refute the solver's bound.
        self.some = np.stack([roots.low, roots.high, self.pieces.middle(roots)])
        exact = net.astype(np.float64)
        points = [self.pieces.points(roots.piece, at) for at in self.some]
        self.logits = np.stack([exact.logits(at).reshape(len(at), -1) for at in points])

    def run(self) -> None:
        """Solve input by input and piece by piece."""
        each = np.searchsorted(self.rows, np.arange(self.start, self.start + self.count + 1))
        for row in range(self.start, self.start + self.count):
            first, last = each[row - self.start : row - self.start + 2].tolist()
            for piece in range(first, last):
                if not self.findings.unfair[row]:
                    if self.findings.out_of_time:
                        return
                    self._decide(row, piece)
            self.findings.mark_done([row])
            self.findings.report_progress()

    def _decide(self, row: int, piece: int) -> None:
        roots, lattice = self.pieces.roots, self.pieces.lattice
        low, high = roots.low[piece], roots.high[piece]
        # t counts lattice points from the lowest one; on a continuous column it is the distance from the low end.
        t = high - low
        A = np.zeros((self.net.inputs, len(t)))
        steps = np.divide(self.last[piece] - self.first[piece], t, out=np.zeros_like(t), where=t > 0)
        A[self.pieces.columns, np.arange(len(t))] = steps
        known: Intervals = [(lows[piece : piece + 1], highs[piece : piece + 1]) for lows, highs in self.known]
        model = encode_network(self.net, A, self.base[piece], t, lattice, known)
        for direction in _directions(int(self.findings.classes[row]), self.net.outputs):
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
                self._try_witness(row, piece, np.clip(np.where(lattice, np.rint(at), at), low, high))
            if refuted and not self.findings.unfair[row]:
                for some in self.some:
                    self._try_witness(row, piece, some[piece])
                self.findings.mark_unproven(
                    [row], f"the solver's least margin, {bound:.2g}, is refuted by the network itself"
                )
            if self.findings.unfair[row]:
                return
            self.findings.mark_unproven([row], self._reason(solution, constant, piece))

    def _try_witness(self, row: int, piece: int, at: Floats) -> None:
        """Try a point as a witness, unless its class differs only by rounding: minimisers often lie on a tie."""
        point = self.pieces.points(np.array([piece]), at[None])
        pair = np.concatenate([self.findings.X[row : row + 1], point])
        if proven_at_points(self.net, pair, self.net.predict(pair)).all():
            self.findings.try_witnesses(np.array([row]), point, np.zeros(1))

    def _reason(self, solution: Solution, constant: float, piece: int) -> str:
        """Return why a solve decided nothing: out of time, or too close to tell."""
        if solution.status in (Status.LIMIT, Status.FEASIBLE):
            return TIME_LIMIT
        if solution.status is not Status.OPTIMAL or solution.objective is None:
            return f"the solver gave up ({solution.status.value})"
        least, tolerance = solution.objective + constant, self.tolerance[piece]
        if least < -tolerance:
            return f"the solver's least margin, {least:.2g}, is not confirmed by the network's own predictions"
        return f"the least margin, {least:.2g}, is within the tolerance of the solver, {tolerance:.2g}"

    def _largest_effect(self, off: Floats) -> Floats:
        """Return how much changes of the inputs (pieces, varying) can move a margin; activations are 1-Lipschitz."""
        moved = np.zeros((len(off), self.net.inputs))
        moved[:, self.pieces.columns] = off
        for affine in self.net.affines:
            moved = moved @ np.abs(affine.weight.astype(np.float64)).T
        return np.asarray(moved.max(axis=1) * (1 if self.net.outputs == 1 else 2))


def _directions(own: int, outputs: int) -> Floats:
    """Return rows (competitors, outputs) whose products with the logits are the margins of class `own`."""
    if outputs == 1:
        return np.array([[1.0 if own == 1 else -1.0]])
    return np.delete(np.eye(outputs)[own] - np.eye(outputs), own, axis=0)
