"""Elementary functions: powers, exp, log, sine and cosine; some of them are defined for positive numbers alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import Function, Lines
from fairmend.network.functions.curved import Bent, Curved, least_area_lines, tangent_and_chord

if TYPE_CHECKING:
    from torch import Tensor


class Square(Bent):
    """z²: convex, with its minimum at 0."""

    increasing = False

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their squares."""
        with np.errstate(over="ignore"):
            np.multiply(values, values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z * z

    def torch_slope(self, z: Tensor) -> Tensor:
        return 2 * z

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squares of the nearest and of the furthest number from 0."""
        left, right = lower * lower, upper * upper
        return left.minimum(right).masked_fill((lower <= 0) & (upper >= 0), 0.0), left.maximum(right)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return 2 * z


class Exp(Bent):
    """exp(z): convex."""

    def apply(self, values: FloatArray) -> None:
        with np.errstate(over="ignore"):
            np.exp(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.exp()

    def torch_slope(self, z: Tensor) -> Tensor:
        return z.exp()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return y


class Positive(Bent):
    """A function of numbers above 0; it may fall."""

    domain = "numbers above 0"

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower > 0

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        left, right = self.torch(lower), self.torch(upper)
        return (left, right) if self.increasing else (right, left)


class Log(Positive):
    """log(z), of numbers above 0: concave."""

    bend = -1

    def apply(self, values: FloatArray) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            np.log(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.log()

    def torch_slope(self, z: Tensor) -> Tensor:
        return z.reciprocal()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / z)


class Sqrt(Positive):
    """√z, of numbers from 0 on: concave, and infinitely steep at 0."""

    bend = -1
    domain = "numbers from 0 on"

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return lower >= 0

    def apply(self, values: FloatArray) -> None:
        """Replace the values by their square roots."""
        with np.errstate(invalid="ignore"):
            np.sqrt(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        """Return √z; at 0, the gradient is 0."""
        zero = z == 0
        return z.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)

    def torch_slope(self, z: Tensor) -> Tensor:
        zero = z == 0
        return (0.5 * z.masked_fill(zero, 1.0).rsqrt()).masked_fill(zero, 0.0)

    def derivative(self, z: Floats, y: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(0.5 / y)


class Rsqrt(Positive):
    """1 / √z, of numbers above 0: convex and falling."""

    increasing = False

    def apply(self, values: FloatArray) -> None:
        """Replace the values by the reciprocals of their square roots."""
        with np.errstate(divide="ignore", invalid="ignore"):
            np.sqrt(values, out=values)
            np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.rsqrt()

    def torch_slope(self, z: Tensor) -> Tensor:
        return -0.5 * z.rsqrt() / z

    def derivative(self, z: Floats, y: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-0.5 * y / z)


class Reciprocal(Bent):
    """1 / z: falls on both sides of 0, concave below and convex above."""

    increasing = False
    domain = "numbers on one side of 0"

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        return (lower > 0) | (upper < 0)

    def apply(self, values: FloatArray) -> None:
        with np.errstate(divide="ignore"):
            np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.reciprocal()

    def torch_slope(self, z: Tensor) -> Tensor:
        return -(z.reciprocal() ** 2)

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        return upper.reciprocal(), lower.reciprocal()

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        import torch

        right, left = (tangent_and_chord(self, lower, upper, bend=bend) for bend in (1, -1))
        return Lines(*(torch.where(lower > 0, *both) for both in zip(right, left, strict=True)))

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return -y * y


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
