"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md.

Forward, node by node, go the intervals of what inference can compute, and what each operation rounds. Backward goes
how strongly the outputs depend on each of these roundings. In the letters of "The error of inference" there:

- `Rounding.own` is r of an affine layer, a scale or a sum, and r' of all other nodes;
- `Rounding.error` is e, how far the computed number may be from the exact one, and e' of functions;
- `Rounding.low` and `Rounding.high` are the interval of both z and the computed number, [lo - e, hi + e];
- `_Paths.low` and `_Paths.high` are the interval of J or J', `size` the sum of their sizes |J|, `length` that of ‖J‖;
- `left` has the J of the nodes up to which a form was traced back, and `total` the Σ |J| r so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairmend_check.kernel.bounds import Intervals, Known, leads
from fairmend_check.kernel.model import Dense, Model
from fairmend_check.kernel.operations.base import Interval, Nonlinear, Read, Rounding, Terms, length, magnitude
from fairmend_check.kernel.operations.columns import Sum
from fairmend_check.kernel.rounding import TINY, Array, Precision, U, down, gamma, up

_ROOM = 2**19  # numbers in the largest array
_SCALED = 2.0**120  # by more, scalings in a row do not fit into one number of float32


def inference_error(
    model: Model,
    classes: np.ndarray,
    lower: Array,
    upper: Array,
    nodes: Intervals,
    margins: Array,
    closing: Array,
    groups: np.ndarray | None = None,
) -> Array:
    """Return bounds of the error of margins of these classes over boxes (boxes,); inf where inference may overflow.

    ``nodes`` are intervals of every node but the last. What holds over the smallest box around all of them takes no
    time. Only where ``margins`` (boxes,) are positive and not above that, each box has a bound of its own, and only
    where that is not enough, a tight one. ``closing`` (boxes,) is added for a closing sigmoid or softmax. With
    ``groups`` (boxes,), tight ones are found for many boxes of a group together.
    """
    if not len(classes):
        return np.empty(0)
    kinds, kind = np.unique(classes, return_inverse=True)
    around = [_around(low, high, len(kinds)) for low, high in (*nodes, (lower, upper))]
    error = up(output_errors(model, *around[-1], around[:-1], leads(model, kinds)).max(axis=1)[kind] + closing)
    for thorough in (False, True) if groups is None else (False,):
        close = np.flatnonzero((margins > 0) & ~(margins > error))
        if len(close):
            near, forms = [(low[close], high[close]) for low, high in nodes], leads(model, classes[close])
            tight = output_errors(model, lower[close], upper[close], near, forms, thorough=thorough)
            error[close] = up(tight.max(axis=1) + closing[close])
    if groups is not None:
        close = np.flatnonzero((margins > 0) & ~(margins > error))
        for group in np.unique(groups[close]):
            rows = close[groups[close] == group]
            _tighten(model, classes, [*nodes, (lower, upper)], margins, closing, error, rows)
    return error


def _tighten(
    model: Model,
    classes: np.ndarray,
    ends: Intervals,
    margins: Array,
    closing: Array,
    error: Array,
    rows: np.ndarray,
) -> None:
    """Make the errors of some boxes, those of one input, tight: of all together, or of halves where that is too much.

    ``ends`` are intervals of every node but the last, and the boxes. It is over if the box with the least margin, by
    itself, has a larger error.
    """

    def trace(part: np.ndarray) -> np.ndarray:
        near = [(low[part].min(axis=0)[None], high[part].max(axis=0)[None]) for low, high in ends]
        forms = leads(model, np.unique(classes[part]))
        around = [(np.repeat(low, len(forms), axis=0), np.repeat(high, len(forms), axis=0)) for low, high in near]
        tight = float(output_errors(model, *around[-1], around[:-1], forms, thorough=True).max())
        error[part] = np.minimum(error[part], up(tight + closing[part]))
        return np.asarray(part[~(margins[part] > error[part])])

    left = trace(rows)
    if not len(left) or len(trace(left[[margins[left].argmin()]])):
        return
    waiting = [left]
    while waiting:
        part = waiting.pop()
        part = part[~(margins[part] > error[part])]
        for half in np.array_split(part, 2) if len(part) else ():
            left = trace(half) if len(half) else half
            if len(left) and len(half) == 1:
                return
            if len(left):
                waiting.append(left)


