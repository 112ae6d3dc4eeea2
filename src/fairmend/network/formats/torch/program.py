"""A PyTorch model as a list of calls, whether torch.fx traced it or torch.export wrote it into a file.

`rows` has the values that the calls pass on, `operators` what each call computes, and `interpret` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ref:
    """The result of an earlier call, an input or a constant, by its name; it stands in the arguments of a call."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor of the model; ``key`` names it in the state dict, and is None for numbers that are not in there.

    ``transposed`` says that the array is the stored one with its two axes exchanged.
    """

    array: npt.NDArray[Any]
    key: str | None = None
    transposed: bool = False

    @property
    def number(self) -> float | None:
        """The number, if it is a single one."""
        return float(self.array.reshape(())) if self.array.size == 1 else None

    @property
    def reference(self) -> str | float | list[float]:
        """How the description of a step names it: by its key, or as numbers."""
        if self.key is not None and not self.transposed:
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
