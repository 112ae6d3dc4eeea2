"""What every operation of a network says of itself: its mathematics, and how it is described.

Most operations are *linear*: their result is `Operation.combine` of what they read, plus a shift. `combine` and its
transpose `Operation.pull` act on the last axis of arrays and of PyTorch tensors alike, so what propagates values,
bounds, gradients or exact numbers through a network only has to say what it does with a factor and a shift.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from torch import Tensor

    from fairmend.network.description import Description

Values: TypeAlias = Any
"""Numbers of a node in the last axis: an array of NumPy, or a tensor of PyTorch."""

Numbers: TypeAlias = tuple[Values, Values]
"""Factor and shift of a linear operation: weight (out, in) and bias (out,), or one factor and shift for each unit."""


class Operation:
    """A step of a network, on the results of earlier steps; docs/extending.md shows how to add one.

    It is no `ABC`, whose `isinstance` is ten times as slow: bounds ask for the kinds of all nodes in every training
    step. mypy reports a class that leaves out an abstract method all the same.
    """

    linear: ClassVar[bool] = True  # whether it is `combine`, plus a shift
    rearranges: ClassVar[bool] = False  # whether it gives columns of what it reads as they are
    in_place: ClassVar[bool] = False  # whether its result may be computed in the array that it reads

    @property
    @abstractmethod
    def kind(self) -> str:
        """The word for it in messages and files: "affine", "sum", "relu"."""

    @property
    def title(self) -> str:
        """What a table of the network's nodes calls it."""
        return self.kind

    @abstractmethod
    def width(self, widths: Sequence[int]) -> int:
        """Return how many numbers it gives for each row, from those of its sources; refuse sources that do not fit."""

    @abstractmethod
    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute it: from values ``(rows, width)`` of each source into ``out (rows, width)``.

        Where it multiplies matrices, it takes ``part`` rows at a time, or all.
        """

    def astype(self, dtype: npt.DTypeLike) -> Operation:
        """Return the operation with all its numbers in another dtype."""
        np.dtype(dtype)
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Its numbers, all of the network's dtype."""
        return ()

    @property
    def weights(self) -> FloatArray:
        """The numbers that a repair may change, in one row: none, unless a file has a place for them."""
        return np.empty(0)

    @property
    def size(self) -> int:
        """How many weights it has."""
        return len(self.weights)

    @property
    def shared_as(self) -> str:
        """What nodes with the same weights have in common; empty if its weights are its own."""
        return ""

    @property
    def weight_sizes(self) -> Floats | None:
        """How much it weighs each number that it reads: the sum of its weights' sizes; None if it has no weights."""
        return None

    def numbers(self, like: Values) -> Numbers | None:
        """Return factor and shift in the dtype of an array, or in the dtype and on the device of a tensor."""
        return None

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        """Return its linear part ``(..., width)`` of what it reads, without the shift."""
        raise NotImplementedError(f"{self.kind} is not linear")

    def contribute(self, parts: Sequence[Values | None], widths: Sequence[int], numbers: Numbers | None) -> Values:
        """Return `combine` where only some parts are not 0; the others are None."""
        return self.combine(parts, numbers)

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        """Return the coefficients of each source in linear functions of its result, ``(..., width)``: the transpose."""
        raise NotImplementedError(f"{self.kind} is not linear")

    def gradients(self, gradient: Floats, values: Sequence[Floats], result: Floats) -> Sequence[Floats]:
        """Return the derivatives by each source ``(rows, width)``, from those by its result."""
        return self.pull(gradient, [value.shape[1] for value in values], self.numbers(gradient))

    def torch(self, values: Sequence[Tensor]) -> Tensor:
        """Compute it in PyTorch, from values ``(..., width)``."""
        numbers = self.numbers(values[0])
        result: Tensor = self.combine(values, numbers)
        return result if numbers is None else result + numbers[1]

    def form(self, forms: Sequence[Tensor], first: Tensor, numbers: Numbers | None) -> Tensor:
        """Return the linear form of its result from those of its sources; ``first`` is 1 for the constant, else 0."""
        combined: Tensor = self.combine(forms, numbers)
        return combined if numbers is None else combined.addcmul(first, numbers[1])

    def forms(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], first: Tensor, numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return linear forms around its result, from forms around its sources."""
        return self.form(lower, first, numbers), self.form(upper, first, numbers)

    def interval(
        self, lower: Sequence[Tensor], upper: Sequence[Tensor], numbers: Numbers | None
    ) -> tuple[Tensor, Tensor]:
        """Return the interval of its result, from those of its sources."""
        return self.combine(lower, numbers), self.combine(upper, numbers)

    @abstractmethod
    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Return which of its numbers depend on which input column, bool ``(width, inputs)``, from those it reads."""

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        """Return which single input column each of its numbers depends on, -1 where it is none, ``(width,)``."""
        return np.full(width, -1)

    @property
    def entry(self) -> dict[str, Any]:
        """Its step in a description, but for what it reads: its kind, and numbers of its own."""
        return {"kind": self.kind}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Operation:
        """Return the operation of such a step, which may come from a file."""
        return cls()

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        """Add its steps to a description, with the name of its layer, and return the last one."""
        return into.add(sources=sources, **self.entry)


def require_sources(kind: str, widths: Sequence[int], least: int, most: int | None = None) -> None:
    """Refuse a number of sources that the operation does not have."""
    if len(widths) < least or (most is not None and len(widths) > most):
        wanted = f"{least}" if least == most else f"at least {least}"
        raise FairmendError(f"{kind} has {len(widths)} sources; it must have {wanted}")


def as_like(like: Values, array: FloatArray) -> Values:
    """Return an array in the dtype of another, or as a tensor in the dtype and on the device of a tensor."""
    if isinstance(like, np.ndarray):
        return array.astype(like.dtype, copy=False)
    import torch

    return torch.tensor(array, dtype=like.dtype, device=like.device)
