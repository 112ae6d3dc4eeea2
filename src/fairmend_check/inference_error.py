"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md.

Forward, node by node, go the intervals of what inference can compute, and what each operation rounds. Backward goes
how strongly the outputs depend on each of these roundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend_check.bounds import Intervals, leads
from fairmend_check.functions import function_of
from fairmend_check.model import Activation, Columns, Concatenate, Dense, Lookup, Model, Operation, Scale, Sum
from fairmend_check.norms import Fold, Norm
from fairmend_check.rounding import TINY, Array, Precision, ball, down, gamma, up

_FOLDING = 8  # roundings of a folded layer beside its products and its norms
_SCALING = 2  # of a scaling beside its norms: its numbers are rounded to the type of the model
_ROOM = 2**19  # numbers in the largest array
_SCALED = 2.0**120  # by more, scalings in a row do not fit into one number of float32
_ENDINGS = {"hardswish": 6.0, "gelu": 2.0, "gelu_tanh": 2.0}  # by how much these divide in the last of several nodes


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms of an affine layer or a sum: how many additions, and the sums of all positive and all negative ones.

    ``unit`` is how far each addition is off, as the node itself counts it.
    """

    additions: Array
    above: Array
    below: Array
    unit: Array


@dataclass(frozen=True, eq=False)
class Rounding:
    """A node in inference (boxes, width): what it rounds itself, given its computed inputs, and all of its error.

    ``low`` and ``high`` enclose both what is exact and what is computed; ``slopes`` are those of a function, ``terms``
    those that a program may add up together with other parts of a sum. ``scaled`` is by how much the scalings that the
    node ends with, those of a function that is several nodes among them, multiply or divide, at most.
    """

    own: Array
    error: Array
    low: Array
    high: Array
    slopes: tuple[Array, Array] | None = None
    terms: _Terms | None = None
    scaled: float = 1.0


def inference_error(
    model: Model,
    classes: np.ndarray,
    lower: Array,
    upper: Array,
    nodes: Intervals,
    margins: Array,
    closing: Array,
) -> Array:
    """Return bounds of the error of margins of these classes over boxes (boxes,); inf where inference may overflow.

    ``nodes`` are intervals of every node but the last. The bounds are made tight only where ``margins``
    (boxes,) are positive and not above a bound that takes a fraction of the time. ``closing`` (boxes,) is added for a
    closing sigmoid or softmax.
    """
    error = up(output_errors(model, lower, upper, nodes, leads(model, classes)).max(axis=1) + closing)
    close = (margins > 0) & ~(margins > error)
    near = [(low[close], high[close]) for low, high in nodes]
    tight = output_errors(model, lower[close], upper[close], near, leads(model, classes[close]), thorough=True)
    error[close] = up(tight.max(axis=1) + closing[close])
    return error


def output_errors(
    model: Model, lower: Array, upper: Array, nodes: Intervals, forms: Array, *, thorough: bool = False
) -> Array:
    """Return bounds of the error of linear forms of the outputs (boxes, forms, outputs): (boxes, forms).

    With ``thorough`` the errors of hidden nodes are traced backward as well, which is much tighter in deep networks.
    """
    widest = max(model.widths)
    step = max(1, _ROOM // max(model.held, widest * max(forms.shape[1], widest if thorough else 1)))
    found = [np.empty((0, forms.shape[1]))]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            intervals = [(low[part], high[part]) for low, high in nodes]
            roundings, own, fits = _forward(model, lower[part], upper[part], intervals, thorough=thorough)
            bound = _backward(model, roundings, own, forms[part])
            found.append(np.where(fits[:, None] & ~np.isnan(bound), bound, np.inf))
    return np.concatenate(found)


def _forward(
    model: Model, lower: Array, upper: Array, nodes: Intervals, *, thorough: bool
) -> tuple[list[Rounding], Array, np.ndarray]:
    """Return the roundings of every node but the last, what the last one rounds, and where nothing can overflow."""
    kind = Precision.of(model.dtype)
    entering = np.minimum(kind.tiny, np.maximum(np.abs(lower), np.abs(upper)))  # subnormal inputs may become 0
    found = [Rounding(entering, entering, lower - entering, upper + entering)]
    fits = np.asarray((np.maximum(found[0].high, -found[0].low) < kind.largest).all(axis=1))
    for number, node in enumerate(model.nodes[1:], start=1):
        reads = [_reading(model, source, found[source], kind) for source in node.sources]
        errors = [found[source].error for source in node.sources]
        if isinstance(node.operation, Activation):
            found.append(_function_rounding(node.operation, reads[0], errors[0], kind))
            fits &= (np.maximum(found[-1].high, -found[-1].low) < kind.largest).all(axis=1)
            continue
        outward = 1 + 4 * gamma(sum(model.widths[source] for source in node.sources) + 4)
        terms = _terms(node.operation, reads, kind)
        own, largest = _own_rounding(node.operation, terms, reads, kind, found[node.sources[0]].scaled)
        if any(read.flushed.any() for read in reads):
            own = own + _passed_on(node.operation, [read.flushed for read in reads]) * outward
        scaled, ending = _scaled(node.operation, found[node.sources[0]].scaled)
        fits &= (largest < kind.largest).all(axis=1) & (scaled <= _SCALED)
        if number == len(model.nodes) - 1:
            break
        error = (_passed_on(node.operation, errors) + own) * outward
        if thorough and any(node.sources) and isinstance(node.operation, Dense | Scale | Sum):
            units = np.eye(model.widths[number])
            forms = np.broadcast_to(units, (len(lower), *units.shape))
            error = np.minimum(error, _backward(model, found, own, forms))
        low, high = down(nodes[number][0] - error), up(nodes[number][1] + error)
        zero = largest == 0  # a copy, or a sum, of what is surely 0 stays 0
        found.append(Rounding(own, error, np.where(zero, 0.0, low), np.where(zero, 0.0, high), None, terms, ending))
    return found, own, fits


def _scaled(operation: Operation, before: float) -> tuple[float, float]:
    """Return by how much a node scales, with the scalings right before it, and by how much it does at its end.

    ONNX Runtime makes one factor in float32 of all scalings beside a product with a matrix, also of those that other
    nodes read as well. If the factor is too small for that, it is 0.
    """
    if isinstance(operation, Scale):
        scaled = before * float(operation.norm.reach.max())
        return scaled, scaled
    if not isinstance(operation, Dense) or operation.fold is None:
        return before, 1.0
    after = float(operation.fold.after.reach.max())
    return before * float(operation.fold.before.reach.max()) * after, after


@dataclass(frozen=True, eq=False)
class _Read:
    """The interval low..high that a node reads, and what it may lose by reading a subnormal number as 0.

    What a single reader loses is counted with the node that it reads. Of several readers, each may lose it by itself.
    ``terms`` are those of the node that is read.
    """

    low: Array
    high: Array
    flushed: Array
    terms: _Terms | None = None


def _reading(model: Model, number: int, source: Rounding, kind: Precision) -> _Read:
    """Return what one of the readers of a node reads."""
    if model.readers[number] == 1:
        return _Read(source.low, source.high, np.zeros_like(source.low), source.terms)
    flushed = np.minimum(kind.tiny, np.maximum(source.high, -source.low))
    # A sum that several nodes read is computed by itself.
    terms = source.terms if isinstance(model.nodes[number].operation, Dense) else None
    return _Read(source.low - flushed, source.high + flushed, flushed, terms)


def _function_rounding(activation: Activation, read: _Read, error: Array, kind: Precision) -> Rounding:
    function = function_of(activation)
    low, high = function.value_range(read.low, read.high)
    slopes = function.slope_range(read.low, read.high)
    steepest = np.maximum(np.abs(slopes[0]), np.abs(slopes[1]))
    own = function.rounding(read.low, read.high, kind)
    if read.flushed.any():
        own = own + steepest * read.flushed * (1 + 4 * gamma(4))
    # Exact and computed value both lie between low and high, but for the function's own rounding.
    error = (np.minimum(error * steepest, up(high - low)) + own) * (1 + 4 * gamma(4))
    return Rounding(own, error, low - own, high + own, slopes, scaled=_ENDINGS.get(activation.name, 1.0))


def _passed_on(operation: Operation, errors: Sequence[Array]) -> Array:
    """Return how far a node is off if the nodes that it reads are off by these errors."""
    if isinstance(operation, Lookup):  # the number of a row is exact
        return np.zeros((len(errors[0]), operation.table.shape[1]))
    if isinstance(operation, Dense):
        return errors[0] @ np.abs(operation.weight).T
    if isinstance(operation, Scale):
        return errors[0] * np.abs(operation.factor)
    if isinstance(operation, Concatenate):
        return np.concatenate(errors, axis=1)
    if isinstance(operation, Columns):
        return errors[0][:, operation.indices]
    return np.asarray(sum(errors))


def _own_rounding(
    operation: Operation, terms: _Terms | None, reads: list[_Read], kind: Precision, scaled: float
) -> tuple[Array, Array]:
    """Return how far a computed node is from the exact one with the same inputs, and the largest number on the way.

    Scalings right before a product with a matrix may be computed after it: then its sums are larger or smaller by as
    much as these scale, and what underflows there is multiplied by it.
    """
    low, high = reads[0].low, reads[0].high
    if isinstance(operation, Dense) and terms is not None:
        if operation.fold is not None:
            return _folded_rounding(operation.fold, terms, low, high, kind, scaled)
        return _affine_rounding(terms, low, high, kind, scaled)
    if isinstance(operation, Scale):
        return _scale_rounding(operation.norm, low, high, kind)
    if isinstance(operation, Sum) and terms is not None:
        return _sum_rounding(terms, reads, kind)
    if isinstance(operation, Lookup):
        size = np.broadcast_to(np.abs(operation.table).max(axis=0), (len(low), operation.table.shape[1]))
        return np.minimum(kind.tiny, size), size
    size = _passed_on(operation, [np.maximum(read.high, -read.low) for read in reads])
    return np.zeros_like(size), size


def _sum_terms(reads: list[_Read], kind: Precision) -> _Terms:
    """Return the terms of a sum: those of its parts.

    A program may add up the terms of an affine layer, or of a sum, and the other parts of the sum in one go, so that an
    addition in the layer is off by as much as one in the sum.
    """
    parts = [_part(read) for read in reads]
    additions = np.asarray(len(parts) - 1 + sum(part.additions for part in parts))
    count, outward = (additions + 1) * kind.u, 1 + 4 * gamma(len(parts) + 8)
    above, below = (np.asarray(sum(ends)) * outward for ends in zip(*((p.above, p.below) for p in parts), strict=True))
    g = np.where(count < 0.5, count / (1 - count), np.inf)
    return _Terms(additions, above, below, kind.u * _power_below((1 + 2 * g) * np.maximum(above, below)))


def _part(read: _Read) -> _Terms:
    """Return the terms that a sum reads, at least as large as what is computed of them."""
    none, above, below = np.zeros((1, 1)), np.maximum(read.high, 0.0), np.maximum(-read.low, 0.0)
    if read.terms is None:
        return _Terms(none, above, below, none)
    return replace(read.terms, above=np.maximum(read.terms.above, above), below=np.maximum(read.terms.below, below))


def _sum_rounding(terms: _Terms, reads: list[_Read], kind: Precision) -> tuple[Array, Array]:
    """Do the same for a sum, in any order: each addition is off by half a unit of a partial sum."""
    parts = [_part(read) for read in reads]
    merged = sum(part.additions * np.maximum(terms.unit - part.unit, 0.0) for part in parts)
    size = terms.above + terms.below
    own = ((len(reads) - 1) * terms.unit + merged + 2 * len(reads) * kind.tiny) * (1 + 4 * gamma(len(reads) + 8))
    enough = (terms.additions + 1) * kind.u < 0.5
    return np.where(size == 0, 0.0, own), np.where(enough, 2 * size, np.inf)


def _scale_rounding(norm: Norm, low: Array, high: Array, kind: Precision) -> tuple[Array, Array]:
    """Do the same for a scaling; as for a folded layer, but for each unit by itself."""
    size = np.maximum(high, -low)
    count = norm.units(kind.u) + _SCALING * kind.u
    reach = (1 + norm.reach) * (2 + size * norm.reach + norm.size)
    own = count / (1 - count) * (size * np.abs(norm.factor) + norm.size) + 16 * kind.tiny * reach
    return own * (1 + 4 * gamma(16)), 2 * reach


def _terms(operation: Operation, reads: list[_Read], kind: Precision) -> _Terms | None:
    """Return the terms of a sum, or of a layer; those that are surely 0 are added exactly.

    Of the others, every partial sum lies between the sum of all negative and the sum of all positive terms, and each
    addition is off by at most half a unit in the last place of the larger one.
    """
    if not isinstance(operation, Dense):
        return _sum_terms(reads, kind) if isinstance(operation, Sum) else None
    fold, weight, read = operation.fold, np.abs(operation.weight), reads[0]
    n = weight.shape[1]
    above, below = np.maximum(read.high, 0.0), np.maximum(-read.low, 0.0)
    size = np.maximum(above, below)
    if fold is not None:
        total = (size * np.abs(fold.before.factor) + fold.before.size) @ np.abs(fold.weight).T + np.abs(fold.bias)
        leaving = (total * np.abs(fold.after.factor) + fold.after.size) * (1 + 4 * gamma(n + 16))
        return _Terms(np.full((1, 1), n + 1.0), leaving, leaving, kind.u * leaving)
    outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
    additions = (size > 0).sum(axis=1, keepdims=True)  # the bias is a term as well
    g = (additions + 1) * kind.u / (1 - (additions + 1) * kind.u)  # n is at most 2^20, so n u stays well below 1
    total = ((above + below) @ weight.T + np.abs(operation.bias)) * outward  # P + N
    apart, slip = (above - below) @ operation.weight.T + operation.bias, (outward - 1) * total  # P - N
    most, least = (np.minimum(total, (total + sign * apart + slip) / 2) for sign in (1, -1))
    # 1 + 2 g covers the errors in the partial sums themselves.
    return _Terms(additions, most, least, kind.u * _power_below((1 + 2 * g) * np.maximum(most, least)))


def _affine_rounding(terms: _Terms, low: Array, high: Array, kind: Precision, scaled: float) -> tuple[Array, Array]:
    """Return how far a computed layer is from the exact one with the same inputs low..high, and its largest sum."""
    n = low.shape[1]
    outward = 1 + 4 * gamma(n + 8)
    total = (terms.above + terms.below) * outward
    flushed = kind.tiny * scaled * (np.maximum(np.abs(low), np.abs(high)).sum(axis=1, keepdims=True) + 4 * (n + 1))
    g = (n + 1) * kind.u / (1 - (n + 1) * kind.u)
    return (terms.additions * terms.unit + kind.u * total + flushed) * outward, scaled * total * (1 + g) + flushed


def _folded_rounding(
    fold: Fold, terms: _Terms, low: Array, high: Array, kind: Precision, scaled: float
) -> tuple[Array, Array]:
    """Do the same for a layer and the norms beside it, computed step by step or folded.

    Each step is off by as many units as it has roundings, in all terms that it adds up, and the numbers of the folded
    layer are rounded once more. No number on the way is above ``reach``, and a subnormal number that is taken as 0 is
    multiplied by no more than that.
    """
    n = fold.weight.shape[1]
    size = np.maximum(np.abs(low), np.abs(high))
    count = (n + _FOLDING) * kind.u + fold.before.units(kind.u) + fold.after.units(kind.u)
    weights = 1 + np.abs(fold.weight).sum(axis=1) + np.abs(fold.bias)
    beside = (1 + fold.before.reach.max()) * (1 + fold.after.reach.max()) * weights
    wide = size * fold.before.reach + fold.before.size
    reach = scaled * beside * (1 + n + wide.sum(axis=1, keepdims=True)) + fold.after.size
    return (count / (1 - count) * terms.above + 16 * kind.tiny * reach) * (1 + 4 * gamma(n + 16)), 2 * reach


def _power_below(values: Array) -> Array:
    """Return the largest powers of 2 up to these values; 0 for 0."""
    return np.asarray(np.minimum(values, np.ldexp(1.0, np.frexp(values)[1] - 1)))


def _backward(model: Model, found: list[Rounding], own: Array, forms: Array) -> Array:
    """Return what roundings can change in forms of the next node, which rounds ``own`` itself.

    These are the derivatives of the forms by each rounding times its size. After every node on the way but functions,
    the errors of the nodes that are left are a bound as well, and the best bound counts.

    Derivatives by a node are intervals, in which several paths to it may cancel. But a program may compute the node
    once for each of these paths, with other roundings each time: ONNX Runtime makes a scaling part of one of its
    readers, compilers fuse a product and a sum. So roundings are multiplied by the sum of the sizes of the derivatives
    on all paths, each traced back from the next affine layer.
    """
    left = {len(found): (forms, forms, np.abs(forms))}
    total, best = np.zeros(forms.shape[:2]), np.full(forms.shape[:2], np.inf)
    for number in range(len(found), -1, -1):
        if number not in left:
            continue
        derivatives = left.pop(number)
        total = up(total + _sum(derivatives[2], own if number == len(found) else found[number].own))
        node = model.nodes[number]
        slopes = None if number == len(found) else found[number].slopes
        for source, part in zip(node.sources, _derivatives(model, number, derivatives, slopes), strict=False):
            if source in left:
                (less, more, size), (low, high, sizes) = left[source], part
                part = down(less + low), up(more + high), up(size + sizes)
            left[source] = part
        if node.sources and not isinstance(node.operation, Activation):
            cut = total
            for source, (_, _, size) in left.items():
                cut = up(cut + _sum(size, found[source].error))
            best = np.minimum(best, cut)
    return np.asarray(np.minimum(best, total))


_Derivatives = tuple[Array, Array, Array]  # lower and upper ends, and sums of sizes: each (boxes, forms, width)


def _derivatives(
    model: Model, number: int, derivatives: _Derivatives, slopes: tuple[Array, Array] | None
) -> list[_Derivatives]:
    """Enclose derivatives by each node that a node reads, from those by the node itself."""
    node = model.nodes[number]
    operation = node.operation
    low, high, size = derivatives
    if isinstance(operation, Dense):
        less, more = _through_weights(low, high, operation.weight)
        return [(less, more, np.maximum(more, -less))]
    if isinstance(operation, Scale):
        ends = low * operation.factor, high * operation.factor
        return [(down(np.minimum(*ends)), up(np.maximum(*ends)), up(size * np.abs(operation.factor)))]
    if slopes is not None:
        least, most = (slope[:, None, :] for slope in slopes)
        return [(*_through_slopes(low, high, least, most), up(size * np.maximum(most, -least)))]
    if isinstance(operation, Columns):
        wide = (*low.shape[:2], model.widths[node.sources[0]])
        whole = np.zeros(wide), np.zeros(wide), np.zeros(wide)
        for all_columns, chosen in zip(whole, derivatives, strict=True):
            all_columns[:, :, operation.indices] = chosen
        return [whole]
    if isinstance(operation, Concatenate):
        stops = np.cumsum([model.widths[source] for source in node.sources])[:-1]
        return list(zip(*(np.split(part, stops, axis=2) for part in derivatives), strict=True))
    return [derivatives] * len(node.sources) if isinstance(operation, Sum) else []


def _through_slopes(low: Array, high: Array, least: Array, most: Array) -> tuple[Array, Array]:
    """Enclose the products of derivatives and slopes."""
    below, above = np.minimum(low * least, low * most), np.maximum(high * least, high * most)
    if (least < 0).any():
        below = np.minimum(below, np.minimum(high * least, high * most))
        above = np.maximum(above, np.maximum(low * least, low * most))
    return down(below), up(above)


def _through_weights(low: Array, high: Array, weight: Array) -> tuple[Array, Array]:
    """Enclose derivatives by the inputs of an affine layer, from those by its outputs."""
    used = low.any(axis=(0, 1)) | high.any(axis=(0, 1))  # units that are surely off need no product
    low, high, weight = low[:, :, used], high[:, :, used], weight[used]
    n = len(weight)
    mid, radius = ball(low, high)
    centre = mid @ weight
    spread = (radius @ np.abs(weight)) * (1 + 2 * gamma(n + 2)) + gamma(n + 4) * (np.abs(mid) @ np.abs(weight)) + TINY
    return down(centre - up(spread)), up(centre + up(spread))


def _sum(derivatives: Array, sizes: Array) -> Array:
    """Return bounds of derivatives of these sizes (boxes, forms, width) times numbers of these sizes (boxes, width)."""
    n = derivatives.shape[2]
    product = (derivatives @ sizes[:, :, None])[:, :, 0]
    return np.asarray(product * (1 + 4 * gamma(n + 8)) + TINY)
