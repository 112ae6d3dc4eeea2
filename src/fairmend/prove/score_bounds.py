"""Rigorous bounds of scores over boxes and at points, and how far scores from inference can be from the real ones.

A score is what a claim about scores compares: a raw output, the sigmoid of one output, or the softmax of several.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.bounds.enclosure import UNIT, enclose_value
from fairmend.bounds.inference import inference_error
from fairmend.bounds.rigorous import rigorous_bounds, rigorous_differences, rigorous_point_logits
from fairmend.network import Activation, Network
from fairmend.spec import Claim


def require_scores(net: Network, claim: Claim) -> None:
    """Raise an error if the network does not give the scores that a claim is about."""
    if claim.on == "output" and net.closing != "none":
        raise FairmendError(
            f'the spec claims the output of the network, which ends in a {net.closing}. Set on = "probability" or '
            '"logit" in [claim].'
        )


def bound_scores(net: Network, claim: Claim, lower: FloatArray, upper: FloatArray) -> tuple[Floats, Floats]:
    """Return bounds of each score, in real arithmetic, over the boxes (n, width): each (n, outputs)."""
    if claim.on == "probability" and net.outputs > 1:
        return softmax_bounds(rigorous_differences(net, lower, upper))
    bounds = rigorous_bounds(net, lower, upper)
    return sigmoid_bounds(*bounds) if claim.on == "probability" else bounds


def bound_scores_at_points(net: Network, claim: Claim, points: FloatArray) -> tuple[Floats, Floats]:
    """Return bounds of each score, in real arithmetic, at points (n, width): each (n, outputs)."""
    low, high = rigorous_point_logits(net, points)
    if claim.on != "probability":
        return low, high
    if net.outputs == 1:
        return sigmoid_bounds(low, high)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.nextafter(low[:, :, None] - high[:, None, :], -np.inf)
    return softmax_bounds(differences)


def score_error(net: Network, claim: Claim, lower: FloatArray, upper: FloatArray, *, thorough: bool = False) -> Floats:
    """Return how far each score from inference can be from the real one over the boxes (n, width): (n, outputs).

    A sigmoid changes by at most a quarter of the change of its input, a softmax by at most half of the largest change
    of an input. Libraries compute both to 16 units of the last place of 1. See `inference_error` for ``thorough``.
    """
    error = inference_error(net, lower, upper, thorough=thorough)
    if claim.on != "probability":
        return error
    unit = float(np.finfo(net.dtype).eps) / 2
    share = error / 4 if net.outputs == 1 else np.broadcast_to(error.max(axis=1, keepdims=True), error.shape) / 2
    return np.asarray((share + 16 * unit) * (1 + 1e-9))


def sigmoid_bounds(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the sigmoid over intervals."""
    with np.errstate(over="ignore"):
        least, most = (enclose_value(Activation("sigmoid"), end) for end in (low, high))
    return np.maximum(least[0] - least[1], 0.0), np.minimum(most[0] + most[1], 1.0)


@np.errstate(all="ignore")
def softmax_bounds(differences: Floats) -> tuple[Floats, Floats]:
    """Return bounds of each probability, each (n, outputs), from lower bounds of output k minus j at [., k, j]."""
    outputs = differences.shape[1]
    other = ~np.eye(outputs, dtype=bool)
    # exp is accurate to 16 UNIT, and each sum and quotient loses as much as one more operation.
    slack = 1.01 * (16 + outputs + 4) * UNIT
    least_rest = np.where(other, np.exp(differences), 0.0).sum(axis=1)  # of exp(z_k - z_j) over k, for each j
    most_rest = np.where(other, np.exp(-differences), 0.0).sum(axis=2)
    high = np.minimum(1.0, (1 + slack) / (1 + least_rest * (1 - slack)))
    low = np.maximum(0.0, (1 - slack) / (1 + most_rest * (1 + slack)))
    high = np.maximum(high, 2.0**-1000)  # no probability is 0, even where exp overflows
    return np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), 1.0, high)
