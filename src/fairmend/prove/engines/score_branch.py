"""Engine "branch" for claims about scores: branch and bound over the columns that vary, on rigorous bounds.

Boxes cover every neighbourhood, each with bounds of the scores that inference gives in it. An input is FAIR once the
highest of these bounds minus the lowest is at most delta. Otherwise the boxes are split whose bounds exceed the scores
found so far by more than half of what delta leaves. Boxes of few lattice points get the bounds of these points, so the
search ends on finite neighbourhoods. Continuous columns are halved until the proof succeeds, a witness is found, the
time is up, or rounding decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.threads import few_threads
from fairmend.network import Network
from fairmend.prove.engines.boxes import MOST_TWINS, Boxes, Pieces, inputs_per_batch
from fairmend.prove.engines.branch import boxes_per_batch
from fairmend.prove.engines.findings import between_adjacent
from fairmend.prove.engines.score_enumerate import ScoreBounds
from fairmend.prove.engines.score_findings import WITHIN_ROUNDING, ScoreExtremes, ScoreFindings
from fairmend.prove.score_bounds import bound_scores, bound_scores_at_points, score_error
from fairmend.spec import Spec

_LEAF = 64  # points; bounding one box takes about as long as evaluating this many
_LEAST_SHARE = 0.1  # the weight of a column in which the scores seem not to change
_ROUNDING = 1e-12  # of the scores: what is left of delta must exceed it, or no float64 bound can prove it


def certify_scores_by_branching(net: Network, spec: Spec, X: FloatArray, findings: ScoreFindings) -> None:
    """Decide each input, until the time limit."""
    step, batch = inputs_per_batch(spec), boxes_per_batch(net)
    with few_threads(min(batch, len(X)) * max(affine.weight.size for affine in net.affines)):
        for start in range(0, len(X), step):
            if findings.out_of_time:
                return
            _BranchAndBound(net, spec, X[start : start + step], findings, start, batch).run()


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


class _BranchAndBound:
    """The boxes of a batch of inputs; `start` is the number of the first input."""

    def __init__(
        self, net: Network, spec: Spec, X: FloatArray, findings: ScoreFindings, start: int, batch: int
    ) -> None:
        self.net, self.claim, self.findings, self.start, self.batch = net, spec.claim, findings, start, batch
        self.pieces = Pieces(spec, X)
        self.seen = ScoreExtremes(net, spec.claim, X)
        self.undecided = np.ones(len(X), dtype=np.bool_)
        width = self.pieces.roots.high - self.pieces.roots.low
        self.root_width = np.where(width > 0, width, 1.0)  # (pieces, varying)

    def run(self) -> None:
        """Bound and split boxes until every input is decided or the time is up."""
        bounded = self._bound(self.pieces.roots)
        while True:
            bounded = self._settle(bounded)
            if not self.undecided.any() or self.findings.out_of_time:
                return
            wide = self._keeps_open(bounded)
            chosen = np.flatnonzero(wide)[: max(1, self.batch)]
            rest = np.ones(len(wide), dtype=np.bool_)
            rest[chosen] = False
            halves = self._split(bounded.take(chosen))
            bounded = _Bounded.join([bounded.take(rest), self._bound(halves)])

    def _settle(self, bounded: _Bounded) -> _Bounded:
        """Decide the inputs that can be decided; return the boxes of the others."""
        owner = self.pieces.owner[bounded.boxes.piece]
        over_all = ScoreBounds(len(self.undecided), self.net.outputs)
        np.minimum.at(over_all.low, owner, bounded.low)
        np.maximum.at(over_all.high, owner, bounded.high)
        fair = self.undecided & over_all.within(self.claim.limit)
        stuck = np.zeros(len(fair), dtype=np.bool_)
        for position in np.flatnonzero(self.undecided & ~fair).tolist():
            row = self.start + position
            if self.findings.try_extremes(row, self.seen, position):
                self.undecided[position] = False
            elif self._room(position).min() <= 0:
                self.findings.mark_unproven([row], WITHIN_ROUNDING)
                stuck[position] = True
        wide = self._keeps_open(bounded)
        movable = np.zeros(len(fair), dtype=np.bool_)
        movable[owner[wide]] = True
        closed = self.undecided & ~fair & ~stuck & ~movable
        self.findings.mark_unproven(np.flatnonzero(closed) + self.start, between_adjacent(self.net.dtype))
        self.undecided &= ~(fair | stuck | closed)
        self.findings.mark_done(np.flatnonzero(~self.undecided) + self.start)
        self.findings.report_progress()
        return bounded.take(self.undecided[owner])

    def _room(self, position: int) -> Floats:
        """Return how far (outputs,) bounds may exceed the scores found, on either side, for the proof to succeed."""
        low, high = self.seen.low[position], self.seen.high[position]
        left = self.claim.limit - (high - low)
        points = np.concatenate([self.seen.at_low[position], self.seen.at_high[position]])
        error = score_error(self.net, self.claim, points, points)
        each = np.arange(self.net.outputs)
        both = error[each, each] + error[self.net.outputs + each, each]
        return np.asarray(left - both - _ROUNDING * (1 + np.abs(low) + np.abs(high)))

    def _keeps_open(self, bounded: _Bounded) -> Bools:
        """Return which boxes can be split and have bounds that exceed what their input can afford."""
        owner = self.pieces.owner[bounded.boxes.piece]
        low, high = self.seen.low, self.seen.high
        half = (self.claim.limit - (high - low)) / 2
        beyond = (bounded.high > (high + half)[owner]) | (bounded.low < (low - half)[owner])
        return np.asarray(beyond.any(axis=1) & bounded.open & self.undecided[owner])

    def _bound(self, boxes: Boxes) -> _Bounded:
        """Return bounds of boxes, from their points where there are few; all points tried count as found."""
        count, outputs = len(boxes.piece), self.net.outputs
        bounds = ScoreBounds(count, outputs)
        change = np.zeros(boxes.low.shape)
        can = self.pieces.splittable(boxes).any(axis=1)
        sizes = self.pieces.sizes(boxes)
        few = (sizes <= _LEAF) | (~can & (sizes <= MOST_TWINS))
        for part in _parts(np.flatnonzero(few), self.batch):
            self._bound_points(boxes.take(part), part, bounds)
        for part in _parts(np.flatnonzero(~few), self.batch):
            some = boxes.take(part)
            change[part] = self._try_points(some)
            lower, upper = self.pieces.ends(some)
            error = score_error(self.net, self.claim, lower, upper)
            bounds.add(part, bound_scores(self.net, self.claim, lower, upper), error)
        return _Bounded(boxes, bounds.low, bounds.high, change, np.asarray(can & ~few))

    def _bound_points(self, boxes: Boxes, numbers: Ints, bounds: ScoreBounds) -> None:
        box, points = self.pieces.all_points(boxes)
        self.seen.add(self.pieces.owner[boxes.piece][box], points)
        error = score_error(self.net, self.claim, points, points)
        bounds.add(numbers[box], bound_scores_at_points(self.net, self.claim, points), error)

    def _try_points(self, boxes: Boxes) -> Floats:
        """Compute scores in the middle of each box, in the middle of each face, and in two promising corners.

        Return how much the scores change from the middle along each column, (n, varying).
        """
        owner, middle = self.pieces.owner[boxes.piece], self.pieces.middle(boxes)

        def scores(at: Floats) -> Floats:
            return self.seen.add(owner, self.pieces.points(boxes.piece, at))

        base = scores(middle)
        change, lowest, highest = np.zeros_like(middle), middle.copy(), middle.copy()
        for k in range(middle.shape[1]):
            at_low, at_high = middle.copy(), middle.copy()
            at_low[:, k], at_high[:, k] = boxes.low[:, k], boxes.high[:, k]
            low, high = scores(at_low), scores(at_high)
            change[:, k] = np.maximum(np.abs(low - base), np.abs(high - base)).max(axis=1)
            rises = low[:, 0] < high[:, 0]
            lowest[:, k] = np.where(rises, boxes.low[:, k], boxes.high[:, k])
            highest[:, k] = np.where(rises, boxes.high[:, k], boxes.low[:, k])
        if middle.shape[1] > 1:
            scores(lowest)
            scores(highest)
        return change

    def _split(self, bounded: _Bounded) -> Boxes:
        """Split each box in the column where the scores change most, weighted by the width of the box."""
        boxes, change = bounded.boxes, bounded.change
        can = self.pieces.splittable(boxes)
        relative = (boxes.high - boxes.low) / self.root_width[boxes.piece]
        largest = change.max(axis=1, keepdims=True, initial=0.0)
        share = np.divide(change, largest, out=np.zeros_like(change), where=largest > 0)
        weight = np.where(can, (share + _LEAST_SHARE) * relative, -1.0)
        return Boxes.join(list(self.pieces.split(boxes, weight.argmax(axis=1).astype(np.int64))))


def _parts(numbers: Ints, most: int) -> list[Ints]:
    return [numbers[start : start + most] for start in range(0, len(numbers), most)]
