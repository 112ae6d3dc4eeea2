"""Neighbourhoods of inputs: the boxes that cover them, and which margins or scores can be confirmed over them.

A neighbourhood is first covered by a box for each combination of one-hot categories, in which all other features run
from end to end. Where that is not enough, boxes are halved; and where that is not enough either, every whole number has
a box of its own, so that a finite neighbourhood is checked person by person. A region is the neighbourhood of an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.bounds import (
    InputForms,
    Intervals,
    form_bounds,
    input_forms,
    interval_layers,
    interval_margins,
    leads,
)
from fairmend_check.kernel.claim import Score, Threshold
from fairmend_check.kernel.inference_error import inference_error, output_errors
from fairmend_check.kernel.model import Model, input_weights
from fairmend_check.kernel.neighbourhood import Product, batches, count_boxes, neighbourhoods
from fairmend_check.kernel.rounding import Array, Precision
from fairmend_check.kernel.spec import Spec

MAX_WORK = 10**12  # multiplications for all points together, or for all boxes: about ten minutes
_PER_LAYER = 1_000  # what substituting in a layer costs, however few units it has
_BOXES_EACH = 100  # what boxes may cost is no less than this number of them for each input
MAX_PARTS = 10**7  # of all neighbourhoods together, for each link: a few minutes
_FEW = 16  # boxes with single whole numbers in them, which are taken at once
_HALVINGS = 4  # of a box that linear bounds do not decide
_HALVED = 2**10  # boxes that are halved at once
LARGE = 10**8  # multiplications for a box, from which on single points are tried first
_WIDE = 128  # units of a layer, for which quick linear bounds take less time than tight ones
_BATCH = 2**20  # numbers in a batch of boxes, at the widest layer or for all pairs of outputs
MAX_OUTPUTS = 1000  # of a model: bounds of a box need memory for all pairs of them


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes lower..upper (boxes, width) of the neighbourhoods of inputs number ``owner`` (boxes,)."""

    owner: np.ndarray
    lower: Array
    upper: Array

    def subset(self, rows: np.ndarray) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.owner[rows], self.lower[rows], self.upper[rows])

    def halved(self, model: Model) -> Boxes:
        """Return the lower half of each box and then the upper ones, cut where it is widest in terms of the weights."""
        width = (self.upper - self.lower) * input_weights(model)
        columns = width.argmax(axis=1)
        at = np.arange(len(width)), columns
        below, above = self.upper.copy(), self.lower.copy()
        below[at] = above[at] = 0.5 * self.lower[at] + 0.5 * self.upper[at]
        # Between two rows of a table there is nothing. `check._require_rows` refuses columns without whole ends.
        whole = np.isin(columns, [column for column, _ in model.tables])
        below[at] = np.where(whole, np.floor(below[at]), below[at])
        above[at] = np.where(whole, np.minimum(below[at] + 1, self.upper[at]), above[at])
        ends = np.concatenate([self.lower, above]), np.concatenate([below, self.upper])
        return Boxes(np.concatenate([self.owner, self.owner]), *ends)


@dataclass(frozen=True, eq=False)
class ProvenMargins:
    """For each input the confirmed margin, and by how much it exceeds the error of inference; (inputs,)."""

    margin: Array
    excess: Array

    @property
    def covers(self) -> np.ndarray:
        """Where a margin is confirmed that exceeds the error of inference, bool (inputs,)."""
        return np.asarray((self.excess > 0) & (self.margin > 0))


@dataclass(frozen=True, eq=False)
class ProvenScores:
    """For each input bounds of the scores around it (inputs, outputs), and of the error of each raw output."""

    low: Array
    high: Array
    error: Array


