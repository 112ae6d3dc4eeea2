"""Engine "milp": the least margin of the input's class, by mixed-integer programming over each piece.

The paper measures CUR in this way, and it is a second opinion on the other engines. The solver only guides: its
minimiser is tried as a witness, and where there is none, branch and bound proves the class with the kernel's bounds. A
wrong answer of the solver can cost time or a verdict, but it never makes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.milp import Milp, MilpBuilder, get_solver
from fairmend.network import Activation, Network
from fairmend.network.operations import Lookup, Operation
from fairmend.prove.engines.branch import Pieces, certify_by_branching, inputs_per_batch
from fairmend.prove.engines.findings import ClassFindings
from fairmend.prove.kernel_bounds import has_lines, is_piecewise_linear
from fairmend.spec import Spec

# The network over one box as mixed-integer constraints, and the unit intervals that these need.
#
# The encoding is that of Tjeng, Xiao and Tedrake (2019), "Evaluating Robustness of Neural Networks with Mixed Integer
# Programming", with which the paper measures CUR: one binary for each unit and each of its knots that the unit can be
# on either side of. Its coefficients are rounded, so it guides a proof and is none. The intervals are rigorous.


Interval = tuple[Floats, Floats]
"""Lowest and highest values, each ``(units,)``."""

_Expression = tuple[Floats, Floats]
"""The numbers of a node as A·v + c in the variables v so far: A ``(units, variables)``, c ``(units,)``."""


class EncodedNetwork(NamedTuple):
    """A network over one box: its logits are A·v + c in the builder's variables v, the first of which are `inputs`."""

    builder: MilpBuilder
    inputs: Ints
    A: Floats
    c: Floats


def encode_network(
    net: Network, A: Floats, c: Floats, highest: Floats, whole: Bools, units: Sequence[Interval]
) -> EncodedNetwork:
    """Return the network over x = A·t + c, 0 <= t <= highest: A (inputs, varying), c (inputs,), the rest (varying,).

    Where `whole`, t takes whole numbers only. `units` holds intervals (units,) of this box. A unit that is on one side
    of every knot is its own linear expression and needs no variable. A row of a table that is not fixed is any vector
    in the hull of the rows: splitting the box fixes it.
    """
    encoder = _Encoder(A, c, highest, whole)
    found: list[_Expression] = [(A, c)]
    intervals = iter(units)
    for node in net.nodes[1:]:
        sources = [found[source] for source in node.sources]
        if isinstance(node.operation, Activation):
            found.append(encoder.function(node.operation, sources[0], next(intervals)))
        else:
            found.append(encoder.linear(node.operation, sources))
    logits = encoder.padded(found[-1])
    return EncodedNetwork(encoder.builder, encoder.inputs, *logits)


