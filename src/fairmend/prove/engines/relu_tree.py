"""A rigorous proof of a margin over one piece: branch and bound over the sides of knots and over the box.

A node is a box with an interval for each input of a function. It is done if a rigorous bound (`bounds.dual`)
exceeds what must be proven, or shows that the node contains no point. The multipliers of that bound come from a linear
program. No answer of the solver is taken for exact, as the bound holds for any multipliers. Otherwise the interval of
one unit is cut at a knot, or the box is split, and small sets of points are evaluated one by one.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.bounds.dual import DualBound, Interval, Intervals, dual_bound, knots_of, tightened
from fairmend.milp import Relaxation, Status
from fairmend.network import Network
from fairmend.network.decision import lower_margins
from fairmend.prove.engines.boxes import MOST_TWINS, Boxes, Pieces
from fairmend.prove.engines.enumerate import decide_points
from fairmend.prove.engines.findings import TIME_LIMIT, WITHIN_ROUNDING, Findings, between_adjacent
from fairmend.prove.engines.relu_milp import EncodedNetwork, unit_intervals
from fairmend.prove.margin import compute_margins, margin_error, proves_class, rounding_slack

_LEAF = 64  # points that are evaluated one by one
_FEW = 4096  # points; boxes of fewer are split before units are
_NODES_AFTER_FAILURE = 1000  # that are searched for a witness once a node cannot be proven


class Piece(NamedTuple):
    """What the tree must prove: the class of input `row` for all of piece `piece`, with the intervals of its units."""

    row: int
    piece: int
    pieces: Pieces
    units: Intervals


class Guide(NamedTuple):
    """The network as constraints, and their linear relaxation, which minimises the direction that is to be proven."""

    encoded: EncodedNetwork
    relaxation: Relaxation


class _Node(NamedTuple):
    """A box in coordinates, (1, varying), the encoded box (inputs,) around it, and the interval of each unit."""

    box: Boxes
    encoded: Interval
    units: Intervals


class ProofTree:
    """Branch and bound for one piece: direction·logits, (outputs,), is positive; without a guide only by lines."""

    def __init__(
        self, net: Network, findings: Findings, where: Piece, direction: Floats, guide: Guide | None = None
    ) -> None:
        self.net, self.findings, self.where, self.direction = net, findings, where, direction
        self.guide = guide
        self.pieces, self.rows = where.pieces, np.array([where.row])
        self.classes = findings.classes[self.rows]
        self.root = self.pieces.roots.take(np.array([where.piece]))
        self.knots = [knots_of(a, len(low)) for a, (low, _) in zip(net.activations, where.units, strict=True)]
        self.finite = bool(np.isfinite(self.pieces.sizes(self.root)[0]))

    def run(self) -> None:
        """Prove the margin, find a witness, or record why neither is possible; or stop when the time is up."""
        order = count()  # of equal bounds, the oldest node first
        nodes = [(-np.inf, next(order), _Node(self.root, self._encode(self.root), self.where.units))]
        patience = _NODES_AFTER_FAILURE
        while nodes and patience and not self.findings.unfair[self.where.row]:
            if self.findings.out_of_time:
                self.findings.mark_unproven(self.rows, TIME_LIMIT)
                return
            _, _, node = heapq.heappop(nodes)
            bound, children = self._step(node)
            for child in children:
                heapq.heappush(nodes, (bound, next(order), child))
            patience -= self.findings.is_unproven(self.where.row)

    def _step(self, node: _Node) -> tuple[float, list[_Node]]:
        """Return the node's bound and what is left to prove of it."""
        units = tightened(self.net, node.encoded, node.units)
        if units is None:
            return np.inf, []
        node = node._replace(units=units)
        found = dual_bound(self.net, self.direction, node.encoded, units)
        if self._proves(found.bound, node):
            return np.inf, []
        found, empty = self._improve(found, node)
        if empty or self._proves(found.bound, node):
            return np.inf, []
        self._try_corner(node, found)
        return found.bound, self._split(node, found)

    def _proves(self, bound: float, node: _Node) -> bool:
        """Return whether a bound proves the class; on a lattice also for inference, as enumeration would say."""
        margin = lower_margins(np.array([bound]), self.classes, self.net.threshold)
        if not proves_class(self.net, margin, self.classes)[0]:
            return False
        return not self.finite or margin[0] > self._error(node)[0]

    def _error(self, node: _Node) -> Floats:
        """Return how far a margin from inference can be from the real one in a node: (1,)."""
        lower, upper = node.encoded
        return margin_error(self.net, lower[None], upper[None], self.classes)

    def _improve(self, found: DualBound, node: _Node) -> tuple[DualBound, bool]:
        """Return the better of a bound and that of the linear program, and whether the node has no points."""
        if self.guide is None:
            return found, False
        solution = self.guide.relaxation.solve(*self._variable_bounds(self.guide, node), self.findings.seconds_left)
        if solution.x is not None:
            self.try_point(solution.x[self.guide.encoded.inputs])
        if solution.multipliers is None:
            return found, False
        given = self._unit_multipliers(self.guide.encoded, solution.multipliers)
        if solution.status is Status.INFEASIBLE:
            nothing = np.zeros_like(self.direction)
            return found, dual_bound(self.net, nothing, node.encoded, node.units, given).bound > 0
        other = dual_bound(self.net, self.direction, node.encoded, node.units, given)
        return max(found, other, key=lambda each: each.bound), False

    def _variable_bounds(self, guide: Guide, node: _Node) -> tuple[Floats, Floats]:
        """Return bounds of the guide's variables: the node's box, and the sides of the knots that its units are on."""
        lower, upper = guide.relaxation.milp.lower.copy(), guide.relaxation.milp.upper.copy()
        inputs = guide.encoded.inputs
        lower[inputs], upper[inputs] = node.box.low[0] - self.root.low[0], node.box.high[0] - self.root.low[0]
        for knots, (low, high) in zip(guide.encoded.knots, node.units, strict=True):
            for knot in knots:
                above = low[knot.units] >= knot.knots
                lower[knot.active] = above
                upper[knot.active] = above | (high[knot.units] > knot.knots)
        return lower, upper

    def _unit_multipliers(self, encoded: EncodedNetwork, of_rows: Floats) -> list[Floats]:
        """Return the multiplier of each unit's input, NaN where the linear program has no variable for the unit."""
        given = [np.full(len(low), np.nan) for low, _ in self.where.units]
        for parts, into in zip(encoded.rows, given, strict=True):
            for part in parts:
                into[part.units] = np.nan_to_num(into[part.units]) + (part.slopes * of_rows[part.rows]).sum(axis=0)
        return given

    def try_point(self, t: Floats) -> None:
        """Try a point as a witness: t (varying,) counts from the lowest coordinates of the piece."""
        low, high = self.root.low[0], self.root.high[0]
        at = low + np.clip(np.nan_to_num(t), 0.0, high - low)
        self._try(np.clip(np.where(self.pieces.lattice, np.rint(at), at), low, high))

    def _try_corner(self, node: _Node, found: DualBound) -> None:
        """Try the middle of the box, and the corner where the linear bound is least."""
        rising = found.inputs[self.pieces.columns] > 0
        self._try(np.where(rising, node.box.low[0], node.box.high[0]))
        self._try(self.pieces.middle(node.box)[0])

    def _try(self, at: Floats) -> None:
        point = self.pieces.points(self.root.piece, at[None])
        differs, margin = compute_margins(self.net, point, self.classes)
        if differs[0]:
            self.findings.try_witnesses(self.rows, point, margin)

    def _split(self, node: _Node, found: DualBound) -> list[_Node]:
        """Return two parts of a node, or none if it was decided point by point or cannot be proven."""
        size, can = self.pieces.sizes(node.box)[0], self.pieces.splittable(node.box)[0]
        if size <= (_LEAF if can.any() else MOST_TWINS):
            _, points = self.pieces.all_points(node.box)
            rows, errors = np.repeat(self.rows, len(points)), np.repeat(self._error(node), len(points))
            decide_points(self.net, self.findings, rows, points, errors)
            return []
        unit = None if size <= _FEW else self._unit_to_cut(node, found)
        if unit is not None:
            return self._cut(node, *unit)
        if not self.finite:
            slack = rounding_slack(self.net, *(end[None] for end in node.encoded))[0]
            if not lower_margins(np.array([found.bound]), self.classes, self.net.threshold)[0] < -slack:
                self.findings.mark_unproven(self.rows, WITHIN_ROUNDING)
                return []
        if not can.any():
            self.findings.mark_unproven(self.rows, between_adjacent(self.net.dtype))
            return []
        lower, upper = node.encoded
        change = np.abs(found.inputs * (upper - lower))[self.pieces.columns]
        column = np.where(can, np.nan_to_num(change), -1.0).argmax()
        halves = self.pieces.split(node.box, np.array([column], dtype=np.int64))
        return [self._shrunk(node, half) for half in halves]

    def _unit_to_cut(self, node: _Node, found: DualBound) -> tuple[int, int, float] | None:
        """Return the function, the unit and the knot that cost the bound most, or None if no unit crosses one."""
        best, chosen = -1.0, None
        for number, ((low, high), a) in enumerate(zip(node.units, found.coefficients, strict=True)):
            for knot in self.knots[number]:
                crosses = (low < knot) & (knot < high)
                if crosses.any():
                    with np.errstate(all="ignore"):
                        cost = np.nan_to_num(np.abs(a) * ((knot - low) / (high - low)) * (high - knot))
                    unit = int(np.where(crosses, cost, -1.0).argmax())
                    if cost[unit] > best:
                        best, chosen = float(cost[unit]), (number, unit, float(knot[unit]))
        return chosen

    def _cut(self, node: _Node, number: int, unit: int, knot: float) -> list[_Node]:
        """Cut the interval of a unit at a knot, which belongs to both parts."""
        low, high = node.units[number]
        upper_low, lower_high = low.copy(), high.copy()
        upper_low[unit], lower_high[unit] = knot, knot
        parts = ((upper_low, high), (low, lower_high))
        return [node._replace(units=[*node.units[:number], part, *node.units[number + 1 :]]) for part in parts]

    def _shrunk(self, node: _Node, half: Boxes) -> _Node:
        """Return the node on half of its box, with the intervals of both."""
        encoded = self._encode(half)
        fresh = unit_intervals(self.net, *(end[None] for end in encoded))
        units = [
            (np.maximum(low, new_low[0]), np.minimum(high, new_high[0]))
            for (low, high), (new_low, new_high) in zip(node.units, fresh, strict=True)
        ]
        return _Node(half, encoded, units)

    def _encode(self, box: Boxes) -> Interval:
        lower, upper = self.pieces.ends(box)
        return lower[0].astype(np.float64), upper[0].astype(np.float64)
