"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md.

Forward, node by node, go the intervals of what inference can compute, and what each operation rounds. Backward goes
how strongly the outputs depend on each of these roundings.
"""

from __future__ import annotations

import numpy as np

from fairmend_check.kernel.bounds import Intervals, leads
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.operations.base import Read, Rounding
from fairmend_check.kernel.rounding import TINY, Array, Precision, down, gamma, up

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
    fits = np.asarray((np.maximum(found[0].high, -found[0].low) < kind.largest).all(axis=1))
    for number, node in enumerate(model.nodes[1:], start=1):
        reads = [_reading(model, source, found[source], kind) for source in node.sources]
        errors = [found[source].error for source in node.sources]
        if isinstance(node.operation, Activation):
            found.append(node.operation.in_inference(reads[0], errors[0], kind))
            fits &= (np.maximum(found[-1].high, -found[-1].low) < kind.largest).all(axis=1)
            continue
        outward = 1 + 4 * gamma(sum(model.widths[source] for source in node.sources) + 4)
        terms = node.operation.terms(reads, kind)
        own, largest = node.operation.own_rounding(terms, reads, kind, found[node.sources[0]].scaled)
        if any(read.flushed.any() for read in reads):
            own = own + node.operation.passed_on([read.flushed for read in reads]) * outward
        scaled, ending = node.operation.scaled(found[node.sources[0]].scaled)
        fits &= (largest < kind.largest).all(axis=1) & (scaled <= _SCALED)
        if number == len(model.nodes) - 1:
            break
        error = (node.operation.passed_on(errors) + own) * outward
        if thorough and any(node.sources) and node.operation.arithmetic:
            units = np.eye(model.widths[number])
            forms = np.broadcast_to(units, (len(lower), *units.shape))
            error = np.minimum(error, _backward(model, found, own, forms))
        low, high = down(nodes[number][0] - error), up(nodes[number][1] + error)
        zero = largest == 0  # a copy, or a sum, of what is surely 0 stays 0
        found.append(Rounding(own, error, np.where(zero, 0.0, low), np.where(zero, 0.0, high), None, terms, ending))
    return found, own, fits


def _reading(model: Model, number: int, source: Rounding, kind: Precision) -> Read:
    """Return what one of the readers of a node reads."""
    if model.readers[number] == 1:
        return Read(source.low, source.high, np.zeros_like(source.low), source.terms)
    flushed = np.minimum(kind.tiny, np.maximum(source.high, -source.low))
    # A sum that several nodes read is computed by itself.
    terms = None if len(model.nodes[number].sources) > 1 else source.terms
    return Read(source.low - flushed, source.high + flushed, flushed, terms)


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
        widths = [model.widths[source] for source in node.sources]
        parts = node.operation.derivatives(derivatives, widths, slopes) if node.sources else []
        for source, part in zip(node.sources, parts, strict=False):  # a look-up passes nothing on
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


def _sum(derivatives: Array, sizes: Array) -> Array:
    """Return bounds of derivatives of these sizes (boxes, forms, width) times numbers of these sizes (boxes, width)."""
    n = derivatives.shape[2]
    product = (derivatives @ sizes[:, :, None])[:, :, 0]
    return np.asarray(product * (1 + 4 * gamma(n + 8)) + TINY)
