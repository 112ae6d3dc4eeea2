"""Engine "milp": the least margin of the input's class, by mixed-integer programming over each piece.

The paper measures CUR in this way, and it is a second opinion on the other engines. The solver only guides: its
minimiser is tried as a witness, and where there is none, branch and bound proves the class with the kernel's bounds. A
wrong answer of the solver can cost time or a verdict, but it never makes one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.milp import Milp, get_solver
from fairmend.prove.engines.boxes import Pieces, inputs_per_batch
from fairmend.prove.engines.branch import certify_by_branching
from fairmend.prove.engines.findings import ClassFindings
from fairmend.prove.engines.relu_milp import EncodedNetwork, encode_network
from fairmend.prove.rational import is_piecewise_linear
from fairmend.spec import Spec

_INPUTS = 256  # in a batch, for the bounds
_SHARE = 0.5  # of the time left for one MILP; the rest is for the proof


def certify_by_milp(spec: Spec, findings: ClassFindings, seed: int = 0) -> None:
    """Decide each input, until the time limit."""
    net = findings.net
    if not is_piecewise_linear(net):
        names = ", ".join(sorted({a.name for a in net.activations if not a.piecewise_linear}))
        raise FairmendError(
            f"engine milp supports piecewise linear functions (ReLU, clip, …), but the network has {names}; "
            "use engine branch"
        )
    step = inputs_per_batch(spec, _INPUTS)
    for start in range(0, len(findings.X), step):
        if not findings.out_of_time:
            _Batch(spec, findings, np.arange(start, min(start + step, len(findings.X))), seed).run()
    certify_by_branching(spec, findings)


class _Batch:
    """The solves for the inputs ``inputs``."""

    def __init__(self, spec: Spec, findings: ClassFindings, inputs: Ints, seed: int) -> None:
        self.net, self.findings, self.seed = findings.net, findings, seed
        self.pieces = Pieces(spec, findings.X[inputs])
        self.rows = inputs[self.pieces.owner]
        self.lower, self.upper = self.pieces.ends(self.pieces.roots)
        self.units = findings.bounds.function_intervals(self.lower, self.upper)  # of all pieces, each (pieces, units)

    def run(self) -> None:
        """Look for a witness piece by piece."""
        for piece, row in enumerate(self.rows.tolist()):
            if self.findings.out_of_time:
                return
            encoded, milp = self._encode(piece)
            for direction in _directions(int(self.findings.classes[row]), self.net.outputs):
                if encoded is not None and milp is not None and not self.findings.unfair[row]:
                    self._solve(piece, encoded, replace(milp, cost=direction @ encoded.A))
            self.findings.report_progress()

    def _encode(self, piece: int) -> tuple[EncodedNetwork | None, Milp | None]:
        """Return the piece as a MILP without a cost, or None if numbers overflow."""
        roots, columns = self.pieces.roots.take(np.array([piece])), self.pieces.columns
        # t counts lattice points from the lowest one; on a continuous column it is the distance from the low end.
        t = (roots.high - roots.low)[0]
        first, last = (ends[0] for ends in self.pieces.unrounded(roots))
        base = self.lower[piece].astype(np.float64)
        base[columns] = first
        A = np.zeros((self.net.inputs, len(t)))
        A[columns, np.arange(len(t))] = np.divide(last - first, t, out=np.zeros_like(t), where=t > 0)
        units = [(low[piece], high[piece]) for low, high in self.units]
        try:
            with np.errstate(all="ignore"):
                encoded = encode_network(self.net, A, base, t, self.pieces.lattice, units)
            return encoded, encoded.builder.build()
        except FairmendError:  # a coefficient is not finite
            return None, None

    def _solve(self, piece: int, encoded: EncodedNetwork, milp: Milp) -> None:
        """Let the solver find the least margin, and try its minimiser as a witness."""
        left = self.findings.seconds_left
        try:
            solution = get_solver("highs").solve(
                milp,
                time_limit=None if left == math.inf else max(0.0, _SHARE * left),
                threads=1,
                seed=self.seed,
            )
        except FairmendError:  # the solver does not accept a coefficient
            return
        if solution.x is not None:
            self._try_point(piece, solution.x[encoded.inputs])

    def _try_point(self, piece: int, t: Floats) -> None:
        """Try a point as a witness: t (varying,) counts from the lowest coordinates of the piece."""
        low, high = self.pieces.roots.low[piece], self.pieces.roots.high[piece]
        at = low + np.clip(np.nan_to_num(t), 0.0, high - low)
        at = np.clip(np.where(self.pieces.lattice, np.rint(at), at), low, high)
        self.findings.try_points(self.rows[[piece]], self.pieces.points(np.array([piece]), at[None]))


def _directions(own: int, outputs: int) -> Floats:
    """Return rows (competitors, outputs) whose products with the logits are the margins of class `own`."""
    if outputs == 1:
        return np.array([[1.0 if own == 1 else -1.0]])
    return np.delete(np.eye(outputs)[own] - np.eye(outputs), own, axis=0)
