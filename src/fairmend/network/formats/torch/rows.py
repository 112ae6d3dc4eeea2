"""Tensors of a traced model: one row of numbers for each row of the input, under any shape.

A tensor is a row of numbers (the values of the graph side by side, in `parts`) and the sizes of its axes; ROWS stands
for the axis of the rows. Reshaping changes the sizes alone, and choosing, stacking or transposing is a choice of
columns: NumPy does it with the numbers 0, 1, 2, … of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.build import Value


class _Rows:
    """The number of rows, whatever it is."""

    def __repr__(self) -> str:
        """Show it as in messages: (rows, 13)."""
        return "rows"


ROWS: Final = _Rows()
Dims = tuple[Any, ...]  # each an int, or ROWS


class InputWidthError(Exception):
    """An input must be wider or narrower than assumed; `change` says by how much, `exact` that it is then right."""

    def __init__(self, name: str, change: int, exact: bool) -> None:
        """Store what is wrong."""
        super().__init__(name)
        self.name, self.change, self.exact = name, change, exact


@dataclass
class Memory:
    """What tensors share that are views of each other; `version` counts the changes in place.

    `owner` is the input that they are views of.
    """

    owner: str = ""
    version: int = 0
    changed_by: str = ""


@dataclass(eq=False)
class RowTensor:
    """Numbers for each row: `parts` side by side, with the axes `dims`, of which one is ROWS.

    `opens` says by how many columns the tensor grows with each column of an input whose width is not known yet.
    An `integer` tensor was cast to whole numbers, and only a look-up may read it. `sigmoid_of` is set on a sigmoid,
    and `product_of` on the product of a tensor and a constant.
    """

    parts: tuple[Value, ...]
    dims: Dims
    opens: Mapping[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    integer: bool = False
    sigmoid_of: tuple[Value, ...] = ()
    product_of: tuple[tuple[Value, ...], Any] | None = None
    version: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the state of the memory."""
        self.version = self.memory.version

    @property
    def width(self) -> int:
        """How many numbers there are for each row."""
        return sum(part.width for part in self.parts)

    @property
    def row_axis(self) -> int:
        """The axis of the rows."""
        return next(axis for axis, size in enumerate(self.dims) if size is ROWS)

    @property
    def stale(self) -> bool:
        """Whether something changed the memory in place after this tensor was made."""
        return self.version != self.memory.version

    def axis(self, axis: int) -> int:
        """Return an axis that may be counted from the end."""
        return axis + len(self.dims) if axis < 0 else axis

    def shape(self) -> str:
        """Return the shape for messages."""
        return f"({', '.join(map(str, self.dims))}{',' if len(self.dims) == 1 else ''})"


def column_numbers(dims: Sequence[Any], start: int = 0) -> npt.NDArray[np.int64]:
    """Return the numbers of the columns of a tensor, in an array of its shape; the axis of rows has length 1."""
    sizes = [1 if size is ROWS else int(size) for size in dims]
    return np.arange(start, start + math.prod(sizes)).reshape(sizes)


@dataclass(frozen=True)
class Positive:
    """Where the numbers of a tensor are above 0: only `where` may read it."""

    parts: tuple[Value, ...]
    dims: Dims
