"""Engine "milp": the least margin of the input's class, by mixed-integer programming over each piece.

The paper measures CUR in this way, and it is a second opinion on the other engines. The solver only guides: its
minimiser is tried as a witness, and if there is none, a tree of linear programs proves the class, with every bound
rounded outwards (`relu_tree`). A wrong answer of the solver can cost time or a verdict, but it never makes one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.milp import Milp, Relaxation, get_solver
from fairmend.network import Network
from fairmend.prove.engines.boxes import Pieces, inputs_per_batch
from fairmend.prove.engines.findings import Findings
from fairmend.prove.engines.relu_milp import EncodedNetwork, encode_network, unit_intervals
from fairmend.prove.engines.relu_tree import Guide, Piece, ProofTree
from fairmend.prove.rational import is_piecewise_linear
from fairmend.spec import Spec

_INPUTS = 256  # in a batch, for the bounds
_SHARE = 0.5  # of the time left for one MILP; the rest is for the proof


def certify_by_milp(net: Network, spec: Spec, X: FloatArray, findings: Findings, seed: int = 0) -> None:
    """Decide each input, until the time limit."""
    if not is_piecewise_linear(net):
        names = ", ".join(sorted({a.name for a in net.activations if not a.piecewise_linear}))
        raise FairmendError(
            f"engine milp supports piecewise linear functions (ReLU, clip, …), but the network has {names}; "
            "use engine branch"
        )
    step = inputs_per_batch(spec, _INPUTS)
    for start in range(0, len(X), step):
        if findings.out_of_time:
            return
        _Batch(net, spec, X[start : start + step], findings, start, seed).run()


class _Batch:
    """The solves and proofs for a batch of inputs; `start` is the number of the first input."""

    def __init__(self, net: Network, spec: Spec, X: FloatArray, findings: Findings, start: int, seed: int) -> None:
        self.net, self.findings, self.seed = net, findings, seed
        self.pieces = Pieces(spec, X)
        self.rows = self.pieces.owner + start
        self.count, self.start = len(X), start
        self.lower, self.upper = self.pieces.ends(self.pieces.roots)
        self.units = unit_intervals(net, self.lower, self.upper)  # of all pieces, each (pieces, units)

    def run(self) -> None:
        """Decide input by input and piece by piece."""
        each = np.searchsorted(self.rows, np.arange(self.start, self.start + self.count + 1))
        for row in range(self.start, self.start + self.count):
            first, last = each[row - self.start : row - self.start + 2].tolist()
            for number in range(first, last):
                if not self.findings.unfair[row]:
                    if self.findings.out_of_time:
                        return
                    self._decide(row, number)
            self.findings.mark_done([row])
            self.findings.report_progress()

    def _decide(self, row: int, number: int) -> None:
        where = Piece(row, number, self.pieces, [(low[number], high[number]) for low, high in self.units])
        encoded, milp = self._encode(where)
        for direction in _directions(int(self.findings.classes[row]), self.net.outputs):
            tree = ProofTree(self.net, self.findings, where, direction)
            if encoded is not None and milp is not None:
                tree.guide = self._solve(tree, encoded, replace(milp, cost=direction @ encoded.A))
            tree.run()
            if self.findings.unfair[row]:
                return

    def _encode(self, where: Piece) -> tuple[EncodedNetwork | None, Milp | None]:
        """Return the piece as a MILP without a cost, or None if numbers overflow."""
        roots, columns = self.pieces.roots.take(np.array([where.piece])), self.pieces.columns
        # t counts lattice points from the lowest one; on a continuous column it is the distance from the low end.
        t = (roots.high - roots.low)[0]
        first, last = (ends[0] for ends in self.pieces.unrounded(roots))
        base = self.lower[where.piece].astype(np.float64)
        base[columns] = first
        A = np.zeros((self.net.inputs, len(t)))
        A[columns, np.arange(len(t))] = np.divide(last - first, t, out=np.zeros_like(t), where=t > 0)
        try:
            with np.errstate(all="ignore"):
                encoded = encode_network(self.net, A, base, t, self.pieces.lattice, where.units)
            return encoded, encoded.builder.build()
        except FairmendError:  # a coefficient is not finite; the tree does without a guide
            return None, None

    def _solve(self, tree: ProofTree, encoded: EncodedNetwork, milp: Milp) -> Guide | None:
        """Let the solver find the least margin, try its minimiser as a witness, and return a guide for the proof."""
        left = self.findings.seconds_left
        try:
            solution = get_solver("highs").solve(
                milp,
                time_limit=None if left == math.inf else max(0.0, _SHARE * left),
                threads=1,
                seed=self.seed,
            )
            if solution.x is not None:
                tree.try_point(solution.x[encoded.inputs])
            return Guide(encoded, Relaxation(milp))
        except FairmendError:  # the solver does not accept a coefficient
            return None


def _directions(own: int, outputs: int) -> Floats:
    """Return rows (competitors, outputs) whose products with the logits are the margins of class `own`."""
    if outputs == 1:
        return np.array([[1.0 if own == 1 else -1.0]])
    return np.delete(np.eye(outputs)[own] - np.eye(outputs), own, axis=0)
