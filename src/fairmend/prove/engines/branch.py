"""Engine "branch": branch and bound over the columns that vary, on the kernel's bounds, many boxes at a time.

A box is done if its bounds prove the claim. Otherwise a few of its points are tried as witnesses, and the box is split
in two, in the column where the network changes most. Boxes of few lattice points are enumerated, which costs less than
a bound, so the search ends on finite neighbourhoods. Continuous columns are halved until the proof succeeds, a witness
is found, the time is up, or no further number of the network's precision lies between the ends.

A claim about classes is proven box by box. On lattices a proof must also exceed the rounding error of inference, or the
box is split further: the verdict is therefore the one that enumeration would give. A claim about scores is proven once
the highest bound of all boxes minus the lowest is at most delta; those boxes are split whose bounds exceed the scores
found so far by more than half of what delta leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.threads import few_threads
from fairmend.network import Network
from fairmend.prove.engines.boxes import MOST_TWINS, Boxes, Pieces, inputs_per_batch
from fairmend.prove.engines.findings import (
    ClassFindings,
    Findings,
    ScoreFindings,
    ScoreRanges,
    between_adjacent,
)
from fairmend.spec import Spec

_LEAF = 64  # points; bounding one box takes about as long as evaluating this many
_BATCH = 4096  # boxes; fewer for large networks or many inputs
_ENTRIES = 16_000_000  # in an array of all points of a batch of small boxes
_WORK = 200_000_000  # multiplications in a batch, so that the time limit is checked often enough
_LEAST_SHARE = 0.1  # the weight of a column in which the network seems not to change
_ROUNDING = 1e-12  # of the scores: what is left of delta must exceed it, or no float64 bound can prove it


def certify_by_branching(spec: Spec, findings: Findings) -> None:
    """Decide each input that is not decided, until the time limit."""
    net, left = findings.net, np.flatnonzero(~findings.unfair)
    step, batch = inputs_per_batch(spec), boxes_per_batch(net)
    with few_threads(min(batch, len(left)) * max(affine.weight.size for affine in net.affines)):
        for start in range(0, len(left), step):
            if findings.out_of_time:
                return
            rows = left[start : start + step]
            if isinstance(findings, ScoreFindings):
                _ScoreSearch(spec, findings, rows, batch).run()
            elif isinstance(findings, ClassFindings):
                _ClassSearch(spec, findings, rows, batch).run()


def boxes_per_batch(net: Network) -> int:
    """Return how many boxes are bounded together."""
    sizes = [affine.weight.shape for affine in net.affines]
    # Every layer's outputs are traced back through all layers before it.
    per_box = sum(out * a * b for i, (out, _) in enumerate(sizes) for a, b in sizes[: i + 1])
    return max(4, min(_BATCH, _WORK // int(per_box), _ENTRIES // (_LEAF * net.inputs)))


class _Search:
    """Boxes of the neighbourhoods of the inputs ``inputs``, in the coordinates that are split."""

    def __init__(self, spec: Spec, findings: Findings, inputs: Ints, batch: int) -> None:
        self.findings, self.batch, self.inputs = findings, batch, inputs
        self.pieces = Pieces(spec, findings.X[inputs])
        self.rows = inputs[self.pieces.owner]  # the input of each piece, (pieces,)
        width = self.pieces.roots.high - self.pieces.roots.low
        self.root_width = np.where(width > 0, width, 1.0)  # (pieces, varying)

    def try_faces(self, boxes: Boxes, values: Callable[[Floats], Floats]) -> tuple[Floats, Floats, Floats]:
        """Try the middle of each box, the middle of each face, and the corners with the lowest and highest values.

        ``values`` tries the points with given coordinates (n, varying), and returns numbers (n, outputs). Return how
        much these change from the middle along each column (n, varying), and both corners.
        """
        middle = self.pieces.middle(boxes)
        base = values(middle)
        change, lowest, highest = np.zeros_like(middle), middle.copy(), middle.copy()
        for k in range(middle.shape[1]):
            at_low, at_high = middle.copy(), middle.copy()
            at_low[:, k], at_high[:, k] = boxes.low[:, k], boxes.high[:, k]
            low, high = values(at_low), values(at_high)
            change[:, k] = np.maximum(np.abs(low - base), np.abs(high - base)).max(axis=1)
            rises = low[:, 0] < high[:, 0]
            lowest[:, k] = np.where(rises, boxes.low[:, k], boxes.high[:, k])
            highest[:, k] = np.where(rises, boxes.high[:, k], boxes.low[:, k])
        return change, lowest, highest

    def split(self, boxes: Boxes, change: Floats) -> list[Boxes]:
        """Split each box, one that can be, in the column of the largest change, weighted by the width of the box."""
        relative = (boxes.high - boxes.low) / self.root_width[boxes.piece]
        largest = change.max(axis=1, keepdims=True, initial=0.0)
        share = np.divide(change, largest, out=np.zeros_like(change), where=largest > 0)
        weight = np.where(self.pieces.splittable(boxes), (share + _LEAST_SHARE) * relative, -1.0)
        return list(self.pieces.split(boxes, weight.argmax(axis=1).astype(np.int64)))


class _ClassSearch(_Search):
    """The open boxes, as one array."""

    def __init__(self, spec: Spec, findings: ClassFindings, inputs: Ints, batch: int) -> None:
        super().__init__(spec, findings, inputs, batch)
        self.known, self.bounds = findings, findings.bounds
        self.open = self.pieces.roots

    def run(self) -> None:
        """Decide and split boxes until none is open or the time is up."""
        while len(self.open.piece) and not self.findings.out_of_time:
            now, later = self._choose()
            self.open = Boxes.join([later, *self._step(now)])
            self.open = self.open.take(~self.findings.unfair[self.rows[self.open.piece]])
            still = np.unique(self.rows[self.open.piece])
            self.findings.mark_done(np.setdiff1d(self.inputs, still))
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
        stuck = np.asarray(~self.pieces.splittable(boxes).any(axis=1))
        if stuck.any():
            self._decide_stuck(boxes.take(stuck))
            boxes, change = boxes.take(~stuck), change[~stuck]
        return self.split(boxes, change) if len(boxes.piece) else []

    def _decide_points(self, boxes: Boxes) -> None:
        self.known.add_boxes(self.rows[boxes.piece], *self.pieces.ends(boxes), *self.pieces.all_points(boxes))

    def _decide_stuck(self, boxes: Boxes) -> None:
        """Decide boxes that cannot be split: list the points of finite ones; nothing lies within the others."""
        few = self.pieces.sizes(boxes) <= MOST_TWINS
        for each in np.flatnonzero(few).tolist():
            self._decide_points(boxes.take(slice(each, each + 1)))
        self.findings.mark_unproven(self.rows[boxes.piece[~few]], between_adjacent(self.findings.net.dtype))

    def _try_points(self, boxes: Boxes) -> Floats:
        """Try points as witnesses; return how much the margin changes from the middle along each column."""

        def margins(at: Floats) -> Floats:
            return self.known.try_points(self.rows[boxes.piece], self.pieces.points(boxes.piece, at))[:, None]

        change, lowest, _ = self.try_faces(boxes, margins)
        if lowest.shape[1] > 1:
            margins(lowest)
        return change

    def _prove(self, boxes: Boxes) -> Bools:
        """Return which boxes bounds decide: they prove the class, or come within rounding error of 0."""
        if not len(boxes.piece):
            return np.zeros(0, dtype=np.bool_)
        rows = self.rows[boxes.piece]
        lower, upper = self.pieces.ends(boxes)
        classes = self.known.classes[rows]
        margin, covers = self.bounds.box_margins(lower, upper, classes)
        finite = np.isfinite(self.pieces.sizes(boxes))
        proven = np.where(finite, covers, self.bounds.proves_class(margin, classes))
        # The kernel's error includes that of a closing sigmoid or softmax, which decides no class here.
        close = np.flatnonzero(finite & ~covers & (margin > 0))
        if len(close):
            proven[close] = margin[close] > self.findings.error_over(rows[close], lower[close], upper[close])
        # Splitting does not make float64 bounds more accurate than float64. On a lattice, points decide.
        unproven = np.flatnonzero(~proven & ~finite)
        if len(unproven):
            slack = self.bounds.rounding_slack(lower[unproven], upper[unproven])
            too_close = unproven[margin[unproven] > -slack]
            self.findings.mark_unproven(rows[too_close], self.findings.within_rounding)
            proven[too_close] = True
        return np.asarray(proven)


class _Bounded(NamedTuple):
    """Boxes with bounds of what inference gives in them, low and high (n, outputs), and whether they can be split."""

    boxes: Boxes
    low: Floats
    high: Floats
    change: Floats
    open: Bools

    def take(self, chosen: Bools | Ints) -> _Bounded:
        """Return some of the boxes."""
        rest = self.low[chosen], self.high[chosen], self.change[chosen]
        return _Bounded(self.boxes.take(chosen), *rest, self.open[chosen])

    @staticmethod
    def join(parts: list[_Bounded]) -> _Bounded:
        """Return all boxes of all parts."""
        boxes, *rest = zip(*parts, strict=True)
        low, high, change, can_be_split = (np.concatenate(arrays) for arrays in rest)
        return _Bounded(Boxes.join(list(boxes)), low, high, change, can_be_split)


class _ScoreSearch(_Search):
    """All boxes of the inputs that are not decided, each with bounds of its scores."""

    def __init__(self, spec: Spec, findings: ScoreFindings, inputs: Ints, batch: int) -> None:
        super().__init__(spec, findings, inputs, batch)
        self.known, self.bounds, self.limit = findings, findings.bounds, findings.claim.limit
        self.outputs = findings.net.outputs
        self.undecided = np.zeros(len(findings.X), dtype=np.bool_)
        self.undecided[inputs] = True

    def run(self) -> None:
        """Bound and split boxes until every input is decided or the time is up."""
        bounded = self._bound(self.pieces.roots)
        while True:
            bounded = self._settle(bounded)
            if not self.undecided.any() or self.findings.out_of_time:
                return
            chosen = np.flatnonzero(self._keeps_open(bounded))[: max(1, self.batch)]
            rest = np.ones(len(bounded.open), dtype=np.bool_)
            rest[chosen] = False
            some = bounded.take(chosen)
            halves = self._bound(Boxes.join(self.split(some.boxes, some.change)))
            bounded = _Bounded.join([bounded.take(rest), halves])

    def _settle(self, bounded: _Bounded) -> _Bounded:
        """Decide the inputs that can be decided; return the boxes of the others."""
        owner, was = self.rows[bounded.boxes.piece], self.undecided.copy()
        over_all = ScoreRanges(len(was), self.outputs)
        over_all.add(owner, bounded.low, bounded.high)
        fair = was & over_all.within(self.limit)
        movable = np.zeros(len(was), dtype=np.bool_)
        movable[owner[self._keeps_open(bounded)]] = True
        for row in np.flatnonzero(was & ~fair).tolist():
            if self.known.try_extremes(row):
                self.undecided[row] = False
            elif self._room(row) <= 0:
                self.findings.mark_unproven([row], self.findings.within_rounding)
                self.undecided[row] = False
            elif not movable[row]:
                self.findings.mark_unproven([row], between_adjacent(self.findings.net.dtype))
                self.undecided[row] = False
        self.undecided &= ~fair
        self.findings.mark_done(np.flatnonzero(was & ~self.undecided))
        self.findings.report_progress()
        return bounded.take(self.undecided[owner])

    def _room(self, row: int) -> float:
        """Return how far bounds may exceed the scores found, on either side, for the proof to succeed."""
        seen, each = self.known.seen, np.arange(self.outputs)
        low = self.bounds.computed_scores(seen.at_low[row])[0][each, each]
        high = self.bounds.computed_scores(seen.at_high[row])[1][each, each]
        rounding = _ROUNDING * (1 + np.abs(seen.low[row]) + np.abs(seen.high[row]))
        return float(np.min(self.limit - (high - low) - rounding))

    def _keeps_open(self, bounded: _Bounded) -> Bools:
        """Return which boxes can be split and have bounds that exceed what their input can afford."""
        owner = self.rows[bounded.boxes.piece]
        low, high = self.known.seen.low, self.known.seen.high
        half = (self.limit - (high - low)) / 2
        beyond = (bounded.high > (high + half)[owner]) | (bounded.low < (low - half)[owner])
        return np.asarray(beyond.any(axis=1) & bounded.open & self.undecided[owner])

    def _bound(self, boxes: Boxes) -> _Bounded:
        """Return bounds of boxes, from their points where there are few; all points tried count as found."""
        count = len(boxes.piece)
        bounds, change = ScoreRanges(count, self.outputs), np.zeros(boxes.low.shape)
        can = self.pieces.splittable(boxes).any(axis=1)
        sizes = self.pieces.sizes(boxes)
        few = (sizes <= _LEAF) | (~can & (sizes <= MOST_TWINS))
        for part in _parts(np.flatnonzero(few), self.batch):
            box, points = self.pieces.all_points(boxes.take(part))
            self.known.seen.add(self.rows[boxes.piece[part]][box], points)
            bounds.add(part[box], *self.bounds.computed_scores(points))
        for part in _parts(np.flatnonzero(~few), self.batch):
            some = boxes.take(part)
            change[part] = self._try_points(some)
            bounds.add(part, *self.bounds.box_scores(*self.pieces.ends(some)))
        return _Bounded(boxes, bounds.low, bounds.high, change, np.asarray(can & ~few))

    def _try_points(self, boxes: Boxes) -> Floats:
        """Compute scores in each box; return how much they change from the middle along each column."""

        def scores(at: Floats) -> Floats:
            return self.known.seen.add(self.rows[boxes.piece], self.pieces.points(boxes.piece, at))

        change, lowest, highest = self.try_faces(boxes, scores)
        if lowest.shape[1] > 1:
            scores(lowest)
            scores(highest)
        return change


def _parts(numbers: Ints, most: int) -> list[Ints]:
    return [numbers[start : start + most] for start in range(0, len(numbers), most)]
