"""Functions that bend one way or end flat: ELU, CELU, SELU, softplus, softsign, tanh and sigmoid."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network.functions.base import MOST, Function, Lines, slope_of_chord
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
        kind = values.dtype.type
        below = kind(self.depth) * np.expm1(np.minimum(values, 0) * kind(self.rate))
        np.maximum(values, 0, out=values)
        values *= kind(self.gain)
        values += below

    def torch(self, z: Tensor) -> Tensor:
        return self.gain * z.clamp(min=0) + self.depth * (self.rate * z.clamp(max=0)).expm1()

    def torch_slope(self, z: Tensor) -> Tensor:
        import torch

        below = self.depth * self.rate * (self.rate * z.clamp(max=0)).exp()
        return torch.where(z >= 0, torch.full_like(z, self.gain), below)

    def slope_on(self, piece: int, z: Floats) -> Floats:
        if piece:
            return np.full_like(z, self.gain)
        x = np.maximum(np.minimum(z, 0.0) * self.rate, -1000.0)
        slope: Floats = self.depth * self.rate * np.exp(x)
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        z: Floats = np.log(np.maximum(slope, 0.0) / (self.depth * self.rate)) / self.rate
        return z


class Celu(Elu):
    """ELU with the slope 1 on both sides of 0, whatever alpha is. Its rate, 1 / alpha, is rounded."""

    def __init__(self, alpha: float) -> None:
        if not 1 / MOST <= alpha <= MOST:
            raise FairmendError(f"celu({alpha:g}): alpha must lie between {1 / MOST:.0e} and {MOST:.0e}")
        self.depth, self.rate = alpha, 1 / alpha
        self.convex = True


_SCALE = 1.0507009873554804934193349852946
_ALPHA = 1.6732632423543772848170429916717


class Selu(Elu):
    """scale·z on positive numbers, scale·alpha·(exp(z) - 1) on negative ones; both constants are rounded.

    The constants are those of Klambauer et al. (2017).
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    DEFAULTS: ClassVar[tuple[float, ...]] = ()
    gain = _SCALE

    def __init__(self) -> None:
        self._set(_SCALE * _ALPHA)


_FAR = 1000.0  # further out, the function is a line


class Softplus(Curved):
    """log(1 + exp(beta·z)) / beta: convex, and almost ReLU for large beta."""

    PARAMETERS = ("beta",)
    DEFAULTS = (1.0,)
    convex = True

    def __init__(self, beta: float) -> None:
        if not 1 / MOST <= beta <= MOST:
            raise FairmendError(f"softplus({beta:g}): beta must lie between {1 / MOST:.0e} and {MOST:.0e}")
        self.beta = beta

    def apply(self, values: FloatArray) -> None:
        beta = values.dtype.type(self.beta)
        values *= beta
        tail = np.log1p(np.exp(-np.abs(values)))
        np.maximum(values, 0, out=values)
        values += tail
        values /= beta

    def torch(self, z: Tensor) -> Tensor:
        x = self.beta * z
        return (x.clamp(min=0) + x.abs().neg().exp().log1p()) / self.beta

    def torch_slope(self, z: Tensor) -> Tensor:
        return (self.beta * z).sigmoid()

    def slope_on(self, piece: int, z: Floats) -> Floats:
        x = np.clip(self.beta * z, -_FAR, _FAR)
        q = np.exp(-np.abs(x))
        slope: Floats = np.where(x < 0, q, 1.0) / (1 + q)
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        s = np.clip(slope, 0.0, 1.0)
        z: Floats = (np.log(s) - np.log1p(-s)) / self.beta
        return z


class Softsign(Curved):
    """z / (1 + |z|): convex below 0, concave above."""

    breaks = (0.0,)
    curvature = (1, -1)

    def apply(self, values: FloatArray) -> None:
        np.divide(values, 1 + np.abs(values), out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z / (1 + z.abs())

    def torch_slope(self, z: Tensor) -> Tensor:
        return (1 + z.abs()) ** -2

    def slope_on(self, piece: int, z: Floats) -> Floats:
        below = 1 + np.abs(z)
        slope: Floats = 1 / below / below
        return slope

    def touching(self, piece: int, slope: Floats) -> Floats:
        size = 1 / np.sqrt(np.clip(slope, 0.0, 1.0)) - 1
        return size if piece else -size


class SShaped(Function):
    """Convex below 0, concave above, steepest at 0, and symmetric around it; its slope follows from its value."""

    @abstractmethod
    def _slope_from(self, value: Tensor) -> Tensor:
        """Return the derivative where the function has this value."""

    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return tangent and chord if the curvature has one sign, and the DeepPoly rule (Singh et al., 2019) if not."""
        import torch

        middle = (lower + upper) / 2
        at_lower, at_upper, at_middle = (self.torch(z) for z in (lower, upper, middle))
        slope_lower, slope_upper, slope_middle = (self._slope_from(value) for value in (at_lower, at_upper, at_middle))
        chord = slope_of_chord(at_upper - at_lower, upper - lower, slope_middle)
        flattest = torch.minimum(slope_lower, slope_upper)
        concave, convex = lower >= 0, upper <= 0

        def through_ends(slope: Tensor, pick: object) -> Tensor:
            return pick(at_lower - slope * lower, at_upper - slope * upper)  # type: ignore[operator, no-any-return]

        tangent = at_middle - slope_middle * middle
        lower_slope = torch.where(concave, chord, torch.where(convex, slope_middle, flattest))
        upper_slope = torch.where(convex, chord, torch.where(concave, slope_middle, flattest))
        # Concave: f minus any line is smallest at an end point. Changing curvature: f grows at least as fast as the
        # flattest slope, so f minus that line is smallest at the lower end and largest at the upper one.
        lower_intercept = torch.where(convex, tangent, through_ends(lower_slope, torch.minimum))
        upper_intercept = torch.where(concave, tangent, through_ends(upper_slope, torch.maximum))
        return Lines(lower_slope, lower_intercept, upper_slope, upper_intercept)


class Sigmoid(SShaped):
    """1 / (1 + exp(-z))."""

    def apply(self, values: FloatArray) -> None:
        # exp overflows to inf for very negative values, and 1/inf = 0 is then the right answer.
        with np.errstate(over="ignore"):
            np.exp(np.negative(values, out=values), out=values)
        values += 1
        np.reciprocal(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.sigmoid()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(y * (1 - y))

    def _slope_from(self, value: Tensor) -> Tensor:
        return value * (1 - value)


class Tanh(SShaped):
    """tanh(z) = 2 sigmoid(2z) - 1."""

    def apply(self, values: FloatArray) -> None:
        np.tanh(values, out=values)

    def torch(self, z: Tensor) -> Tensor:
        return z.tanh()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(1 - y * y)

    def _slope_from(self, value: Tensor) -> Tensor:
        return 1 - value * value