class _Encoder:
    """Variables and rows so far."""

    def __init__(self, A: Floats, c: Floats, highest: Floats, whole: Bools) -> None:
        self.builder, self.highest = MilpBuilder(), highest
        self.inputs = self.builder.add_variables(len(highest), 0.0, highest, integer=whole)
        self.count = len(highest)

    def padded(self, expression: _Expression) -> _Expression:
        """Return an expression with a coefficient, perhaps 0, for each variable."""
        A, c = expression
        return np.pad(A, ((0, 0), (0, self.count - A.shape[1]))), c

    def _add(self, count: int, lower: object, upper: object, integer: bool = False) -> Ints:
        self.count += count
        return self.builder.add_variables(count, lower, upper, integer=integer)  # type: ignore[arg-type]

    def linear(self, operation: Operation, sources: Sequence[_Expression]) -> _Expression:
        """Return an operation that adds, multiplies or copies."""
        if isinstance(operation, Lookup):
            return self._look_up(operation, *sources[0])
        every = [self.padded(source) for source in sources]
        numbers = operation.numbers(every[0][1])
        A, c = (operation.combine([part[i].T for part in every], numbers) for i in (0, 1))
        return A.T, c if numbers is None else c + numbers[1]

    def _look_up(self, operation: Lookup, A: Floats, c: Floats) -> _Expression:
        reach = A[:, : len(self.highest)] * self.highest
        ends = np.minimum(reach, 0).sum(axis=1) + c, np.maximum(reach, 0).sum(axis=1) + c
        low, high = operation.hull(*(np.rint(end) for end in ends))  # whole numbers but for rounding
        if (low == high).all():
            return np.zeros((low.shape[1], self.count)), low[0].astype(np.float64)
        variables = self._add(low.shape[1], low[0], high[0])
        return np.eye(self.count)[variables], np.zeros(low.shape[1])

    def function(self, activation: Activation, expression: _Expression, z: Interval) -> _Expression:
        """Return a function of an expression, and add the variables and rows that it needs."""
        A, c = self.padded(expression)
        if activation.name in ("relu", "leaky_relu") and activation.slope < 1:
            return self._convex(activation.slope, A, c, z)
        return self._by_knots(activation, A, c, z)

    def _convex(self, slope: float, A: Floats, c: Floats, z: Interval) -> _Expression:
        """Return max(z, slope·z) for z = A·v + c. An unstable unit y with z in [l, u] becomes

        y >= z,   y >= s·z,   y <= z - (1 - s)·l·(1 - a),   y <= s·z + (1 - s)·u·a,   a binary.
        """
        low, high = z
        unstable = np.flatnonzero((low < 0) & (high > 0))
        factor = np.where(low >= 0, 1.0, slope)
        before, count = A.shape[1], len(unstable)
        after = np.zeros((len(c), before + 2 * count))
        after[:, :before] = A * factor[:, None]
        constant = c * factor
        if not count:
            return after, constant
        z_A, shift, low, high = A[unstable], c[unstable], low[unstable], high[unstable]
        self._add(count, slope * low if slope > 0 else 0.0, high)
        self._add(count, 0.0, 1.0, integer=True)
        every = np.arange(before + 2 * count)
        one, none = np.eye(count), np.zeros((count, count))
        drop, rise = (1 - slope) * low, (1 - slope) * high
        self.builder.add_rows(every, np.hstack([-z_A, one, none]), lower=shift)
        self.builder.add_rows(every, np.hstack([-slope * z_A, one, none]), lower=slope * shift)
        self.builder.add_rows(every, np.hstack([-z_A, one, -np.diag(drop)]), upper=shift - drop)
        self.builder.add_rows(every, np.hstack([-slope * z_A, one, -np.diag(rise)]), upper=slope * shift)
        after[unstable] = 0.0
        constant[unstable] = 0.0
        after[unstable, before + np.arange(count)] = 1.0
        return after, constant

    def _by_knots(self, activation: Activation, A: Floats, c: Floats, z: Interval) -> _Expression:
        """Return f(z) for z = A·v + c as its first line and, for each knot k, a change of slope times max(z - k, 0).

        An unstable unit is a variable y, equal to that sum by a row; each of its unstable knots has r = max(z - k, 0).
        """
        low, high = z
        lines, knots = activation.function.lines, knots_of(activation, len(low))
        slopes = np.array([np.broadcast_to(np.asarray(slope, np.float64), low.shape) for slope, _ in lines])
        slope, constant = slopes[0].copy(), np.full(len(low), float(lines[0][1]))
        crossed = np.flatnonzero(((low < knots) & (knots < high)).any(axis=0))
        parts: list[tuple[Ints, Ints, Floats]] = []  # units, their variables r, and the coefficients of these
        for knot, change in zip(knots, np.diff(slopes, axis=0), strict=True):
            above = low >= knot
            slope[above] += change[above]
            constant[above] -= (change * knot)[above]
            unstable = np.flatnonzero((low < knot) & (knot < high))
            if len(unstable):
                parts.append((unstable, self._above(A, c, z, knot, unstable), change[unstable]))
        y = self._outputs(activation, z, crossed)
        after, shift = self.padded((A * slope[:, None], c * slope + constant))
        if len(crossed):
            values = -after[crossed]
            values[np.arange(len(crossed)), y] = 1.0
            for units, variables, changes in parts:
                values[np.searchsorted(crossed, units), variables] -= changes
            self.builder.add_rows(np.arange(self.count), values, lower=shift[crossed], upper=shift[crossed])
            after[crossed], shift[crossed] = np.eye(self.count)[y], 0.0
        return after, shift

    def _outputs(self, activation: Activation, z: Interval, crossed: Ints) -> Ints:
        ends = np.stack([*z, *(np.clip(knot, *z) for knot in knots_of(activation, len(z[0])))])
        activation.apply(ends)  # least and largest at an end or at a knot
        return self._add(len(crossed), ends.min(axis=0)[crossed], ends.max(axis=0)[crossed])

    def _above(self, A: Floats, c: Floats, z: Interval, knots: Floats, units: Ints) -> Ints:
        """Return variables r = max(z - k, 0) of units that can be on either side of k."""
        low, high = (end[units] - knots[units] for end in z)
        r = self._add(len(units), 0.0, high)
        active = self._add(len(units), 0.0, 1.0, integer=True)
        z_A, shift = self.padded((A[units], c[units] - knots[units]))
        one, switch = np.eye(self.count)[r], np.eye(self.count)[active]
        every = np.arange(self.count)
        self.builder.add_rows(every, one - z_A, lower=shift)
        self.builder.add_rows(every, one - z_A - low[:, None] * switch, upper=shift - low)
        self.builder.add_rows(every, one - high[:, None] * switch, upper=0.0)
        return r


def knots_of(activation: Activation, width: int) -> Floats:
    """Return where a piecewise linear function changes its slope, ``(knots, units)``; infinite where it does not.

    A knot that is not a float64 number is rounded.
    """
    lines = activation.function.lines
    slopes = np.array([np.broadcast_to(np.asarray(slope, np.float64), width) for slope, _ in lines])
    change, step = np.diff(slopes, axis=0), np.diff([intercept for _, intercept in lines])[:, None]
    return np.where(change == 0, np.inf, np.divide(0.0 - step, change, out=np.zeros_like(change), where=change != 0))


_INPUTS = 256  # in a batch, for the bounds
_SHARE = 0.5  # of the time left for one MILP; the rest is for the proof


def certify_by_milp(spec: Spec, findings: ClassFindings, seed: int = 0) -> None:
    """Decide each input, until the time limit."""
    net = findings.net
    if not is_piecewise_linear(net):
        names = ", ".join(sorted({node.operation.kind for node in net.nodes if not has_lines(node.operation)}))
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
