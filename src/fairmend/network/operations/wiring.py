"""Operations without numbers of their own: the input, and what chooses, joins and adds up columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import Numbers, Operation, Values, require_sources

if TYPE_CHECKING:
    from fairmend.network.description import Description


@dataclass(frozen=True)
class Input(Operation):
    """The first node of every network: one row of numbers, in the order of the columns of X.

    A model with several inputs has them one after the other in this row. ``names`` are the names of these inputs and
    how many columns each has; empty for a model with one input.
    """

    columns: int
    names: tuple[tuple[str, int], ...] = ()
    kind = "input"

    def __post_init__(self) -> None:
        """Check the number of columns."""
        if self.columns < 1:
            raise FairmendError("a network needs at least one input column")
        if self.names and sum(width for _, width in self.names) != self.columns:
            raise FairmendError(f"the inputs {dict(self.names)} do not have {self.columns} columns together")

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 0, 0)
        return self.columns

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Do nothing: the row is given."""
        raise NotImplementedError("the input is given, not computed")

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.eye(self.columns, dtype=np.bool_)

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return np.arange(width)

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        names: dict[str, Any] = {"inputs": [[each, width] for each, width in self.names]} if self.names else {}
        return into.add("input", sources, columns=self.columns, **names)


@dataclass(frozen=True)
class Columns(Operation):
    """The columns ``indices`` of its source, in any order; one may occur more than once."""

    indices: tuple[int, ...]
    kind = "columns"
    rearranges = True

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1, 1)
        outside = [index for index in self.indices if not 0 <= index < widths[0]]
        if not self.indices or outside:
            raise FairmendError(f"columns {outside or 'none'} of a node that has {widths[0]}")
        return len(self.indices)

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        np.take(values[0], self.indices, axis=1, out=out, mode="clip")

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        return parts[0][..., list(self.indices)]

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        shape = (*coefficients.shape[:-1], widths[0])
        if isinstance(coefficients, np.ndarray):
            whole = np.zeros(shape, coefficients.dtype)
            for place, column in enumerate(self.indices):
                whole[..., column] += coefficients[..., place]
            return [whole]
        import torch

        index = torch.tensor(self.indices, device=coefficients.device)
        return [coefficients.new_zeros(*shape).index_add(-1, index, coefficients)]

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return reached[0][list(self.indices)]

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return columns[0][list(self.indices)]

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        return into.add("columns", sources, indices=list(self.indices))


@dataclass(frozen=True)
class Concatenate(Operation):
    """The columns of the first source, then those of the second, and so on."""

    kind = "concatenate"
    rearranges = True

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 1)
        return sum(widths)

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        np.concatenate(values, axis=1, out=out)

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts, axis=-1)
        import torch

        return torch.cat(list(parts), dim=-1)

    def contribute(self, parts: Sequence[Values | None], widths: Sequence[int], numbers: Numbers | None) -> Values:
        like = next(part for part in parts if part is not None)
        empty = (like.new_zeros(*like.shape[:-1], width) for width in widths)
        return self.combine([gap if part is None else part for part, gap in zip(parts, empty, strict=True)])

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        if isinstance(coefficients, np.ndarray):
            return np.split(coefficients, np.cumsum(widths)[:-1], axis=-1)
        return list(coefficients.split(list(widths), dim=-1))

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.concatenate(reached)

    def follow(self, columns: Sequence[Ints], width: int) -> Ints:
        return np.concatenate(columns)

    def describe(self, into: Description, name: str, sources: Sequence[int]) -> int:
        """Add the concatenation; one source alone is no step."""
        return into.add("concatenate", sources) if len(sources) > 1 else sources[0]


@dataclass(frozen=True)
class Sum(Operation):
    """v₁ + v₂ + …, all of one width, added in this order: skip connections, and branches that meet."""

    kind = "sum"

    def width(self, widths: Sequence[int]) -> int:
        require_sources(self.kind, widths, 2)
        if len(set(widths)) > 1:
            raise FairmendError(f"a sum of {', '.join(map(str, widths))} numbers: its sources must have one width")
        return widths[0]

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        np.add(values[0], values[1], out=out)
        for more in values[2:]:
            out += more

    def combine(self, parts: Sequence[Values], numbers: Numbers | None = None) -> Values:
        """Add up the parts in their order."""
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def contribute(self, parts: Sequence[Values | None], widths: Sequence[int], numbers: Numbers | None) -> Values:
        return self.combine([part for part in parts if part is not None])

    def pull(self, coefficients: Values, widths: Sequence[int], numbers: Numbers | None = None) -> Sequence[Values]:
        return [coefficients] * len(widths)

    def reached(self, reached: Sequence[Bools]) -> Bools:
        return np.asarray(np.logical_or.reduce(reached))
