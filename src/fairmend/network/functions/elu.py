"""ELU: z on positive numbers, alpha·(exp(z) - 1) on negative ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST
from fairmend.network.functions.curved import Curved

if TYPE_CHECKING:
    from torch import Tensor


class Elu(Curved):
    """gain·z on positive numbers, depth·(exp(rate·z) - 1) on negative ones.

    ELU has gain and rate 1. Its relatives round these numbers, each by at most two units.
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("alpha",)
    DEFAULTS: ClassVar[tuple[float, ...]] = (1.0,)
    breaks = (0.0,)
    curvature = (1, 0)
    kinked = True
    gain, rate = 1.0, 1.0

    def __init__(self, alpha: float) -> None:
        if not 1 / MOST <= alpha <= MOST:
            raise FairmendError(f"elu({alpha:g}): alpha must lie between {1 / MOST:.0e} and {MOST:.0e}")
        self._set(alpha)

    def _set(self, depth: float) -> None:
        self.depth = depth
        self.convex = depth * self.rate <= self.gain

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their ELU."""
        kind = values.dtype.type
        below = kind(self.depth) * np.expm1(np.minimum(values, 0) * kind(self.rate))
        np.maximum(values, 0, out=values)
        values *= kind(self.gain)
        values += below

    def torch(self, z: Tensor) -> Tensor:
        """Return ELU of z."""
        return self.gain * z.clamp(min=0) + self.depth * (self.rate * z.clamp(max=0)).expm1()

    def torch_slope(self, z: Tensor) -> Tensor:
        """Return the slope on the side of 0."""
        import torch

        below = self.depth * self.rate * (self.rate * z.clamp(max=0)).exp()
        return torch.where(z >= 0, torch.full_like(z, self.gain), below)

    def slope_on(self, piece: int, z: Floats) -> Floats:
        """Return depth·rate·exp(rate·z) left of 0, and the gain right of it."""
        if piece:
            return np.full_like(z, self.gain)
        x = np.maximum(np.minimum(z, 0.0) * self.rate, -1000.0)
        slope: Floats = self.depth * self.rate * np.exp(x)
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        """Return the inverse of the derivative."""
        z: Floats = np.log(np.maximum(slope, 0.0) / (self.depth * self.rate)) / self.rate
        return z
