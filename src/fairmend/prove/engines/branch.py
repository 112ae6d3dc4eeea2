"""Engine "branch": branch and bound over the columns that vary, on rigorous linear bounds, many boxes at a time.

A box whose bounds prove the class of its input is done. Otherwise a few of its points are tried as witnesses, and it
is cut in two, in the column where the network changes most. Boxes of few lattice points are looked at point by point,
which costs less than a bound; so finite neighbourhoods come to an end. Continuous columns are halved until the proof
succeeds, a witness is found, the time is up, or the network's own numbers lie no closer.

On lattices a proof must also exceed the rounding of inference, else the box is cut further: so the verdict is the one
that looking at every point would give.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.prove.engines.boxes import Boxes, Pieces, inputs_at_a_time
from fairmend.prove.engines.enumerate import look_at
from fairmend.prove.engines.findings import ROUNDING, Findings
from fairmend.prove.margin import computed, proven_margin, rounding, suffices
from fairmend.spec import Spec
from fairmend.threads import few_threads

_LEAF = 64  # points; bounds over one box take about as long as so many
_BATCH = 4096  # boxes, where the network is small and its inputs are few
_ENTRIES = 16_000_000  # of an array that holds all points of as many small boxes
_WORK = 200_000_000  # multiplications in a batch, so that the clock is looked at often enough
# Rigorous bounds lose more than computing a logit does, by about the number of layers; and what underflow may take.
_HIDDEN, _UNDERFLOW = 16, 1e-280
_WIDTH_COUNTS = 0.1  # how much a column counts in which the network seems not to change at all


def by_branching(net: Network, spec: Spec, X: FloatArray, findings: Findings) -> None:
    """Decide each input, unless the time limit comes first."""
    step = inputs_at_a_time(spec)
    sizes = [affine.weight.shape for affine in net.affines]
    # Every layer's outputs are traced back through all layers before it.
    per_box = sum(out * a * b for i, (out, _) in enumerate(sizes) for a, b in sizes[: i + 1])
    batch = max(4, min(_BATCH, _WORK // per_box, _ENTRIES // (_LEAF * net.inputs)))
    with few_threads(min(batch, len(X)) * max(a * b for a, b in sizes)):
        for start in range(0, len(X), step):
            if findings.late:
                return
            _Search(net, spec, X[start : start + step], findings, start, batch).run()


class _Search:
    """The boxes of some inputs that are still open, as one array; the first inputs' number is `start`."""

    def __init__(self, net: Network, spec: Spec, X: FloatArray, findings: Findings, start: int, batch: int) -> None:
        self.net, self.in_float64 = net, net.astype(np.float64)
        self.findings, self.batch = findings, batch
        self.pieces = Pieces(spec, X)
        self.rows = self.pieces.owner + start  # input of each piece, (pieces,)
        self.open = self.pieces.roots
        self.all = np.arange(start, start + len(X))
        width = self.open.high - self.open.low
        self.root_width = np.where(width > 0, width, 1.0)  # (pieces, varying)

    def run(self) -> None:
        """Work until no box is open or the time is up."""
        while len(self.open.piece) and not self.findings.late:
            now, later = self._choose()
            self.open = Boxes.join([later, *self._step(now)])
            self.open = self.open.take(~self.findings.unfair[self.rows[self.open.piece]])
            still = np.unique(self.rows[self.open.piece])
            self.findings.finish(np.setdiff1d(self.all, still))
            self.findings.report_progress()

    def _choose(self) -> tuple[Boxes, Boxes]:
        """The boxes to look at now: of each input as many, the newest first, which keeps the others few."""
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
        """Decide boxes where possible; return what they leave open."""
        few = self.pieces.sizes(boxes) <= _LEAF
        if few.any():
            self._look_at_points(boxes.take(few))
        boxes = boxes.take(~few)
        boxes = boxes.take(~self.findings.unfair[self.rows[boxes.piece]])
        if not len(boxes.piece):
            return []
        change = self._try_points(boxes)
        still = np.logical_not(self.findings.unfair[self.rows[boxes.piece]])
        boxes, change = boxes.take(still), change[still]
        still = np.logical_not(self._prove(boxes))
        boxes, change = boxes.take(still), change[still]
        return self._cut(boxes, change) if len(boxes.piece) else []

    def _look_at_points(self, boxes: Boxes) -> None:
        box, points = self.pieces.all_points(boxes)
        error = rounding(self.net, *self.pieces.ends(boxes))
        look_at(self.net, self.findings, self.rows[boxes.piece][box], points, error[box])

    def _try_points(self, boxes: Boxes) -> Floats:
        """Try as witnesses the middle of each box, of its faces, and the corner that these point to.

        Return how much the margin changes from the middle along each column, (n, varying).
        """
        middle = self.pieces.middle(boxes)
        base = self._try(boxes, middle)
        change, corner = np.zeros_like(middle), middle.copy()
        for k in range(middle.shape[1]):
            at_low, at_high = middle.copy(), middle.copy()
            at_low[:, k], at_high[:, k] = boxes.low[:, k], boxes.high[:, k]
            low, high = self._try(boxes, at_low), self._try(boxes, at_high)
            change[:, k] = np.maximum(np.abs(low - base), np.abs(high - base))
            corner[:, k] = np.where(low < high, boxes.low[:, k], boxes.high[:, k])
        if middle.shape[1] > 1:
            self._try(boxes, corner)
        return change

    def _try(self, boxes: Boxes, at: Floats) -> Floats:
        """The margins (n,) at one point of each box, with coordinates (n, varying)."""
        rows, points = self.rows[boxes.piece], self.pieces.points(boxes.piece, at)
        differs, margin = computed(self.net, points, self.findings.own[rows])
        if differs.any():
            self.findings.offer(rows[differs], points[differs], margin[differs])
        return margin

    def _prove(self, boxes: Boxes) -> Bools:
        """Whether bounds decide each box: prove its class, or come so close to 0 that rounding hides the rest."""
        if not len(boxes.piece):
            return np.zeros(0, dtype=np.bool_)
        rows = self.rows[boxes.piece]
        lower, upper = self.pieces.ends(boxes)
        margin = proven_margin(self.net, lower, upper, self.findings.own[rows])
        proven = suffices(self.net, margin, self.findings.own[rows])
        finite = np.isfinite(self.pieces.sizes(boxes))
        if finite.any():
            proven[finite] &= margin[finite] > rounding(self.net, lower[finite], upper[finite])
        # Bounds are computed in float64, and no cut makes them better than that. On a lattice points decide.
        unproven = np.flatnonzero(~proven & ~finite)
        if len(unproven):
            slack = _HIDDEN * rounding(self.in_float64, lower[unproven], upper[unproven]) + _UNDERFLOW
            hidden = unproven[margin[unproven] > -slack]
            self.findings.doubt(rows[hidden], ROUNDING)
            proven[hidden] = True
        return proven

    def _cut(self, boxes: Boxes, change: Floats) -> list[Boxes]:
        """Cut each box in the column where the margin changes most, for its width."""
        can = self.pieces.splittable(boxes)
        stuck = np.asarray(~can.any(axis=1))
        if stuck.any():
            self.findings.doubt(
                self.rows[boxes.piece[stuck]],
                f"undecided between neighbouring {self.net.dtype} numbers, where no difference was seen",
            )
            boxes, change, can = boxes.take(np.flatnonzero(~stuck)), change[~stuck], can[~stuck]
        if not len(boxes.piece):
            return []
        relative = (boxes.high - boxes.low) / self.root_width[boxes.piece]
        largest = change.max(axis=1, keepdims=True)
        share = np.divide(change, largest, out=np.zeros_like(change), where=largest > 0)
        score = np.where(can, (share + _WIDTH_COUNTS) * relative, -1.0)
        column: Ints = score.argmax(axis=1).astype(np.int64)
        return list(self.pieces.split(boxes, column))
