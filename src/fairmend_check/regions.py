"""Regions of a certificate: whether boxes cover them, and which margins or scores can be confirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairmend_check.bounds import Intervals, Slopes, form_bounds, interval_layers, interval_margins, leads
from fairmend_check.coverage import Effort, find_uncovered
from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.inference_error import inference_error, output_errors
from fairmend_check.model import Activation, Dense, Model, Scale, Sum, input_weights
from fairmend_check.neighbourhood import Product, batches, count_boxes, neighbourhoods
from fairmend_check.region_lists import Regions
from fairmend_check.rounding import Array
from fairmend_check.scores import Score
from fairmend_check.spec import Spec
from fairmend_check.threshold import Threshold

MAX_WORK = 10**12  # multiplications for the points of all regions together, or for their boxes: about ten minutes
_PER_UNIT = 200  # what an input or output of a layer costs beside them
_PER_LAYER = 1_000  # what substituting in a layer costs, however few units it has
_PER_VALUE = {"relu": 0, "leaky_relu": 0, "identity": 0, "tanh": 0, "sigmoid": 0}  # included in that of the layers
_PER_CURVE = 10_000  # what a value of another function costs
_BOXES_EACH = 100  # what boxes may cost is no less than this number of them for each region
MAX_PARTS = 10**7  # of all neighbourhoods together, for each link: a few minutes
_HALVINGS = 4  # of a box of its own choice that linear bounds do not decide
_HALVED = 2**10  # boxes that are halved at once
_BATCH = 2**20  # numbers in a batch of boxes, at the widest layer or for all pairs of outputs
MAX_OUTPUTS = 1000  # of a model: bounds of a box need memory for all pairs of them


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes lower..upper (boxes, width) of regions ``owner`` (boxes,); they are ``points``, or may have ``slopes``."""

    owner: np.ndarray
    lower: Array
    upper: Array
    points: bool = False
    slopes: Slopes | None = None

    def parts(self, size: int) -> Iterator[Boxes]:
        """Return the boxes in parts of this size."""
        for start in range(0, len(self.owner), size):
            part = slice(start, start + size)
            slopes = None if self.slopes is None else [(below[part], above[part]) for below, above in self.slopes]
            yield Boxes(self.owner[part], self.lower[part], self.upper[part], self.points, slopes)

    def subset(self, rows: np.ndarray) -> Boxes:
        """Return some of the boxes, without slopes."""
        return Boxes(self.owner[rows], self.lower[rows], self.upper[rows], self.points)

    def halved(self, model: Model) -> Boxes:
        """Return the lower half of each box and then the upper ones, cut where it is widest in terms of the weights."""
        width = (self.upper - self.lower) * input_weights(model)
        columns = width.argmax(axis=1)
        at = np.arange(len(width)), columns
        below, above = self.upper.copy(), self.lower.copy()
        below[at] = above[at] = 0.5 * self.lower[at] + 0.5 * self.upper[at]
        whole = np.isin(columns, [column for column, _ in model.tables])  # between two rows of a table there is nothing
        below[at] = np.where(whole, np.floor(below[at]), below[at])
        above[at] = np.where(whole, np.minimum(below[at] + 1, self.upper[at]), above[at])
        ends = np.concatenate([self.lower, above]), np.concatenate([below, self.upper])
        return Boxes(np.concatenate([self.owner, self.owner]), *ends)


@dataclass(frozen=True, eq=False)
class ProvenMargins:
    """For each region the confirmed margin, and whether it exceeds the error of inference; (regions,)."""

    margin: Array
    covers: np.ndarray


@dataclass(frozen=True, eq=False)
class ProvenScores:
    """For each region bounds of its scores (regions, outputs), and of the error of each raw output."""

    low: Array
    high: Array
    error: Array


