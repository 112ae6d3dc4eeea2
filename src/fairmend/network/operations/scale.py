"""Batch normalisation and scaling as a step of its own, where no affine layer beside it can take it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources

if TYPE_CHECKING:
    from fairmend.network.folding import Line, Norm


@dataclass(frozen=True, eq=False)
class Scale:
    """factor·x + shift for each unit, both ``(width,)``: what ``norms`` compute one after the other.

    `factor` and `shift` are the float64 numbers of `line`, rounded once to the dtype of the network.
    """

    norms: tuple[Norm, ...]
    units: int
    dtype: np.dtype[np.floating]
    source: str = ""
    kind = "scale"
    line: Line = field(init=False, repr=False)
    factor: FloatArray = field(init=False, repr=False)
    shift: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute factor and shift."""
        from fairmend.network.folding import line_of

        dtype = np.dtype(self.dtype)
        line = line_of(self.norms, self.units, self.source)
        with np.errstate(over="ignore"):
            factor, shift = line.factor.astype(dtype), line.shift.astype(dtype)
        if not (np.isfinite(factor).all() and np.isfinite(shift).all()) or ((factor == 0) & (line.factor != 0)).any():
            raise FairmendError(f"{self.source}: {self.norms[0].where} has a factor or shift that is not a {dtype}")
        for name, value in (("dtype", dtype), ("line", line), ("factor", factor), ("shift", shift)):
            object.__setattr__(self, name, value)

    def _bits(self) -> tuple[object, ...]:
        return self.dtype.str, self.factor.tobytes(), self.shift.tobytes()

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit."""
        return self._bits() == other._bits() if isinstance(other, Scale) else NotImplemented

    def __hash__(self) -> int:
        """Hash the bits that `__eq__` compares."""
        return hash(self._bits())

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of units."""
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != self.units:
            raise FairmendError(f"a scaling of {self.units} units reads {widths[0]} numbers")
        return self.units

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Multiply and add."""
        np.multiply(values[0], self.factor, out=out)
        out += self.shift

    def astype(self, dtype: npt.DTypeLike) -> Scale:
        """Return the scaling with the same factor and shift, cast to another dtype; its norms become one."""
        from fairmend.network.folding import Norm

        kind: np.dtype[Any] = np.dtype(dtype)
        if self.dtype == kind:
            return self
        zero = np.zeros(self.units)
        norm = Norm(self.norms[0].where if self.norms else "a scaling", zero, None, self.factor, self.shift)
        return Scale((norm,), self.units, kind, self.source)
