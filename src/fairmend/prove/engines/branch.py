"""Engine "branch": branch and bound over the columns that vary, on rigorous linear bounds, many boxes at a time.

A box is done if its bounds prove the class of its input. Otherwise a few of its points are tried as witnesses, and the
box is split in two, in the column where the network changes most. Boxes of few lattice points are enumerated, which
costs less than a bound, so the search ends on finite neighbourhoods. Continuous columns are halved until the proof
succeeds, a witness is found, the time is up, or no further number of the network's precision lies between the ends.

On lattices a proof must also exceed the rounding error of inference, or the box is split further. The verdict is
therefore the one that enumeration would give.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.device import current_device
from fairmend.base.threads import few_threads
from fairmend.network import Network
from fairmend.prove.engines.boxes import MOST_TWINS, Boxes, Pieces, inputs_per_batch
from fairmend.prove.engines.enumerate import decide_points
from fairmend.prove.engines.findings import WITHIN_ROUNDING, Findings, between_adjacent
from fairmend.prove.margin import compute_margins, margin_error, margin_lower_bound, proves_class, rounding_slack
from fairmend.spec import Spec

_LEAF = 64  # points; bounding one box takes about as long as evaluating this many
_BATCH = 4096  # boxes; fewer for large networks or many inputs
_ENTRIES = 16_000_000  # in an array of all points of a batch of small boxes
_WORK = 200_000_000  # multiplications in a batch, so that the time limit is checked often enough
_WORK_ON_GPU = 500 * _WORK  # about as many times as fast, in float64
_LEAST_SHARE = 0.1  # the weight of a column in which the network seems not to change


def certify_by_branching(net: Network, spec: Spec, X: FloatArray, findings: Findings) -> None:
    """Decide each input, until the time limit."""
    step, batch = inputs_per_batch(spec), boxes_per_batch(net)
    with few_threads(min(batch, len(X)) * max(affine.weight.size for affine in net.affines)):
        for start in range(0, len(X), step):
            if findings.out_of_time:
                return
            _BranchAndBound(net, spec, X[start : start + step], findings, start, batch).run()


def boxes_per_batch(net: Network) -> int:
    """Return how many boxes are bounded together."""
    sizes = [affine.weight.shape for affine in net.affines]
    # Every layer's outputs are traced back through all layers before it.
    per_box = sum(out * a * b for i, (out, _) in enumerate(sizes) for a, b in sizes[: i + 1])
    work = _WORK if current_device() is None else _WORK_ON_GPU
    return max(4, min(_BATCH, work // int(per_box), _ENTRIES // (_LEAF * net.inputs)))


class _BranchAndBound:
    """The open boxes of a batch of inputs, as one array; `start` is the number of the first input."""

    def __init__(self, net: Network, spec: Spec, X: FloatArray, findings: Findings, start: int, batch: int) -> None:
        self.net, self.findings, self.batch = net, findings, batch
        self.pieces = Pieces(spec, X)
        self.rows = self.pieces.owner + start  # the input of each piece, (pieces,)
        self.open = self.pieces.roots
        self.all = np.arange(start, start + len(X))
        width = self.open.high - self.open.low
        self.root_width = np.where(width > 0, width, 1.0)  # (pieces, varying)

    def run(self) -> None:
        """Decide and split boxes until none is open or the time is up."""
        while len(self.open.piece) and not self.findings.out_of_time:
            now, later = self._choose()
            self.open = Boxes.join([later, *self._step(now)])
            self.open = self.open.take(~self.findings.unfair[self.rows[self.open.piece]])
            still = np.unique(self.rows[self.open.piece])
            self.findings.mark_done(np.setdiff1d(self.all, still))
            self.findings.report_progress()

    def _choose(self) -> tuple[Boxes, Boxes]:
        """Return the next batch of boxes and the rest. It takes equally many of each input, newest first."""
        if len(self.open.piece) <= self.batch:
            return self.open, self.open.take(slice(0, 0))
        rows = self.rows[self.open.piece]
        order = np.argsort(rows, kind="stable")[::-1]
        firsts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        rank = np.empty(len(rows), dtype=np.int64)
        rank[order] = np.arange(len(rows)) - np.repeat(firsts, np.diff(firsts, append=len(rows)))
        now = np.zeros(len(rows), dtype=np.bool_)
        now[np.lexsort((rows, rank))[: self.batch]] = True
        return self.open.take(now), self.open.take(~now)

    def _step(self, boxes: Boxes) -> list[Boxes]:
        """Decide boxes, and return the halves of those that stay open."""
        few = self.pieces.sizes(boxes) <= _LEAF
        if few.any():
            self._decide_points(boxes.take(few))
        boxes = boxes.take(~few)
        boxes = boxes.take(~self.findings.unfair[self.rows[boxes.piece]])
        if not len(boxes.piece):
            return []
        change = self._try_points(boxes)
        still = np.logical_not(self.findings.unfair[self.rows[boxes.piece]])
        boxes, change = boxes.take(still), change[still]
        still = np.logical_not(self._prove(boxes))
        boxes, change = boxes.take(still), change[still]
        return self._split(boxes, change) if len(boxes.piece) else []

    def _decide_points(self, boxes: Boxes) -> None:
        box, points = self.pieces.all_points(boxes)
        rows = self.rows[boxes.piece]
        error = margin_error(self.net, *self.pieces.ends(boxes), self.findings.classes[rows])
        decide_points(self.net, self.findings, rows[box], points, error[box])

    def _decide_stuck(self, boxes: Boxes) -> None:
        """Decide boxes that cannot be split: list the points of finite ones; nothing lies within the others."""
        few = self.pieces.sizes(boxes) <= MOST_TWINS
        for each in np.flatnonzero(few).tolist():
            self._decide_points(boxes.take(slice(each, each + 1)))
        self.findings.mark_unproven(self.rows[boxes.piece[~few]], between_adjacent(self.net.dtype))

    def _try_points(self, boxes: Boxes) -> Floats:
        """Try as witnesses the middle of each box, the middle of each face, and the corner with the least margins.

        Return how much the margin changes from the middle along each column, (n, varying).
        """
        middle = self.pieces.middle(boxes)
        base = self._try_point(boxes, middle)
        change, corner = np.zeros_like(middle), middle.copy()
        for k in range(middle.shape[1]):
            at_low, at_high = middle.copy(), middle.copy()
            at_low[:, k], at_high[:, k] = boxes.low[:, k], boxes.high[:, k]
            low, high = self._try_point(boxes, at_low), self._try_point(boxes, at_high)
            change[:, k] = np.maximum(np.abs(low - base), np.abs(high - base))
            corner[:, k] = np.where(low < high, boxes.low[:, k], boxes.high[:, k])
        if middle.shape[1] > 1:
            self._try_point(boxes, corner)
        return change

    def _try_point(self, boxes: Boxes, at: Floats) -> Floats:
        """Try one point of each box, with coordinates (n, varying), as a witness; return the margins (n,)."""
        rows, points = self.rows[boxes.piece], self.pieces.points(boxes.piece, at)
        differs, margin = compute_margins(self.net, points, self.findings.classes[rows])
        if differs.any():
            self.findings.try_witnesses(rows[differs], points[differs], margin[differs])
        return margin

    def _prove(self, boxes: Boxes) -> Bools:
        """Return which boxes bounds decide: they prove the class, or come within rounding error of 0."""
        if not len(boxes.piece):
            return np.zeros(0, dtype=np.bool_)
        rows = self.rows[boxes.piece]
        lower, upper = self.pieces.ends(boxes)
        margin = margin_lower_bound(self.net, lower, upper, self.findings.classes[rows])
        proven = proves_class(self.net, margin, self.findings.classes[rows])
        finite = np.isfinite(self.pieces.sizes(boxes))
        lattice = np.flatnonzero(proven & finite)
        if len(lattice):
            proven[lattice] = self._above_error(boxes.take(lattice), margin[lattice])
        # Splitting does not make float64 bounds more accurate than float64. On a lattice, points decide.
        unproven = np.flatnonzero(~proven & ~finite)
        if len(unproven):
            slack = rounding_slack(self.net, lower[unproven], upper[unproven])
            too_close = unproven[margin[unproven] > -slack]
            self.findings.mark_unproven(rows[too_close], WITHIN_ROUNDING)
            proven[too_close] = True
        return proven

    def _above_error(self, boxes: Boxes, margin: Floats) -> Bools:
        """Return which margins (n,) exceed the error of inference; the cheapest bound that shows it is enough."""
        above = margin > self.root_error[boxes.piece]
        for thorough in (False, True):
            close = np.flatnonzero(~above)
            if len(close):
                near = boxes.take(close)
                classes = self.findings.classes[self.rows[near.piece]]
                error = margin_error(self.net, *self.pieces.ends(near), classes, thorough=thorough)
                above[close] = margin[close] > error
        return np.asarray(above)

    @cached_property
    def root_error(self) -> Floats:
        """The error of inference in each whole piece, (pieces,): also a bound for every part of it."""
        return margin_error(self.net, *self.pieces.ends(self.pieces.roots), self.findings.classes[self.rows])

    def _split(self, boxes: Boxes, change: Floats) -> list[Boxes]:
        """Split each box in the column where the margin changes most, weighted by the width of the box."""
        can = self.pieces.splittable(boxes)
        stuck = np.asarray(~can.any(axis=1))
        if stuck.any():
            self._decide_stuck(boxes.take(stuck))
            boxes, change, can = boxes.take(np.flatnonzero(~stuck)), change[~stuck], can[~stuck]
        if not len(boxes.piece):
            return []
        relative = (boxes.high - boxes.low) / self.root_width[boxes.piece]
        largest = change.max(axis=1, keepdims=True)
        share = np.divide(change, largest, out=np.zeros_like(change), where=largest > 0)
        score = np.where(can, (share + _LEAST_SHARE) * relative, -1.0)
        column: Ints = score.argmax(axis=1).astype(np.int64)
        return list(self.pieces.split(boxes, column))
