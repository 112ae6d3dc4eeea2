"""Engine "branch": branch and bound over the columns that vary, on the kernel's bounds, many boxes at a time.

A box is done if its bounds prove the claim. Otherwise a few of its points are tried as witnesses, and the box is split
in two, in the column where the network changes most. Boxes of few lattice points are enumerated, which costs less than
a bound, so the search ends on finite neighbourhoods. Continuous columns are halved until the proof succeeds, a witness
is found, the time is up, or no further number of the network's precision lies between the ends.

A claim about classes is proven box by box. On lattices a proof must also exceed the rounding error of inference, or the
box is split further: the verdict is therefore the one that enumeration would give. A claim about scores is proven once
the highest bound of all boxes minus the lowest is at most delta; those boxes are split whose bounds exceed the scores
found so far by more than half of what delta leaves.

A *piece* is one choice of all one-hot groups in one product of a neighbourhood (as in `Regions`). Within it the other
columns that vary are coordinates: whole numbers for integer and ordinal columns, which are lattices, and the encoded
value itself for continuous ones. A *box* is a piece with a lowest and a highest coordinate in each such column.

An input that was scaled elsewhere may have other bits than the encoding of its own value. Both are points of the
neighbourhood, and both belong to the coordinate of that value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.threads import few_threads
from fairmend.network import Network
from fairmend.prove.engines.findings import (
    ClassFindings,
    Findings,
    ScoreFindings,
    ScoreRanges,
    between_adjacent,
)
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import cover_products
from fairmend.spec.products import encode_column

MOST_TWINS = 65_536
"""The points of a box that may be listed if it cannot be split, because own bits lie beside encoded values."""

_PIECE_ENTRIES = 4_000_000  # in an array (pieces, width): 32 MB at most, and only a few of them exist at a time


def inputs_per_batch(spec: Spec, most: int = 16384) -> int:
    """Return the number of inputs whose pieces fit in memory together."""
    return max(1, min(most, _PIECE_ENTRIES // (spec.width * spec.most_pieces)))


class Boxes(NamedTuple):
    """Boxes of pieces: piece (n,), low and high (n, varying), both ends included."""

    piece: Ints
    low: Floats
    high: Floats

    def take(self, chosen: npt.NDArray[np.int64] | Bools | slice) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.piece[chosen], self.low[chosen], self.high[chosen])

    @staticmethod
    def join(parts: list[Boxes]) -> Boxes:
        """Return all boxes of all parts, in order."""
        return Boxes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Pieces:
    """The pieces of the inputs X (inputs, width), and the meaning of their coordinates.

    owner : int64 (pieces,), the input of each piece
    columns : int64 (varying,), the encoded column of each coordinate
    lattice : bool (varying,), whether a coordinate is a whole number
    roots : one box per piece, the whole piece
    """

    def __init__(self, spec: Spec, X: FloatArray) -> None:
        products = spec.products(X)
        regions, self._product = cover_products(products, X)
        self.owner = regions.owner
        self._base = regions.lower
        varying = [each for each in products.values if not each.feature.one_hot]
        self._features = [each.feature for each in varying]
        self.columns = np.array([each.columns.start for each in varying], dtype=np.int64)
        self.lattice = np.array([f.kind != "continuous" for f in self._features], dtype=np.bool_)
        # For each product: the input's own bits, its own value where that is one of the values, whether the bits are a
        # point beside the encoding of that value, and whether they are the only point.
        shape = (len(products.owner), len(varying))
        self._bits, self._own = np.zeros(shape, X.dtype), np.zeros(shape)
        self._apart, self._kept = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        low, high = (ends[:, self.columns].astype(np.float64) for ends in (regions.lower, regions.upper))
        for k, values in enumerate(varying):
            self._bits[:, k], self._apart[:, k], self._kept[:, k] = values.x, values.apart, values.kept
            self._own[:, k] = np.where(values.moved, np.nan, values.own)
            if self.lattice[k]:
                low[:, k], high[:, k] = values.lowest[self._product], values.highest[self._product]
        self.roots = Boxes(np.arange(len(self.owner), dtype=np.int64), low, high)

    def points(self, piece: Ints, at: Floats) -> FloatArray:
        """Return the encoded points (n, width) with coordinates `at` (n, varying) in their pieces (n,).

        At its own value an input keeps its own bits.
        """
        points = self._base[piece]
        product = self._product[piece]
        for k, column in enumerate(self.columns.tolist()):
            points[:, column] = self._encoded(k, product, at[:, k])
        return points

    def ends(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """Return encoded lower and upper ends (n, width) that enclose every point of each box."""
        lower, upper = self.points(boxes.piece, boxes.low), self.points(boxes.piece, boxes.high)
        product = self._product[boxes.piece]
        for k in np.flatnonzero(self.lattice).tolist():
            bits, kept, column = self._bits[product, k], self._kept[product, k], self.columns[k]
            low, high = (np.where(kept, bits, self._plain(k, ends[:, k])) for ends in boxes[1:])
            # An input's own bits may differ from our encoding of its value, in float32 even by a step of the lattice.
            own = self._own[product, k]
            inside = (boxes.low[:, k] <= own) & (own <= boxes.high[:, k])
            lower[:, column] = np.where(inside, np.minimum(low, bits), low)
            upper[:, column] = np.where(inside, np.maximum(high, bits), high)
        return lower, upper

    def unrounded(self, boxes: Boxes) -> tuple[Floats, Floats]:
        """Return the encoded coordinates of the ends (n, varying), without rounding lattice values."""
        low, high = boxes.low.copy(), boxes.high.copy()
        for k in np.flatnonzero(self.lattice).tolist():
            low[:, k], high[:, k] = (self._features[k].scaled(ends[:, k]) for ends in boxes[1:])
        return low, high

    def sizes(self, boxes: Boxes) -> Floats:
        """Return the number of points of each box (n,); infinite if a continuous column varies."""
        wide = boxes.high - boxes.low
        counts = np.where(self.lattice, wide + 1 + self._has_own_bits(boxes), np.where(wide > 0, np.inf, 1.0))
        with np.errstate(over="ignore"):
            return np.asarray(counts.prod(axis=1))

    def all_points(self, boxes: Boxes) -> tuple[Ints, FloatArray]:
        """Return all points of small boxes: the box of each point (k,), and the encoded points (k, width)."""
        sizes = self.sizes(boxes).astype(np.int64)
        box = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        index = np.arange(len(box)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        product = self._product[boxes.piece[box]]
        points = self.points(boxes.piece[box], boxes.low[box])
        apart = self._has_own_bits(boxes)
        for k in np.flatnonzero(self.lattice).tolist():
            counts = (boxes.high[:, k] - boxes.low[:, k] + 1).astype(np.int64)
            index, digit = np.divmod(index, (counts + apart[:, k])[box])
            # The last of the values, where there is one more than whole numbers, is the input's own bits.
            encoded = self._plain(k, boxes.low[box, k] + digit)
            plain = (digit < counts[box]) & ~self._kept[product, k]
            points[:, self.columns[k]] = np.where(plain, encoded, self._bits[product, k])
        return box, points

    def middle(self, boxes: Boxes) -> Floats:
        """Return the coordinates (n, varying) of the middle of each box, rounded down on a lattice."""
        middle = boxes.low + (boxes.high - boxes.low) / 2
        if self.lattice.all():
            return np.asarray(np.floor(middle))
        # The middle of a continuous column must be a number in the network's precision.
        given = middle.astype(self._base.dtype).astype(np.float64)
        return np.where(self.lattice, np.floor(middle), np.clip(given, boxes.low, boxes.high))

    def split(self, boxes: Boxes, column: Ints) -> tuple[Boxes, Boxes]:
        """Return the lower and upper half of each box, split in its column (n,), which must be `splittable`."""
        each = np.arange(len(column))
        middle = self.middle(boxes)[each, column]
        first_high, second_low = boxes.high.copy(), boxes.low.copy()
        first_high[each, column] = middle
        second_low[each, column] = middle + self.lattice[column]
        return Boxes(boxes.piece, boxes.low, first_high), Boxes(boxes.piece, second_low, boxes.high)

    def splittable(self, boxes: Boxes) -> Bools:
        """Return in which columns (n, varying) each box has two lattice points, or a number between its ends."""
        middle = self.middle(boxes)
        inner = (middle > boxes.low) & (middle < boxes.high)
        return np.where(self.lattice, boxes.high > boxes.low, inner)

    def _has_own_bits(self, boxes: Boxes) -> Bools:
        """Return where a box (n, varying) holds its input's own value, and own bits that are a point beside it."""
        product = self._product[boxes.piece]
        own = self._own[product]
        return np.asarray(self._apart[product] & (boxes.low <= own) & (own <= boxes.high))

    def _encoded(self, k: int, product: Ints, values: Floats) -> FloatArray:
        if not self.lattice[k]:
            return values.astype(self._base.dtype)
        return np.where(values == self._own[product, k], self._bits[product, k], self._plain(k, values))

    def _plain(self, k: int, values: Floats) -> FloatArray:
        return encode_column(self._features[k], values, self._base.dtype)


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
            self.known.see(self.rows[boxes.piece[part]][box], points)
            bounds.add(part[box], *self.bounds.computed_scores(points))
        for part in _parts(np.flatnonzero(~few), self.batch):
            some = boxes.take(part)
            change[part] = self._try_points(some)
            bounds.add(part, *self.bounds.box_scores(*self.pieces.ends(some)))
        return _Bounded(boxes, bounds.low, bounds.high, change, np.asarray(can & ~few))

    def _try_points(self, boxes: Boxes) -> Floats:
        """Compute scores in each box; return how much they change from the middle along each column."""

        def scores(at: Floats) -> Floats:
            return self.known.see(self.rows[boxes.piece], self.pieces.points(boxes.piece, at))

        change, lowest, highest = self.try_faces(boxes, scores)
        if lowest.shape[1] > 1:
            scores(lowest)
            scores(highest)
        return change


def _parts(numbers: Ints, most: int) -> list[Ints]:
    return [numbers[start : start + most] for start in range(0, len(numbers), most)]
