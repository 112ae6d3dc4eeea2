"""Margins of a class: as inference computes them at points, and as proven at points and over boxes.

With several logits, the margin of a class is its logit minus the largest other logit. With a single logit f, it is f
for class 1 and -f for class 0. A tie is class 1: the network predicts class 1 if f >= 0. At a threshold other than 1/2,
the log-odds of the threshold are taken from the margin of class 1 and added to that of class 0.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds.inference import lead_error, summation_error
from fairmend.bounds.rigorous import rigorous_bounds, rigorous_differences, rigorous_point_logits
from fairmend.network import Network
from fairmend.network.decision import lower_margins, upper_margins
from fairmend.prove.rational import exact_classes, is_piecewise_linear

# Limit on the multiplications in exact arithmetic for one batch of points: a few seconds.
_EXACT_WORK = 20_000_000

# Rigorous bounds lose more than computing a logit does, by about the number of layers, and what underflow takes away.
_ROUNDING_FACTOR, _UNDERFLOW = 16, 1e-280


def compute_margins(net: Network, points: FloatArray, classes: Ints) -> tuple[Bools, Floats]:
    """Return where inference at points (n, width) predicts other classes than these (n,), and their margins (n,)."""
    logits = net.logits(points)
    if net.outputs == 1:
        value = logits.astype(np.float64)
        margin = np.where(classes == 1, value, -value)
    else:
        margin = _lead(logits.astype(np.float64), logits.astype(np.float64), classes)
    return net.decide(logits) != classes, lower_margins(margin, classes, net.threshold)


def margin_error(
    net: Network, lower: FloatArray, upper: FloatArray, classes: Ints, *, thorough: bool = False
) -> Floats:
    """Return how far margins of classes (n,) from inference can be from the real ones, over boxes (n, width): (n,).

    A difference of two logits is rounded once more. It exceeds the error after that only if it did before.
    """
    return lead_error(net, lower, upper, classes, thorough=thorough)


def rounding_slack(net: Network, lower: FloatArray, upper: FloatArray) -> Floats:
    """Return how close to 0 (n,) a margin may be for float64 bounds over each box (n, width) to tell its sign."""
    offset = abs(net.offset) * float(np.finfo(np.float64).eps)
    return np.asarray(_ROUNDING_FACTOR * (summation_error(net, lower, upper) + offset) + _UNDERFLOW)


def margin_lower_bound(net: Network, lower: FloatArray, upper: FloatArray, classes: Ints) -> Floats:
    """Return a lower bound, in real arithmetic, of the margins of classes (n,) over boxes (n, width): (n,)."""
    if net.outputs == 1:
        low, high = rigorous_bounds(net, lower, upper)
        return lower_margins(np.where(classes == 1, low[:, 0], -high[:, 0]), classes, net.threshold)
    differences = rigorous_differences(net, lower, upper)[np.arange(len(classes)), classes]
    differences[np.arange(len(classes)), classes] = np.inf
    return lower_margins(np.asarray(differences.min(axis=1)), classes, net.threshold)


def proves_class(net: Network, margin: Floats, classes: Ints) -> Bools:
    """Return where a lower bound of the margin (n,) proves the class; a single logit of 0 is class 1."""
    return np.asarray((margin > 0) | ((margin == 0) & (classes == 1) if net.outputs == 1 else False))


def point_margins(net: Network, points: FloatArray, classes: Ints) -> tuple[Floats, Floats]:
    """Return lower and upper bounds (n,), in real arithmetic, of the margins of classes (n,) at points (n, width)."""
    lower, upper = rigorous_point_logits(net, points)
    if net.outputs == 1:
        least = np.where(classes == 1, lower[:, 0], -upper[:, 0])
        most = np.where(classes == 1, upper[:, 0], -lower[:, 0])
    else:
        least = np.nextafter(_lead(lower, upper, classes), -np.inf)
        most = np.nextafter(_lead(upper, lower, classes), np.inf)
    return lower_margins(least, classes, net.threshold), upper_margins(most, classes, net.threshold)


def proven_at_points(net: Network, points: FloatArray, classes: Ints) -> Bools:
    """Return where points (n, width) provably have the given classes (n,) in real arithmetic."""
    if len(points) == 0:
        return np.zeros(0, dtype=np.bool_)
    least, most = point_margins(net, points, classes)
    proven = proves_class(net, least, classes)
    close = np.flatnonzero(~proven & (most >= 0))
    if len(close) and is_piecewise_linear(net):
        weights = sum(affine.weight.size for affine in net.affines)
        close = close[: max(2, _EXACT_WORK // weights)]  # 2: the pair of a witness
        proven[close] = exact_classes(net, points[close]) == classes[close]
    return proven


def _lead(own: Floats, others: Floats, classes: Ints) -> Floats:
    """Return the class's entry in `own` minus the largest entry of another class in `others`, both (n, outputs)."""
    each = np.arange(len(classes))
    rest = others.copy()
    rest[each, classes] = -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        lead = own[each, classes] - rest.max(axis=1)
    return np.where(np.isnan(lead), -np.inf, lead)
