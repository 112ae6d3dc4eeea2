"""Elementary functions: powers, exp and log; some of them are defined for positive numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network.functions.base import Lines
from fairmend.network.functions.curved import Bent, tangent_and_chord

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
