"""The logistic sigmoid, 1 / (1 + exp(-z))."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.s_shaped import SShaped

if TYPE_CHECKING:
    from torch import Tensor


class Sigmoid(SShaped):
    """1 / (1 + exp(-z))."""

    FLOOR = 0.0

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their sigmoid."""
        # exp overflows to inf for very negative values, and 1/inf = 0 is then the right answer.
        with np.errstate(over="ignore"):
            np.exp(np.negative(values, out=values), out=values)
        values += 1
        np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return sigmoid(z)."""
        return z.sigmoid()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return y (1 - y)."""
        return np.asarray(y * (1 - y))

    def _slope_from(self, value: Tensor) -> Tensor:
        return value * (1 - value)

    def _computed(self, z: Floats) -> Floats:
        y: Floats = 1 / (1 + np.exp(-z))  # exp may overflow where the real value is below TINY, and y is then 0
        return y

    def _steepness(self, z: Floats) -> Floats:
        return steepness(z)

    def _where_slope_is(self, slope: Floats) -> Floats:
        return where_slope_is(slope)

    def _mirrored(self, intercept: Floats) -> Floats:
        return 1 - intercept


def steepness(z: Floats) -> Floats:
    """Return sigmoid'(z) = q / (1 + q)² with q = exp(-|z|), accurate in the tails."""
    q = np.exp(-np.abs(z))
    slope: Floats = q / ((1 + q) * (1 + q))
    return slope


def where_slope_is(slope: Floats) -> Floats:
    """Return about the z >= 0 with sigmoid'(z) = slope: infinite for slopes <= 0, 0 for too large ones."""
    s = np.clip(slope, 0.0, 0.25)
    z: Floats = -np.log(2 * s / (1 - 2 * s + np.sqrt(1 - 4 * s)))
    return z