@dataclass
class Cover:
    """Finds boxes that cover neighbourhoods, within limits for all inputs of a certificate together.

    ``reasons`` say which inputs are not possible.
    """

    model: Model
    spec: Spec
    reasons: list[str] = field(default_factory=list)
    inputs: int = 0
    parts: int = 0
    boxes: int = 0
    points: int = 0
    tried: int = 0

    @cached_property
    def most_numbers(self) -> int:
        """How many numbers a box needs: leads and differences of outputs are as many as their pairs."""
        if self.model.outputs > MAX_OUTPUTS:
            raise CheckError(f"a model with more than {MAX_OUTPUTS:,} outputs cannot be checked for listed inputs")
        return max(self.model.outputs**2, self.model.held)

    @cached_property
    def most_points(self) -> int:
        """How many points can be checked."""
        return MAX_WORK // point_work(self.model)

    @cached_property
    def most_boxes(self) -> int:
        """How many boxes can be checked, however few inputs there are."""
        return MAX_WORK // box_work(self.model)

    def batches(self, X: Array, first: int, done: np.ndarray | None = None) -> Iterator[Boxes]:
        """Return boxes around the inputs X (inputs, width), in batches; none around one with a reason against it.

        ``first`` is the number of the first input in the certificate. Those that are ``done`` (inputs,) get none.
        """
        self.inputs += len(X)
        return self._batches(self._counted(X, first, np.zeros(len(X), dtype=np.bool_) if done is None else done))

    def batches_again(self, X: Array, rows: np.ndarray, *, room: int = 1, each_whole: bool = False) -> Iterator[Boxes]:
        """Return boxes around some of these inputs again, in batches that leave ``room`` for so many in place of each.

        With ``each_whole`` every whole number has a box of its own, around inputs for which that is new and within
        the limits.
        """
        around = zip(rows.tolist(), neighbourhoods(self.spec, X[rows], self.model.dtype), strict=True)
        valid = ((row, each) for row, each in around if not isinstance(each, NotConfirmedError))
        if each_whole:
            return self._batches(((row, each, True) for row, each in valid if self._can_separate(each)), room)
        return self._batches(((row, each, _is_small(each)) for row, each in valid), room)

    def batches_of_points(self, X: Array) -> Iterator[Boxes]:
        """Return the points of finite neighbourhoods, in batches, where all of them take less work than their boxes."""
        if box_work(self.model) < LARGE:
            return iter(())
        return self._batches((row, each, True) for row, each in self._divided(X) if self._has_few_points(each))

    def _divided(self, X: Array) -> Iterator[tuple[int, Sequence[Product]]]:
        """Return the neighbourhoods of inputs, up to the limit of their parts."""
        parts = self.parts
        for row, around in enumerate(neighbourhoods(self.spec, X, self.model.dtype)):
            if not isinstance(around, NotConfirmedError):
                parts += len(around) * (1 + len(self.spec.links))
                if parts > MAX_PARTS:
                    return
                yield row, around

    def _has_few_points(self, around: Sequence[Product]) -> bool:
        """Return whether a neighbourhood is finite, and its points take less work than its boxes; count them if so."""
        count, boxes = (count_boxes(around, each_whole=each_whole) for each_whole in (True, False))
        finite = all(axis.feature.whole for each in around for axis in each.axes)
        few = count * point_work(self.model) <= boxes * box_work(self.model) and not _is_small(around)
        if not finite or not few or self.tried + count > self.most_points:
            return False
        self.tried += count
        return True

    def _batches(self, around: Iterator[tuple[int, Sequence[Product], bool]], room: int = 1) -> Iterator[Boxes]:
        for owner, lower, upper in batches(around, max(1, _BATCH // (self.most_numbers * room))):
            yield Boxes(owner, lower, upper)

    def _counted(self, X: Array, first: int, done: np.ndarray) -> Iterator[tuple[int, Sequence[Product], bool]]:
        for row, around in enumerate(neighbourhoods(self.spec, X, self.model.dtype)):
            if isinstance(around, NotConfirmedError):
                self.reasons.append(f"input {first + row}: {around}")
                continue
            self.parts += len(around) * (1 + len(self.spec.links))
            if self.parts > MAX_PARTS:
                raise CheckError(f"links divide the neighbourhoods into more parts than the limit ({MAX_PARTS:,})")
            if done[row]:
                continue
            small = _is_small(around)
            self.boxes += count_boxes(around, each_whole=small)
            most = max(self.most_boxes, _BOXES_EACH * self.inputs)
            if self.boxes > most:
                raise CheckError(f"there are more boxes to check than the limit for this model ({most:,})")
            yield row, around, small

    def _can_separate(self, around: Sequence[Product]) -> bool:
        """Return whether whole numbers can have boxes of their own, and have not yet; count them if so.

        The count only limits the work: an input that is left out stays unproven, and is reported.
        """
        count = count_boxes(around, each_whole=True)
        finite = all(axis.feature.whole for each in around for axis in each.axes)
        if _is_small(around) or self.points + count > (self.most_points if finite else self.most_boxes):
            return False
        self.points += count
        return True


def _is_small(around: Sequence[Product]) -> bool:
    """Return whether whole numbers have boxes of their own from the start."""
    return count_boxes(around, each_whole=True) <= max(_FEW, count_boxes(around, each_whole=False))


def prove(cover: Cover, X: Array, first: int = 0, least: float = np.inf) -> ProvenMargins:
    """Return margins of the class of each input (inputs, width) over its neighbourhood.

    ``least`` is the smallest margin before. The least of all margins is a tight bound; others, which are above it, may
    be quick ones.

    A neighbourhood is covered in up to three ways: by its points (`_prove_points`), by boxes, and again by boxes with
    single whole numbers. Each way keeps a pair of numbers for an input, a margin and an excess over the error of
    inference: the least of those of *all* boxes of that way, +inf before the first box and -inf where nothing is
    proven. So either way is a proof by itself, and the better one counts. ``hopeless`` are inputs with a neighbour
    that surely has another class, and ``done`` those whose points are all known: for these no other way is tried.
    """
    threshold = Threshold.of(cover.spec.threshold, cover.model.dtype, cover.model.slack)
    classes = _classes(cover.model, threshold, X)
    margin, excess, hopeless = _prove_points(cover, threshold, classes, X)  # excess over the error of inference
    done = ~np.isneginf(margin)  # a box, or a part of it, has no larger margin than its points, and no smaller error
    margin, excess = np.where(done, margin, np.inf), np.where(done, excess, np.inf)
    for boxes in cover.batches(X, first, done):
        below = min(least, float(margin.min()))
        bound, over, lost = box_margins(cover.model, threshold, classes[boxes.owner], boxes, below)
        np.minimum.at(margin, boxes.owner, bound)
        np.minimum.at(excess, boxes.owner, over)
        hopeless[boxes.owner[lost]] = True  # the corner of a box is in one of the boxes with single whole numbers
    margin[np.isposinf(margin)] = -np.inf  # nothing is confirmed of an input without boxes
    doubtful = np.flatnonzero(~((excess > 0) & (margin > 0)) & ~hopeless & ~done)
    again = np.full(len(X), np.inf), np.full(len(X), np.inf)
    for boxes in cover.batches_again(X, doubtful, each_whole=True) if not cover.reasons else ():
        bound, over, _ = box_margins(cover.model, threshold, classes[boxes.owner], boxes, -np.inf, halvings=1)
        np.minimum.at(again[0], boxes.owner, bound)
        np.minimum.at(again[1], boxes.owner, over)
    for found, better in zip((margin, excess), again, strict=True):
        found[:] = np.where(np.isposinf(better), found, np.maximum(found, better))
    return ProvenMargins(margin, excess)


def _prove_points(cover: Cover, threshold: Threshold, classes: np.ndarray, X: Array) -> tuple[Array, Array, np.ndarray]:
    """Return margins, what they exceed the error of inference by, and which inputs have a person of another class.

    Of neighbourhoods whose points take less work than their boxes, point by point; of others they are -inf. The error
    is as tight as it is for all points of an input together.
    """
    margin, excess = np.full(len(X), np.inf), np.full(len(X), np.inf)
    hopeless = np.zeros(len(X), dtype=np.bool_)
    for boxes in cover.batches_of_points(X):
        kinds, layers = classes[boxes.owner], _intervals(cover.model, boxes.lower, boxes.upper)
        bound = threshold.margins(interval_margins(cover.model, kinds, *layers[-1]), kinds)
        most = threshold.margins(interval_margins(cover.model, kinds, *reversed(layers[-1])), kinds)
        hopeless[boxes.owner[most < 0]] = True
        bound = np.where(hopeless[boxes.owner], np.minimum(bound, 0.0), bound)  # their error is not worth the work
        error = _error(cover.model, threshold, kinds, boxes, layers, bound, boxes.owner)
        np.minimum.at(margin, boxes.owner, bound)
        np.minimum.at(excess, boxes.owner, _above(bound, error))
    nothing = np.isposinf(margin)
    return np.where(nothing, -np.inf, margin), np.where(nothing, -np.inf, excess), hopeless


def _classes(model: Model, threshold: Threshold, X: Array) -> np.ndarray:
    """Return the class of each input, as far as it can be told: a wrong one has no margin."""
    step, found = max(1, _BATCH // model.held), []
    for start in range(0, len(X), step):
        low, high = _intervals(model, X[start : start + step], X[start : start + step])[-1]
        with np.errstate(invalid="ignore"):  # of an output without bounds, nan: no class of it is proven
            middle = 0.5 * low + 0.5 * high
        lead = middle[:, 0] if model.outputs == 1 else middle[:, -1] - middle[:, 0]
        found.append(middle.argmax(axis=1) if model.outputs > 2 else (lead >= threshold.low).astype(np.int64))
    return np.concatenate(found)


def prove_scores(cover: Cover, X: Array, first: int, score: Score, delta: float) -> ProvenScores:
    """Return bounds of the scores around inputs (inputs, width), made tight where they are further apart than delta."""
    found, precision = (
        _score_bounds(cover.model, score, len(X), cover.batches(X, first)),
        Precision.of(cover.model.dtype),
    )
    for each_whole in (False, True):
        wide = np.flatnonzero(~(score.difference(found.low, found.high, found.error, precision) <= delta))
        if not len(wide) or cover.reasons:
            break
        halvings = 0 if each_whole else _HALVINGS
        boxes = cover.batches_again(X, wide, room=2**halvings, each_whole=each_whole)
        again = _score_bounds(cover.model, score, len(X), boxes, halvings)
        better = wide[np.isfinite(again.low[wide]).all(axis=1)]
        found.low[better] = np.maximum(found.low[better], again.low[better])
        found.high[better] = np.minimum(found.high[better], again.high[better])
        found.error[better] = np.minimum(found.error[better], again.error[better])
    return found


def _score_bounds(model: Model, score: Score, count: int, batches: Iterator[Boxes], halvings: int = 0) -> ProvenScores:
    """Return bounds of the scores in boxes of this number of inputs."""
    shape = count, model.outputs
    low, high, error = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    for boxes in batches:
        for _ in range(halvings):
            boxes = boxes.halved(model)
        if (boxes.lower == boxes.upper).all():
            layers = _intervals(model, boxes.lower, boxes.upper)
            least, most = score.from_outputs(*layers[-1])
        else:
            forms = np.broadcast_to(score.forms, (len(boxes.lower), *score.forms.shape))
            bounds, layers = form_bounds(model, forms, boxes.lower, boxes.upper)
            least, most = score.from_forms(bounds)
        each = np.broadcast_to(np.eye(model.outputs), (len(boxes.lower), model.outputs, model.outputs))
        thorough = bool((boxes.lower < boxes.upper).any())
        errors = output_errors(model, boxes.lower, boxes.upper, layers, each, thorough=thorough)
        np.minimum.at(low, boxes.owner, least)
        np.maximum.at(high, boxes.owner, most)
        np.maximum.at(error, boxes.owner, errors)
    nothing = low > high  # is confirmed of an input without boxes
    return ProvenScores(np.where(nothing, -np.inf, low), np.where(nothing, np.inf, high), error)


def box_margins(
    model: Model, threshold: Threshold, classes: np.ndarray, boxes: Boxes, least: float, halvings: int = _HALVINGS
) -> tuple[Array, Array, np.ndarray]:
    """Return lower bounds of the margins over boxes, and by how much they exceed the error of inference; (boxes,).

    And which boxes are known to have a corner with another class. Intervals alone decide most boxes. The others, and
    those that are below ``least``, get linear bounds, quick ones first in a wide network. Those that are still not
    decided are halved, but for those with such a corner: it stays in one of the halves.
    """
    layers = _intervals(model, boxes.lower, boxes.upper)
    bound = threshold.margins(interval_margins(model, classes, *layers[-1]), classes)
    error = _error(model, threshold, classes, boxes, layers, bound)
    over, wide = _above(bound, error), np.asarray((boxes.lower < boxes.upper).any(axis=1))
    weak, lost = np.flatnonzero((~(over > 0) | (bound < least)) & wide), np.zeros(len(wide), dtype=np.bool_)
    for quick in (True, False) if max(model.widths) > _WIDE else (False,):
        if len(weak):
            some = boxes.subset(weak)
            found = input_forms(model, leads(model, classes[weak]), some.lower, some.upper, quick=quick)
            bound[weak] = np.maximum(bound[weak], threshold.margins(found.least.min(axis=1), classes[weak]))
            above = bound[weak] > 0
            rows, nodes = weak[above], [(low[above], high[above]) for low, high in found.nodes]
            tight = _error(model, threshold, classes[rows], boxes.subset(rows), nodes, bound[rows])
            error[rows] = np.minimum(error[rows], tight)
            over[weak] = _above(bound[weak], error[weak])
            rest = np.flatnonzero(~above)
            lost[weak[rest]] = _has_other_class(model, threshold, classes[weak[rest]], some.subset(rest), found, rest)
        weak = np.flatnonzero(~(over > 0) & wide)
    doubtful = weak[~lost[weak]]
    for start in range(0, len(doubtful) if halvings else 0, _HALVED):
        rows = doubtful[start : start + _HALVED]
        both = np.concatenate([classes[rows], classes[rows]])
        halves = box_margins(model, threshold, both, boxes.subset(rows).halved(model), -np.inf, halvings - 1)
        for best, inner in zip((bound, over), halves[:2], strict=True):
            best[rows] = np.maximum(best[rows], inner.reshape(2, -1).min(axis=0))
    return bound, over, lost


def _has_other_class(
    model: Model, threshold: Threshold, classes: np.ndarray, boxes: Boxes, found: InputForms, rows: np.ndarray
) -> np.ndarray:
    """Return which boxes (boxes,), those of the forms in these rows, surely have another class where forms are least.

    It is asked at one corner of each. The answer only saves work: what has another class somewhere is never proven.
    """
    A = found.A[rows, found.least[rows].argmin(axis=1)]
    corner = np.where(A > 0, boxes.lower, boxes.upper)
    low, high = _intervals(model, corner, corner)[-1]
    most = interval_margins(model, classes, high, low)  # the ends change places: an upper bound
    return np.asarray(threshold.margins(most, classes) < 0)


def _intervals(model: Model, lower: Array, upper: Array) -> Intervals:
    with np.errstate(all="ignore"):
        return interval_layers(model, lower, upper)


def _error(
    model: Model,
    threshold: Threshold,
    classes: np.ndarray,
    boxes: Boxes,
    layers: Intervals,
    bound: Array,
    groups: np.ndarray | None = None,
) -> Array:
    """Return the error of inference over boxes (boxes,), as tight as it takes to be below the bounds of the margins.

    With ``groups`` (boxes,), the tight one is for all boxes of a group together.
    """
    closing = threshold.closing(classes)
    return inference_error(model, classes, boxes.lower, boxes.upper, layers, bound, closing, groups)


def _above(bound: Array, error: Array) -> Array:
    """Return by how much margins exceed the error of inference (boxes,); not above 0 where they do not."""
    with np.errstate(invalid="ignore"):
        over = np.where(np.isnan(bound - error), -np.inf, bound - error)
    return np.where(bound > error, over, np.minimum(over, 0.0))


def point_work(model: Model) -> int:
    """Return the multiplications for a point; each output, or lead over another, has an error of its own."""
    works = (node.operation.work(width) for node, width in zip(model.nodes, model.widths, strict=True))
    return model.outputs * sum(works)


def box_work(model: Model) -> int:
    """Return the multiplications for a box: the units of each layer are substituted back through all layers before."""
    work, before, layers = point_work(model), 0, 0
    for node, width in zip(model.nodes, model.widths, strict=True):
        if node.operation.arithmetic:
            work += 2 * width * before + _PER_LAYER * layers
            layers += 1
            before += sum(array.size for array in node.operation.stored[:1])
    return work
