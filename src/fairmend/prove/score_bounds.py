"""Bounds of scores, for quantify."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.bounds.enclosure import UNIT, enclose_value
from fairmend.bounds.inference import inference_error
from fairmend.network import Activation, Network
from fairmend.spec import Claim


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
