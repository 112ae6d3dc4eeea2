"""What every elementwise function knows about itself: what networks compute, train with and search with.

A function is one file. It has the function twice: in NumPy as inference computes it (`apply`) and in PyTorch (`torch`),
its derivative, and differentiable lines that enclose it (`relax`), up to rounding. Nothing here is a proof: what is
proven about a function is in its file of `fairmend_check.kernel.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats

if TYPE_CHECKING:
    from torch import Tensor


Intervals = tuple[Floats, Floats]

MOST = 2.0**20
"""No parameter of a curve is larger, and no factor smaller than 1 / MOST: the checker knows no others."""


NARROW = 1e-4
"""Over less, the slope of a chord is mostly rounding, and the derivative is as good."""


class Lines(NamedTuple):
    """For z in the interval: ``lower_slope * z + lower_intercept <= f(z) <= upper_slope * z + upper_intercept``.

    Slopes are non-negative if the function is increasing.
    """

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


def slope_of_chord(rise: Tensor, run: Tensor, derivative: Tensor) -> Tensor:
    """Return rise / run, and the derivative where that quotient is mostly rounding."""
    import torch

    narrow = run < NARROW
    return torch.where(narrow, derivative, rise / torch.where(narrow, torch.ones_like(run), run))


class Function(ABC):
    """An elementwise function with its parameters; the last axis of every array is that of the units."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """The names of its parameters, in their order."""

    DEFAULTS: ClassVar[tuple[float, ...]] = ()
    """The parameters of its name alone, in a text: those of PyTorch, if it has some."""

    increasing: bool = True
    """Whether z <= z' implies f(z) <= f(z')."""

    piecewise_linear: bool = False
    """Whether it has `lines`."""

    domain: str = ""
    """The numbers that it has bounds for, in words, if not all: "numbers above 0"."""

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

    def defined(self, lower: Tensor, upper: Tensor) -> Tensor:
        """Return over which intervals the function has bounds: over all, if it has no ``domain``."""
        return lower <= upper

    @abstractmethod
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return an approximation of the derivative at z, where the function is y."""

    def value(self, z: Floats) -> Floats:
        """Return the function of an array."""
        values = z.copy()
        self.apply(values)
        return values

    @abstractmethod
    def relax(self, lower: Tensor, upper: Tensor) -> Lines:
        """Return lines that enclose the function on ``[lower, upper]``, differentiable in the ends."""
