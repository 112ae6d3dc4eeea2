"""A PyTorch model as a list of calls, whether torch.fx traced it or torch.export wrote it into a file.

`operators` has the values that the calls pass on and what each call computes, and `interpret` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

ONE_OUTPUT = (
    "fairmend reads models with one: wrap the module in another whose forward() returns the one that decides, such as "
    'self.model(x)["score"] or self.model(x)[0]'
)


@dataclass(frozen=True)
class Ref:
    """The result of an earlier call, an input or a constant, by its name; it stands in the arguments of a call."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor of the model; ``key`` names it in the state dict, and is None for numbers that are not in there.

    ``places`` says which number of the stored tensor, in its order, is at each place of the array; None: all of them,
    in that order. ``stored`` is the shape of that tensor. ``rounded`` says that programs may round the numbers
    otherwise, as they are a function of others.
    """

    array: npt.NDArray[Any]
    key: str | None = None
    places: npt.NDArray[np.int64] | None = None
    stored: tuple[int, ...] | None = None
    rounded: bool = False

    def moved(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Constant:
        """Return the numbers reshaped, chosen, repeated or in another order: ``move`` does it with any array."""
        array = np.asarray(move(self.array))
        if self.key is None:
            return Constant(array, rounded=self.rounded)
        return Constant(array, self.key, np.asarray(move(self._places)), self.stored or self.array.shape)

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        return np.arange(self.array.size).reshape(self.array.shape) if self.places is None else self.places

    @property
    def in_order(self) -> bool:
        """Whether it has all the stored numbers in their order, under any shape."""
        return self.key is not None and (self.places is None or self._holds(np.arange(self.array.size)))

    @property
    def transposed(self) -> bool:
        """Whether it has all the stored numbers, in their order but for the last two axes, which are exchanged."""
        if self.key is None or self.array.ndim < 2:
            return False
        *before, rows, columns = self.array.shape
        return self._holds(np.arange(self.array.size).reshape(*before, columns, rows).swapaxes(-1, -2))

    def _holds(self, places: npt.NDArray[np.int64]) -> bool:
        whole = self.stored is None or self.array.size == math.prod(self.stored)
        return whole and np.array_equal(self._places.reshape(-1), places.reshape(-1))

    @property
    def number(self) -> float | None:
        """The number, if it is a single one."""
        return float(self.array.reshape(())) if self.array.size == 1 else None

    @property
    def reference(self) -> str | float | list[float]:
        """How the description of a step names it: by its key, or as numbers."""
        if self.key is not None and self.in_order:
            return self.key
        number = self.number
        return number if number is not None else np.asarray(self.array, np.float64).reshape(-1).tolist()


@dataclass(frozen=True)
class ProgramInput:
    """An input of the model: ``name`` in the calls, ``label`` for the user; width and rank are None if not known.

    ``rows`` says how many rows it has, in the words of an exported program.
    """

    name: str
    label: str
    width: int | None = None
    rank: int | None = None
    rows: str = ""


@dataclass(frozen=True)
class Call:
    """A function by its plain name, its arguments, and the words for it in messages."""

    result: str
    operator: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    where: str


@dataclass(frozen=True)
class Program:
    """The calls of a model in order, and which result is its output."""

    inputs: tuple[ProgramInput, ...]
    constants: Mapping[str, Constant]
    calls: tuple[Call, ...]
    output: Ref