@dataclass
class Cover:
    """Finds boxes that cover regions, within limits for all regions of a certificate together.

    ``reasons`` say which inputs are not possible, and which pieces of the certificate do not cover their neighbourhood.
    """

    model: Model
    spec: Spec
    reasons: list[str] = field(default_factory=list)
    effort: Effort = field(default_factory=Effort)
    regions: int = 0
    parts: int = 0
    boxes: int = 0
    points: int = 0

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
        """How many boxes of its own choice can be checked, however few regions there are."""
        return MAX_WORK // box_work(self.model)

    def batches(self, regions: Regions, room: int = 1) -> Iterator[Boxes]:
        """Return the boxes of regions, in batches; none of a region with a reason against it.

        Batches leave ``room`` for this many boxes in place of each.
        """
        self.regions += len(regions.x)
        linear, by_points = np.flatnonzero(~regions.points), np.flatnonzero(regions.points)
        if regions.pieces is None:
            yield from self._own(regions, linear, room, points=False)
        elif len(linear):
            self._check_pieces(regions, linear)
            if not self.reasons:
                pieces = regions.pieces
                boxes = Boxes(pieces.owner, pieces.lower, pieces.upper, slopes=pieces.slopes)
                yield from boxes.parts(max(1, _BATCH // self.most_numbers))
        yield from self._own(regions, by_points, room, points=True)

    def _own(self, regions: Regions, rows: np.ndarray, room: int, points: bool) -> Iterator[Boxes]:
        around = self._neighbourhoods(regions, rows, points)
        for owner, lower, upper in batches(around, max(1, _BATCH // (self.most_numbers * room)), points=points):
            yield Boxes(owner, lower, upper, points)

    def _neighbourhoods(
        self, regions: Regions, rows: np.ndarray, points: bool | None
    ) -> Iterator[tuple[int, Sequence[Product]]]:
        """Return the neighbourhoods of these regions, with their numbers; ``points`` is None if there are pieces."""
        found = neighbourhoods(self.spec, regions.x[rows], self.model.dtype)
        for row, around in zip(rows.tolist(), found, strict=True):
            try:
                if isinstance(around, NotConfirmedError):
                    raise around
                self._charge(around, points)
            except NotConfirmedError as error:
                self.reasons.append(f"regions[{regions.first + row}]: {error}")
                continue
            yield row, around

    def _check_pieces(self, regions: Regions, rows: np.ndarray) -> None:
        """Note which pieces do not cover their neighbourhood."""
        pieces = regions.pieces
        assert pieces is not None
        for row, around in self._neighbourhoods(regions, rows, None):
            mine = slice(*np.searchsorted(pieces.owner, (row, row + 1)))
            hole = find_uncovered(around, pieces.lower[mine], pieces.upper[mine], self.model.dtype, self.effort)
            if hole is not None:
                self.reasons.append(
                    f"regions[{regions.first + row}]: the pieces do not cover the neighbourhood: {hole}"
                )

    def _charge(self, around: Sequence[Product], points: bool | None) -> None:
        """Count the parts of a neighbourhood, and its boxes or points; refuse those that would take too long."""
        self.parts += len(around) * (1 + len(self.spec.links))
        if self.parts > MAX_PARTS:
            raise CheckError(f"regions: links divide the neighbourhoods into more parts than the limit ({MAX_PARTS:,})")
        if points is None:
            return
        count = count_boxes(around, points)
        self.points, self.boxes = self.points + count * points, self.boxes + count * (not points)
        if self.points > self.most_points:
            raise CheckError(
                f"regions: there are more points to check than the limit for this model ({self.most_points:,})"
            )
        most = max(self.most_boxes, _BOXES_EACH * self.regions)
        if self.boxes > most:
            raise CheckError(f"regions: there are more boxes to check than the limit for this model ({most:,})")


def prove(cover: Cover, regions: Regions, least: float = np.inf) -> ProvenMargins:
    """Return the margins of regions about classes; ``least`` is the smallest one of those before.

    A margin that is neither below ``least`` nor in doubt is a quick bound, and may be larger.
    """
    margin = np.full(len(regions.x), np.inf)
    excess = np.full(len(regions.x), np.inf)  # of the margin over the error of inference
    threshold = Threshold.of(cover.spec.threshold, cover.model.dtype)
    for boxes in cover.batches(regions):
        classes, below = regions.classes[boxes.owner], min(least, float(margin.min()))
        wanted = np.zeros(len(classes)) if regions.margins is None else regions.margins[boxes.owner]
        bound, over = _margins(cover.model, threshold, classes, boxes, below, wanted)
        np.minimum.at(margin, boxes.owner, bound)
        np.minimum.at(excess, boxes.owner, over)
    margin[np.isposinf(margin)] = -np.inf  # nothing is confirmed of a region without boxes
    return ProvenMargins(margin, (excess > 0) & (margin > 0))


def prove_scores(cover: Cover, regions: Regions, score: Score, *, halve: bool = False) -> ProvenScores:
    """Return bounds of the scores of regions; ``halve`` boxes of the checker's own choice to make them tighter."""
    model = cover.model
    shape = len(regions.x), model.outputs
    low, high, error = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    for boxes in cover.batches(regions, 2**_HALVINGS if halve else 1):
        for _ in range(_HALVINGS if halve and not boxes.points and boxes.slopes is None else 0):
            boxes = boxes.halved(model)
        if boxes.points:
            layers = _intervals(model, boxes)
            least, most = score.from_outputs(*layers[-1])
        else:
            forms = np.broadcast_to(score.forms, (len(boxes.lower), *score.forms.shape))
            bounds, layers = form_bounds(model, forms, boxes.lower, boxes.upper, boxes.slopes)
            least, most = score.from_forms(bounds)
        each = np.broadcast_to(np.eye(model.outputs), (len(boxes.lower), model.outputs, model.outputs))
        errors = output_errors(model, boxes.lower, boxes.upper, layers, each, thorough=not boxes.points)
        np.minimum.at(low, boxes.owner, least)
        np.maximum.at(high, boxes.owner, most)
        np.maximum.at(error, boxes.owner, errors)
    nothing = low > high  # is confirmed of a region without boxes
    return ProvenScores(np.where(nothing, -np.inf, low), np.where(nothing, np.inf, high), error)


def _margins(
    model: Model,
    threshold: Threshold,
    classes: np.ndarray,
    boxes: Boxes,
    least: float,
    wanted: Array,
    halvings: int = _HALVINGS,
) -> tuple[Array, Array]:
    """Return lower bounds of the margins over boxes, and by how much they exceed the error of inference; (boxes,).

    Intervals alone decide most boxes. The others, and those that are below ``least`` or ``wanted`` (boxes,), get linear
    bounds. Those that are still not decided, or below what is wanted, are halved.
    """
    if boxes.slopes is not None:
        return _linear_margins(model, threshold, classes, boxes)
    layers = _intervals(model, boxes)
    bound = threshold.margins(interval_margins(model, classes, *layers[-1]), classes)
    over = _excess(model, threshold, classes, boxes, layers, bound)
    weak = np.flatnonzero(~(over > 0) | (bound < least) | (bound < wanted))
    if not boxes.points and len(weak):
        tight, tight_over = _linear_margins(model, threshold, classes[weak], boxes.subset(weak))
        bound[weak], over[weak] = np.maximum(bound[weak], tight), np.maximum(over[weak], tight_over)
    doubtful = np.flatnonzero((~(over > 0) | (bound < wanted)) & (boxes.lower < boxes.upper).any(axis=1))
    for start in range(0, len(doubtful) if halvings else 0, _HALVED):
        some = doubtful[start : start + _HALVED]
        both, margins = (np.concatenate([each[some], each[some]]) for each in (classes, wanted))
        halves = _margins(model, threshold, both, boxes.subset(some).halved(model), -np.inf, margins, halvings - 1)
        for found, inner in zip((bound, over), halves, strict=True):
            found[some] = np.maximum(found[some], inner.reshape(2, -1).min(axis=0))
    return bound, over


def _linear_margins(model: Model, threshold: Threshold, classes: np.ndarray, boxes: Boxes) -> tuple[Array, Array]:
    bounds, layers = form_bounds(model, leads(model, classes), boxes.lower, boxes.upper, boxes.slopes)
    bound = threshold.margins(bounds.min(axis=1), classes)
    return bound, _excess(model, threshold, classes, boxes, layers, bound)


def _intervals(model: Model, boxes: Boxes) -> Intervals:
    with np.errstate(all="ignore"):
        return interval_layers(model, boxes.lower, boxes.upper)


def _excess(
    model: Model, threshold: Threshold, classes: np.ndarray, boxes: Boxes, layers: Intervals, bound: Array
) -> Array:
    """Return by how much margins exceed the error of inference (boxes,); -inf where they do not."""
    closing = threshold.closing(classes)
    error = inference_error(model, classes, boxes.lower, boxes.upper, layers, bound, closing)
    return _above(bound, error)


def _above(bound: Array, error: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.where(bound > error, bound - error, -np.inf)


def point_work(model: Model) -> int:
    """Return the multiplications for a point; each output, or lead over another, has an error of its own."""
    work = 0
    for number, node in enumerate(model.nodes):
        if isinstance(node.operation, Dense):
            work += node.operation.weight.size + _PER_UNIT * sum(node.operation.weight.shape)
        elif isinstance(node.operation, Activation):
            work += model.widths[number] * _PER_VALUE.get(node.operation.name, _PER_CURVE)
        elif number:
            work += _PER_UNIT * model.widths[number]
    return model.outputs * work


def box_work(model: Model) -> int:
    """Return the multiplications for a box: the units of each layer are substituted back through all layers before."""
    work, before, layers = point_work(model), 0, 0
    for number, node in enumerate(model.nodes):
        if isinstance(node.operation, Dense | Scale | Sum):
            work += 2 * model.widths[number] * before + _PER_LAYER * layers
            layers += 1
        if isinstance(node.operation, Dense):
            before += node.operation.weight.size
    return work
