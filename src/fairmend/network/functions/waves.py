"""Sine and cosine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import Function, Lines
from fairmend.network.functions.curved import Curved, least_area_lines

if TYPE_CHECKING:
    from torch import Tensor


_TURN = 2 * math.pi


class Wave(Function):
    """sin(z + quarters·π/2)."""

    increasing = False
    quarters: int

    def apply(self, values: FloatArray) -> None:
        (np.cos if self.quarters else np.sin)(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.cos() if self.quarters else z.sin()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(-np.sin(z) if self.quarters else np.cos(z))

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        left, right = self.torch(lower), self.torch(upper)
        low = left.minimum(right).masked_fill(self._has(3, lower, upper), -1.0)
        return low, left.maximum(right).masked_fill(self._has(1, lower, upper), 1.0)

    def _has(self, quarter: int, lower: Tensor, upper: Tensor) -> Tensor:
        """Return whether intervals have a point so many quarters after a rising zero."""
        first, last = (z.detach() / _TURN - (quarter - self.quarters) / 4 for z in (lower, upper))
        return last.floor() >= first.ceil()

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return the lines of least area around the sine, moved by whole turns; flat ones over more than a turn."""
        import torch

        start = lower.detach() + self.quarters * (math.pi / 2)
        shift = start - _TURN * ((start + math.pi) / _TURN).floor() - lower.detach()
        wide = upper - lower > _TURN
        left = lower + shift
        lines = least_area_lines(_Sine(), left, torch.where(wide, left, upper + shift))
        low, high = self.torch_image(lower, upper)
        below, above = (slope.masked_fill(wide, 0.0) for slope in (lines.lower_slope, lines.upper_slope))
        return Lines(
            below,
            torch.where(wide, low, lines.lower_intercept + below * shift),
            above,
            torch.where(wide, high, lines.upper_intercept + above * shift),
        )


class _Sine(Curved):
    """The sine from -π to 3π."""

    breaks = (0.0, math.pi, _TURN)
    curvature = (1, -1, 1, -1)

    def apply(self, values: FloatArray) -> None:
        np.sin(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.sin()

    def torch_slope(self, z: Tensor) -> Tensor:
        return z.cos()

    def slope_on(self, piece: int, z: Floats) -> Floats:
        return np.asarray(np.cos(np.clip(z, -math.pi, 3 * math.pi)))

    def touching(self, piece: int, slope: Floats) -> Floats:
        angle = np.arccos(np.clip(slope, -1.0, 1.0))
        turned: Floats = _TURN * (piece // 2) + (angle if piece % 2 else -angle)
        return turned


class Sin(Wave):
    """sin(z)."""

    quarters = 0


class Cos(Wave):
    """cos(z)."""

    quarters = 1
