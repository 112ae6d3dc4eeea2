"""What every elementwise function knows about itself, and what is true of all of them.

A function is one file. It has the function three times: in NumPy as inference computes it (`apply`), in PyTorch
(`torch`), and as a value with a bound of its error (`value`). Around it, it has lines that enclose it: differentiable
ones (`relax`), and the extremes of f(z) - slope·z (`lowest`, `highest`), which are the intercepts of rigorous lines.
`image`, `slope_range` and `rounding` are what the error of inference is made of.

Assumptions of the rigorous parts: IEEE 754 arithmetic, rounded to nearest (one operation errs by at most the unit
roundoff times its result, or by the smallest number if it underflows), and ``exp``, ``expm1``, ``log1p``, ``tanh`` and
``erf`` within 8 units in the last place. Ends of intervals may be infinite: then a result may be infinite or not a
number, which the caller takes as "no bound".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats

if TYPE_CHECKING:
    from torch import Tensor


Intervals = tuple[Floats, Floats]

UNIT = 2.0**-53
"""The unit roundoff of float64."""

TINY = 1e-290
"""More than all underflows of a layer together, and far from underflow itself, even when multiplied by UNIT."""

LIBRARY = 24 * UNIT
"""8 units in the last place are at most 16 UNIT; the rest is for the operations around."""

SLACK = 1e-8
"""Bounds of the error of inference are computed in float64, with relative errors far below this."""

NARROW = 2.0**-44
"""What images and slopes are widened by for the error of inference, so that they contain the checker's."""

MOST = 2.0**20
"""No parameter of a curve is larger, and no factor smaller than 1 / MOST: the checker knows no others."""

_LARGEST_STEP = 16  # no step of a function computes more than this times its input


class Precision(NamedTuple):
    """The arithmetic of inference: its unit roundoff, its smallest normal and its largest number."""

    unit: float
    tiny: float
    largest: float

    @staticmethod
    @cache
    def of(dtype: npt.DTypeLike) -> Precision:
        """Return that of float32 or float64."""
        kind = np.finfo(dtype)
        return Precision(float(kind.eps) / 2, float(kind.tiny), float(kind.max))


class Lines(NamedTuple):
    """For z in the interval: ``lower_slope * z + lower_intercept <= f(z) <= upper_slope * z + upper_intercept``.

    Slopes are non-negative if the function is increasing.
    """

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


class Function(ABC):
    """An elementwise function with its parameters; the last axis of every array is that of the units."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """The names of its parameters, in their order."""

    increasing: bool = True
    """Whether z <= z' implies f(z) <= f(z')."""

    piecewise_linear: bool = False
    """Whether it has `lines`."""

    lipschitz: float = 1.0
    """The largest |f(z) - f(z')| / |z - z'|, rounded up."""

    span: float = np.inf
    """A bound of |f(z) - f(z')|."""

    @property
    def lines(self) -> Sequence[tuple[npt.ArrayLike, float]]:
        """The slope and the intercept of each linear piece, from left to right.

        The function is continuous, so it changes from one line to the next where they cross: it is their maximum where
        the slope grows, and their minimum where it falls, taken from left to right.
        """
        raise NotImplementedError(f"{type(self).__name__} is not piecewise linear")

    @abstractmethod
    def apply(self, values: FloatArray) -> None:
        """Replace values of any shape by the function of them, in place and in their dtype."""

    @abstractmethod
    def torch(self, z: Tensor) -> Tensor:
        """Return the function of a tensor."""

    def torch_image(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends of the values on ``[lower, upper]`` without rounding errors, differentiable in the ends."""
        if not self.increasing:
            raise NotImplementedError(f"the image of {type(self).__name__}, which is not increasing")
        return self.torch(lower), self.torch(upper)

    @abstractmethod
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return an approximation of the derivative at z, where the function is y."""

    @abstractmethod
    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return lines that enclose the function on ``[lower, upper]``, differentiable in the ends."""

    @abstractmethod
    def value(self, z: Floats) -> tuple[Floats, Floats]:
        """Return f(z) as computed, and its error: f(z) ± error contains the real value, even after rounding."""

    @abstractmethod
    def image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return an interval that contains f([lower, upper])."""

    @abstractmethod
    def lowest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return a lower bound of f(z) - slope·z for all real z in [lower, upper], for any slope."""

    @abstractmethod
    def highest(self, slope: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return an upper bound of f(z) - slope·z for all real z in [lower, upper], for any slope."""

    @abstractmethod
    def slope_range(self, lower: Floats, upper: Floats) -> Intervals:
        """Return an interval that holds every difference quotient of the function on [lower, upper]."""

    @abstractmethod
    def rounding(self, least: Floats, most: Floats, precision: Precision) -> Floats:
        """Return how far a computed value is from the exact one of the same input, which lies in least..most.

        It holds for PyTorch, ONNX Runtime, Keras and NumPy, whatever formula they use.
        """

    def wide_image(self, lower: Floats, upper: Floats) -> Intervals:
        """Return an interval that contains f([lower, upper]), and whatever the checker computes for it."""
        low, high = self.image(lower, upper)
        return low - NARROW * (1 + np.abs(low)), high + NARROW * (1 + np.abs(high))


def below(y: Floats, error: Floats) -> Floats:
    """Return the lower end of y ± error, which is infinite if y is."""
    return np.where(np.isposinf(y), y, y - error)


def size_of(lower: Floats, upper: Floats) -> Floats:
    """Return the largest absolute value in an interval."""
    return np.maximum(np.abs(lower), np.abs(upper))


def unless_overflow(bound: Floats, size: Floats, precision: Precision) -> Floats:
    """Return the bound of a rounding error, and infinity where a step on the way may overflow."""
    return np.where(_LARGEST_STEP * size < precision.largest, bound * (1 + SLACK), np.inf)
