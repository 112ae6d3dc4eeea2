"""How far floating-point inference can be from real arithmetic: rule 3 of docs/certificate.md.

Forward, layer by layer, go the intervals of what inference can compute, and what each operation rounds. Backward goes
how strongly the outputs depend on each of these roundings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.bounds import leads
from fairmend_check.model import Activation, Model
from fairmend_check.norms import Fold
from fairmend_check.relaxation import slope_range, value_range
from fairmend_check.rounding import TINY, Array, ball, down, gamma, up

Intervals = list[tuple[Array, Array]]

_FOLDING = 8  # roundings of a folded layer beside its products and its norms
_ROOM = 2**19  # numbers in the largest array


@dataclass(frozen=True)
class Precision:
    """Unit roundoff, largest number and smallest normal number of a floating-point format."""

    u: float
    largest: float
    tiny: float

    @staticmethod
    def of(dtype: str) -> Precision:
        """Return the figures of "float32" or "float64"."""
        kind = np.finfo(dtype)
        return Precision(float(kind.eps) / 2, float(kind.max), float(kind.tiny))


@dataclass(frozen=True, eq=False)
class Rounding:
    """An affine layer and the activation before it in inference (boxes, width); before the first there is none.

    ``entering`` is what the activation rounds and ``own`` what the affine layer rounds, given its computed inputs;
    ``before`` is all of the error of the inputs, and ``slopes`` are those of the activation.
    """

    slopes: tuple[Array, Array] | None
    entering: Array
    before: Array
    own: Array


def inference_error(
    model: Model,
    classes: np.ndarray,
    lower: Array,
    upper: Array,
    layers: Intervals,
    margins: Array,
    closing: Array,
) -> Array:
    """Return bounds of the error of margins of these classes over boxes (boxes,); inf where inference may overflow.

    ``layers`` are intervals of the outputs of the affine layers. The bounds are made tight only where ``margins``
    (boxes,) are positive and not above a bound that takes a fraction of the time. ``closing`` (boxes,) is added for a
    closing sigmoid or softmax.
    """
    error = up(output_errors(model, lower, upper, layers, leads(model, classes)).max(axis=1) + closing)
    close = (margins > 0) & ~(margins > error)
    near = [(low[close], high[close]) for low, high in layers]
    tight = output_errors(model, lower[close], upper[close], near, leads(model, classes[close]), thorough=True)
    error[close] = up(tight.max(axis=1) + closing[close])
    return error


def output_errors(
    model: Model, lower: Array, upper: Array, layers: Intervals, forms: Array, *, thorough: bool = False
) -> Array:
    """Return bounds of the error of linear forms of the outputs (boxes, forms, outputs): (boxes, forms).

    With ``thorough`` the errors of hidden layers are traced backward as well, which is much tighter in deep networks.
    """
    widest = max(max(weight.shape) for weight in model.weights)
    step = max(1, _ROOM // (widest * max(forms.shape[1], widest if thorough else 1)))
    found = [np.empty((0, forms.shape[1]))]
    with np.errstate(all="ignore"):
        for start in range(0, len(lower), step):
            part = slice(start, start + step)
            intervals = [(low[part], high[part]) for low, high in layers]
            roundings, fits = _forward(model, lower[part], upper[part], intervals, thorough=thorough)
            bound = _backward(model, roundings, forms[part])
            found.append(np.where(fits[:, None] & ~np.isnan(bound), bound, np.inf))
    return np.concatenate(found)


def _forward(
    model: Model, lower: Array, upper: Array, layers: Intervals, *, thorough: bool
) -> tuple[list[Rounding], np.ndarray]:
    """Return what each layer rounds, and in which boxes nothing can overflow (boxes,)."""
    kind = Precision.of(model.dtype)
    entering = error = np.minimum(kind.tiny, np.maximum(np.abs(lower), np.abs(upper)))  # subnormal inputs may become 0
    low, high, slopes = lower, upper, None
    fits = np.ones(len(lower), dtype=np.bool_)
    found = []
    for number, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        low, high = low - entering, high + entering  # of the inputs as computed
        fold = model.folds[number] if model.folds else None
        if fold is None:
            own, largest = _affine_rounding(weight, bias, low, high, kind)
        else:
            own, largest = _folded_rounding(fold, low, high, kind)
        fits &= (np.maximum(high, -low) < kind.largest).all(axis=1) & (largest < kind.largest).all(axis=1)
        found.append(Rounding(slopes, entering, error, own))
        if number < len(model.activations):
            n = weight.shape[1]
            error = (error @ np.abs(weight).T + own) * (1 + 4 * gamma(n + 4))
            if thorough and number > 0:
                units = np.eye(len(weight))
                error = np.minimum(error, _backward(model, found, np.broadcast_to(units, (len(lower), *units.shape))))
            activation = model.activations[number]
            reach = down(layers[number][0] - error), up(layers[number][1] + error)
            low, high = value_range(activation, *reach)
            slopes = slope_range(activation, *reach)
            entering = _activation_rounding(activation, *reach, kind)
            # Exact and computed value both lie between low and high.
            error = (np.minimum(error * slopes[1], up(high - low)) + entering) * (1 + 4 * gamma(4))
    return found, fits


def _affine_rounding(weight: Array, bias: Array, low: Array, high: Array, kind: Precision) -> tuple[Array, Array]:
    """Return how far a computed layer is from the exact one with the same inputs low..high, and its largest sum.

    Terms that are surely 0 are added exactly. Of the others, every partial sum lies between the sum of all negative and
    the sum of all positive terms, and each addition is off by at most half a unit in the last place of the larger one.
    """
    n = weight.shape[1]
    outward = 1 + 4 * gamma(n + 8)  # for the rounding of this very computation
    above, below = np.maximum(high, 0.0), np.maximum(-low, 0.0)
    size = np.maximum(above, below)
    terms = (size > 0).sum(axis=1, keepdims=True) + 1  # and the bias
    g = terms * kind.u / (1 - terms * kind.u)  # n is at most 2^20, so n u stays well below 1 in float32
    total = ((above + below) @ np.abs(weight).T + np.abs(bias)) * outward  # P + N
    apart = np.abs((above - below) @ weight.T + bias) + (outward - 1) * total  # |P - N|
    most = np.minimum(total, (total + apart) / 2)
    flushed = kind.tiny * (size.sum(axis=1, keepdims=True) + 4 * (n + 1))
    half_unit = kind.u * _power_below((1 + 2 * g) * most)  # 1 + 2 g covers the errors in the partial sums themselves
    return ((terms - 1) * half_unit + kind.u * total + flushed) * outward, total * (1 + g) + flushed


def _folded_rounding(fold: Fold, low: Array, high: Array, kind: Precision) -> tuple[Array, Array]:
    """Do the same for a layer and the norms beside it, computed step by step or folded.

    Each step is off by as many units as it has roundings, in all terms that it adds up, and the numbers of the folded
    layer are rounded once more. No number on the way is above ``reach``, and a subnormal number that is taken as 0 is
    multiplied by no more than that.
    """
    n = fold.weight.shape[1]
    outward = 1 + 4 * gamma(n + 16)
    size = np.maximum(np.abs(low), np.abs(high))
    weight, bias = np.abs(fold.weight), np.abs(fold.bias)
    inner, outer = np.abs(fold.before.factor), np.abs(fold.after.factor)
    entering = size * inner + fold.before.size
    total = entering @ weight.T + bias
    leaving = total * outer + fold.after.size
    count = (n + fold.before.roundings + fold.after.roundings + _FOLDING) * kind.u
    beside = (1 + fold.before.reach.max()) * (1 + fold.after.reach.max()) * (1 + weight.sum(axis=1) + bias)
    wide = size * fold.before.reach + fold.before.size
    reach = beside * (1 + n + wide.sum(axis=1, keepdims=True)) + fold.after.size
    return (count / (1 - count) * leaving + 16 * kind.tiny * reach) * outward, 2 * reach


def _power_below(values: Array) -> Array:
    """Return the largest powers of 2 up to these values; 0 for 0."""
    return np.asarray(np.minimum(values, np.ldexp(1.0, np.frexp(values)[1] - 1)))


def _activation_rounding(activation: Activation, low: Array, high: Array, kind: Precision) -> Array:
    """Return how far a computed activation is from the exact one with the same input low..high."""
    if activation.name in ("tanh", "sigmoid"):
        return np.full(low.shape, 16 * kind.u + kind.tiny)
    if activation.name == "leaky_relu":
        # The slope is rounded, and the product with it; a subnormal slope may be taken as 0.
        factor = (3 * kind.u * activation.slope + kind.tiny) * (1 + 4 * gamma(4))
        return np.asarray(factor * np.maximum(-low, 0.0) + 2 * kind.tiny)
    # A subnormal output may be taken as 0, unless it is 0 anyway.
    return np.minimum(kind.tiny, np.maximum(high, 0.0 if activation.name == "relu" else -low))


def _backward(model: Model, roundings: list[Rounding], forms: Array) -> Array:
    """Return what the roundings can change in each form: its derivatives by them, as intervals, times their sizes.

    At every layer on the way the error of the layer's inputs is a bound as well, and the best bound counts.
    """
    low = high = forms
    total, best = np.zeros(forms.shape[:2]), np.full(forms.shape[:2], np.inf)
    for number in range(len(roundings) - 1, -1, -1):
        rounding, weight = roundings[number], model.weights[number]
        total = up(total + _sum(low, high, rounding.own))
        low, high = _through_weights(low, high, weight)
        best = np.minimum(best, up(total + _sum(low, high, rounding.before)))
        total = up(total + _sum(low, high, rounding.entering))
        if rounding.slopes is not None:
            least, most = (slope[:, None, :] for slope in rounding.slopes)
            low, high = down(np.minimum(low * least, low * most)), up(np.maximum(high * least, high * most))
    return np.asarray(np.minimum(best, total))


def _through_weights(low: Array, high: Array, weight: Array) -> tuple[Array, Array]:
    """Enclose derivatives by the inputs of an affine layer, from those by its outputs."""
    n = len(weight)
    mid, radius = ball(low, high)
    centre = mid @ weight
    spread = (radius @ np.abs(weight)) * (1 + 2 * gamma(n + 2)) + gamma(n + 4) * (np.abs(mid) @ np.abs(weight)) + TINY
    return down(centre - up(spread)), up(centre + up(spread))


def _sum(low: Array, high: Array, sizes: Array) -> Array:
    """Return bounds of derivatives low..high (boxes, forms, width) times numbers of these sizes (boxes, width)."""
    n = low.shape[2]
    product = (np.maximum(high, -low) @ sizes[:, :, None])[:, :, 0]
    return np.asarray(product * (1 + 4 * gamma(n + 8)) + TINY)
