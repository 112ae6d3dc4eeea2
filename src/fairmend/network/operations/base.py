"""What every operation knows: how wide its result is, and how it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError


@runtime_checkable
class Operation(Protocol):
    """A step of a network, on the results of earlier steps."""

    @property
    def kind(self) -> str:
        """The word for it in messages and files: "affine", "sum", "relu"."""

    def width(self, widths: Sequence[int]) -> int:
        """Return how many numbers it gives for each row, from those of its sources; refuse sources that do not fit."""

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Compute it: from values ``(rows, width)`` of each source into ``out (rows, width)``.

        ``out`` may be the array of the first source if the operation is elementwise.
        """

    def astype(self, dtype: npt.DTypeLike) -> Operation:
        """Return the operation with all its numbers in another dtype."""


def require_sources(kind: str, widths: Sequence[int], least: int, most: int | None = None) -> None:
    """Refuse a number of sources that the operation does not have."""
    if len(widths) < least or (most is not None and len(widths) > most):
        wanted = f"{least}" if least == most else f"at least {least}"
        raise FairmendError(f"{kind} has {len(widths)} sources; it must have {wanted}")