def _around(low: Array, high: Array, count: int) -> Interval:
    """Return the smallest box around all of these, so many times."""
    ends = low.min(axis=0), high.max(axis=0)
    return np.broadcast_to(ends[0], (count, len(ends[0]))), np.broadcast_to(ends[1], (count, len(ends[1])))


def output_errors(
    model: Model,
    lower: Array,
    upper: Array,
    nodes: Intervals,
    forms: Array,
    *,
    thorough: bool = False,
    kind: Precision | None = None,
) -> Array:
    """Return bounds of the error of linear forms of the outputs (boxes, forms, outputs): (boxes, forms).

    With ``thorough`` the errors of hidden nodes are traced backward as well, which is much tighter in deep networks.
    ``kind`` is how a program rounds, if not as the model does.
    """
    kind = Precision.of(model.dtype) if kind is None else kind
    widest = max(model.widths)
    step = max(1, _ROOM // max(model.held, widest * max(forms.shape[1], widest if thorough else 1)))
    found = [np.empty((0, forms.shape[1]))]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            intervals = [(low[part], high[part]) for low, high in nodes]
            roundings, own, fits = _forward(model, lower[part], upper[part], intervals, kind, thorough=thorough)
            bound = _backward(model, roundings, own, forms[part])
            found.append(np.where(fits[:, None] & ~np.isnan(bound), bound, np.inf))
    return np.concatenate(found)


def _forward(
    model: Model, lower: Array, upper: Array, nodes: Intervals, kind: Precision, *, thorough: bool
) -> tuple[list[Rounding], Array, np.ndarray]:
    """Return the roundings of every node but the last, what the last one rounds, and where nothing can overflow."""
    entering = np.minimum(kind.tiny, np.maximum(np.abs(lower), np.abs(upper)))  # subnormal inputs may become 0
    found = [Rounding(entering, entering, lower - entering, upper + entering)]
    fits = _fits(found[0], kind)
    known = Known(model, nodes)
    for number, node in enumerate(model.nodes[1:-1], start=1):
        if isinstance(node.operation, Nonlinear):
            rounding = _nonlinear(known, number, found, kind, thorough=thorough)
            fits &= _fits(rounding, kind)
            found.append(_narrowed(known, number, rounding))
            continue
        own = _own(model, number, found, kind)
        found.append(_linear(known, number, found, own, thorough=thorough))
        fits &= own.fits
    last = _own(model, len(model.nodes) - 1, found, kind)  # an affine layer, a scale or a sum
    return found, last.rounding, fits & last.fits


def _fits(rounding: Rounding, kind: Precision) -> np.ndarray:
    """Return where no computed number of a node overflows (boxes,)."""
    return np.asarray((np.maximum(rounding.high, -rounding.low) < kind.largest).all(axis=1))


def _nonlinear(known: Known, number: int, found: list[Rounding], kind: Precision, *, thorough: bool) -> Rounding:
    """Return the rounding of a node that is not linear: the operation finds it by itself."""
    node, errors = known.model.nodes[number], [found[source].error for source in known.model.nodes[number].sources]
    assert isinstance(node.operation, Nonlinear)
    reads = _reads(known.model, number, found, kind)
    return node.operation.in_inference(reads, errors, kind, partial(known.asked, number) if thorough else None)


def _narrowed(known: Known, number: int, rounding: Rounding) -> Rounding:
    """Return the rounding of a product within the interval that is known of it, which may be traced, and tighter."""
    if not known.model.nodes[number].operation.arithmetic:
        return rounding
    low, high = known.intervals[number]
    low, high = down(low - rounding.error), up(high + rounding.error)
    return replace(rounding, low=np.maximum(rounding.low, low), high=np.minimum(rounding.high, high))


@dataclass(frozen=True, eq=False)
class _Own:
    """What a linear node rounds itself (boxes, width), where nothing in it overflows (boxes,), and where it is 0.

    ``terms`` and ``ending`` are those of `Rounding`.
    """

    rounding: Array
    fits: np.ndarray
    zero: np.ndarray
    terms: Terms | None
    ending: float


def _own(model: Model, number: int, found: list[Rounding], kind: Precision) -> _Own:
    """Return what a linear node rounds itself, given the computed numbers that it reads."""
    operation, reads = model.nodes[number].operation, _reads(model, number, found, kind)
    terms, before = operation.terms(reads, kind), max(read.scaled for read in reads)
    own, largest = operation.own_rounding(terms, reads, kind, before)
    if any(read.flushed.any() for read in reads):
        own = own + operation.carried(None, [read.flushed for read in reads]) * _outward(model, number)
    scaled, ending = operation.scaled(before)
    if isinstance(operation, Sum) and terms is not None:  # a sum that is read twice is computed by itself
        terms = terms.where(model.uses[number] < 2)
    fits = np.asarray((largest < kind.largest).all(axis=1) & (scaled <= _SCALED))
    return _Own(own, fits, largest == 0, terms, ending)


def _linear(known: Known, number: int, found: list[Rounding], own: _Own, *, thorough: bool) -> Rounding:
    """Return the rounding of a linear node: its own, and the errors that it carries on."""
    model, node = known.model, known.model.nodes[number]
    carried = node.operation.carried(None, [found[source].error for source in node.sources])
    error = (carried + own.rounding) * _outward(model, number)
    if thorough and any(node.sources) and node.operation.arithmetic:
        error = np.minimum(error, _traced_errors(model, found, own.rounding))
    low, high = known.intervals[number]
    low, high = down(low - error), up(high + error)
    low, high = np.where(own.zero, 0.0, low), np.where(own.zero, 0.0, high)  # what is surely 0 stays 0
    return Rounding(own.rounding, error, low, high, None, own.terms, own.ending)


def _outward(model: Model, number: int) -> float:
    """Return by how much what a node carries on is enlarged, for the rounding of this very computation."""
    return 1 + 4 * gamma(sum(model.widths[source] for source in model.nodes[number].sources) + 4)


def _reads(model: Model, number: int, found: list[Rounding], kind: Precision) -> list[Read]:
    """Return what a node reads."""
    return [_reading(model, source, found[source], kind) for source in model.nodes[number].sources]


def _reading(model: Model, number: int, source: Rounding, kind: Precision) -> Read:
    """Return what one of the readers of a node reads."""
    if model.readers[number] == 1:
        return Read(source.low, source.high, np.zeros_like(source.low), source.terms, source.scaled)
    flushed = np.minimum(kind.tiny, np.maximum(source.high, -source.low))
    return Read(source.low - flushed, source.high + flushed, flushed, source.terms, source.scaled)


def _traced_errors(model: Model, found: list[Rounding], own: Array) -> Array:
    """Return the errors of the next node, which rounds ``own`` (boxes, width), traced backward."""
    (boxes, width), node = own.shape, model.nodes[len(found)]
    step, errors = max(1, _ROOM // (max(model.widths) * boxes)), []
    for start in range(0, width, step):
        part = slice(start, start + step)
        if isinstance(node.operation, Dense):  # its weights are the derivatives themselves, without a rounding
            rows = np.broadcast_to(weight := node.operation.weight[part], (boxes, *weight.shape))
            errors.append(_traced(model, found, own[:, part], {node.sources[0]: _Paths.of(model, rows)}))
        else:
            rows = np.broadcast_to(units := np.eye(width)[part], (boxes, *units.shape))
            errors.append(_backward(model, found, own, rows))
    return np.concatenate(errors, axis=1)


@dataclass(frozen=True, eq=False)
class _Paths:
    """Derivatives of forms by a node: intervals, and sums over all paths of their sizes (boxes, forms, width).

    ``length`` is the sum over all paths of their lengths as vectors (boxes, forms), where a model multiplies. Over wide
    boxes that is closer: intervals of derivatives grow with each node, but few nodes make a vector much longer.
    """

    low: Array
    high: Array
    size: Array
    length: Array

    @staticmethod
    def of(model: Model, forms: Array) -> _Paths:
        """Return the derivatives by a node of forms of it."""
        size = np.abs(forms)
        return _Paths(forms, forms, size, length(size) if model.multiplies else np.full((1, 1), np.inf))

    def __add__(self, other: _Paths) -> _Paths:
        """Add those by the same node."""
        low, high = down(self.low + other.low), up(self.high + other.high)
        return _Paths(low, high, up(self.size + other.size), up(self.length + other.length))

    def times(self, sizes: Array) -> Array:
        """Bound what numbers of these sizes (boxes, width) change in the forms (boxes, forms).

        It is at most the sum of the products of the sizes, and the product of the lengths.
        """
        found = _sum(self.size, sizes)
        if len(self.length) == len(sizes):
            found = np.fmin(found, self.length * length(sizes)[:, None] * (1 + 8 * U) + TINY)
        return found


def _backward(model: Model, found: list[Rounding], own: Array, forms: Array) -> Array:
    """Return what roundings can change in forms of the next node, which rounds ``own`` itself."""
    left: dict[int, _Paths] = {}
    _pass_on(model, len(found), _Paths.of(model, forms), None, left)
    return _traced(model, found, _sum(np.abs(forms), own), left)


def _traced(model: Model, found: list[Rounding], total: Array, left: dict[int, _Paths]) -> Array:
    """Return what roundings can change in forms whose derivatives by nodes are ``left``, beside a ``total`` so far.

    These are the derivatives of the forms by each rounding times its size. Before the first node, and after every node
    on the way but functions, the errors of the nodes that are left are a bound as well, and the best bound counts.

    Derivatives by a node are intervals, in which several paths to it may cancel. But a program may compute the node
    once for each of these paths, with other roundings each time: ONNX Runtime makes a scaling part of one of its
    readers, compilers fuse a product and a sum. So roundings are multiplied by the sum of the sizes of the derivatives
    on all paths, each traced back from the next affine layer: that no program computes a layer twice, with other
    roundings, is an assumption (docs/guarantee.md, "What it rests on").
    """
    best = _cut(found, total, left)
    for number in range(len(found) - 1, -1, -1):
        if number in left:
            paths = left.pop(number)
            total = up(total + paths.times(found[number].own))
            _pass_on(model, number, paths, found[number].slopes, left)
            if number and not isinstance(model.nodes[number].operation, Nonlinear):
                best = np.fmin(best, _cut(found, total, left))  # nan, of numbers that overflow, is no bound
    return np.asarray(np.fmin(best, total))


def _pass_on(model: Model, number: int, paths: _Paths, slopes: Any, left: dict[int, _Paths]) -> None:
    """Add derivatives by the nodes that a node reads to those that are left, from those by itself."""
    node = model.nodes[number]
    widths = [model.widths[source] for source in node.sources]
    parts = node.operation.derivatives((paths.low, paths.high, paths.size), widths, slopes) if node.sources else []
    longest = paths.length
    if isinstance(node.operation, Dense) and model.multiplies:  # paths begin anew, with what all of them have in common
        longest = np.fmin(longest, length(magnitude(paths.low, paths.high)))
    for side, (source, (low, high, size)) in enumerate(zip(node.sources, parts, strict=False)):  # a look-up has none
        stretched = longest
        if model.multiplies:
            stretch = np.asarray(node.operation.stretch(side, slopes))
            stretched = np.fmin(up(longest * stretch[..., None]), length(size))
            most = stretched[..., None]
            low, high, size = np.fmax(low, -most), np.fmin(high, most), np.fmin(size, most)
        part = _Paths(low, high, size, stretched)
        left[source] = left[source] + part if source in left else part


def _cut(found: list[Rounding], total: Array, left: dict[int, _Paths]) -> Array:
    """Return the total with the errors of the nodes that are left."""
    for source, paths in left.items():
        total = up(total + paths.times(found[source].error))
    return total


def _sum(derivatives: Array, sizes: Array) -> Array:
    """Return bounds of derivatives of these sizes (boxes, forms, width) times numbers of these sizes (boxes, width)."""
    n = derivatives.shape[2]
    product = (derivatives @ sizes[:, :, None])[:, :, 0]
    return np.asarray(product * (1 + 4 * gamma(n + 8)) + TINY)
