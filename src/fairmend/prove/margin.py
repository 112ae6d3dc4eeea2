"""By how much a class leads: as computed at points, and as proven at points and over boxes.

The margin of class c is its logit minus the largest other one; of a single logit f it is f for class 1 (which wins a
tie: positive is f >= 0) and -f for class 0.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds.inference import inference_error
from fairmend.bounds.rigorous import rigorous_bounds, rigorous_differences, rigorous_point_logits
from fairmend.network import Network, predicted_classes
from fairmend.prove.rational import exact_classes, piecewise_linear

# Multiplications that exact arithmetic may take for one batch of points: a few seconds.
_EXACT_WORK = 20_000_000


def computed(net: Network, points: FloatArray, classes: Ints) -> tuple[Bools, Floats]:
    """Whether each point (n, width) is answered otherwise than its class (n,), and the class's margin (n,)."""
    logits = net.logits(points)
    if net.outputs == 1:
        value = logits.astype(np.float64)
        margin = np.where(classes == 1, value, -value)
    else:
        margin = _lead(logits.astype(np.float64), logits.astype(np.float64), classes)
    return predicted_classes(logits) != classes, margin


def rounding(net: Network, lower: FloatArray, upper: FloatArray) -> Floats:
    """How far a margin that the network computes can be from the real one, over each box (n, width): (n,)."""
    error = inference_error(net, lower, upper).max(axis=1, initial=0.0)
    # Two logits that compete can both be off, and their difference is rounded once more.
    return np.asarray(error if net.outputs == 1 else 2 * error * (1 + 1e-9))


def proven_margin(net: Network, lower: FloatArray, upper: FloatArray, classes: Ints) -> Floats:
    """A lower bound, in real arithmetic, of the class's margin over each box (n, width): (n,)."""
    if net.outputs == 1:
        low, high = rigorous_bounds(net, lower, upper)
        return np.asarray(np.where(classes == 1, low[:, 0], -high[:, 0]))
    differences = rigorous_differences(net, lower, upper)[np.arange(len(classes)), classes]
    differences[np.arange(len(classes)), classes] = np.inf
    return np.asarray(differences.min(axis=1))


def suffices(net: Network, margin: Floats, classes: Ints) -> Bools:
    """Whether a proven margin (n,) proves the class: a single logit of 0 is positive."""
    return np.asarray((margin > 0) | ((margin == 0) & (classes == 1) if net.outputs == 1 else False))


def proven_at(net: Network, points: FloatArray, classes: Ints) -> Bools:
    """Whether each point (n, width) provably has its class in real arithmetic."""
    if len(points) == 0:
        return np.zeros(0, dtype=np.bool_)
    lower, upper = rigorous_point_logits(net, points)
    if net.outputs == 1:
        margin = np.where(classes == 1, lower[:, 0], -upper[:, 0])
        against = np.where(classes == 1, upper[:, 0], -lower[:, 0])
    else:
        margin = np.nextafter(_lead(lower, upper, classes), -np.inf)
        against = np.nextafter(_lead(upper, lower, classes), np.inf)
    proven = suffices(net, margin, classes)
    close = np.flatnonzero(~proven & (against >= 0))
    if len(close) and piecewise_linear(net):
        weights = sum(affine.weight.size for affine in net.affines)
        close = close[: max(1, _EXACT_WORK // weights)]
        proven[close] = exact_classes(net, points[close]) == classes[close]
    return proven


def _lead(own: Floats, others: Floats, classes: Ints) -> Floats:
    """The class's entry in `own` minus the largest of the other classes in `others`, both (n, outputs)."""
    each = np.arange(len(classes))
    rest = others.copy()
    rest[each, classes] = -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        lead = own[each, classes] - rest.max(axis=1)
    return np.where(np.isnan(lead), -np.inf, lead)
