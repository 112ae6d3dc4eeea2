"""The affine layer, dense: the only operation whose numbers a repair changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.operations.base import require_sources

if TYPE_CHECKING:
    from fairmend.network.folding import DerivedBias, Fold, Norm


DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, eq=False)
class StoredLayer:
    """Weight and bias (None: there is none) as a file stores them, and the norms beside the layer."""

    name: str
    weight: FloatArray
    bias: FloatArray | None
    norms: tuple[Norm, ...]


@dataclass(frozen=True, eq=False)
class Affine:
    """x ↦ weight·x + bias: weight (out, in), bias (out,), both read-only copies of one dtype.

    `fold` is how the layer is stored where batch normalisation or scaling is folded into it (`Affine.from_fold`).
    `stores_bias` is False for a plain layer whose file or module has no bias: it is 0, and stays 0 in a repair.
    """

    weight: FloatArray
    bias: FloatArray
    fold: Fold | None = field(default=None, repr=False)
    stores_bias: bool = field(default=True, repr=False)
    kind = "affine"

    @staticmethod
    def without_bias(weight: FloatArray) -> Affine:
        """Return a layer that has no bias."""
        return Affine(weight, np.zeros(np.shape(weight)[:1], np.asarray(weight).dtype), stores_bias=False)

    @staticmethod
    def from_fold(fold: Fold) -> Affine:
        """Return the layer with its norms folded into it."""
        return Affine(*fold.folded(), fold)

    def __post_init__(self) -> None:
        """Copy the arrays, so that no view of them can change the layer, and check their shapes and dtypes."""
        for part in ("weight", "bias"):
            array = np.array(getattr(self, part), order="C")
            if array.dtype.newbyteorder("=") not in DTYPES:
                raise FairmendError(
                    f"the {part} is {array.dtype.name}; fairmend computes in float32 or float64: "
                    "convert the model first (float32 holds every float16 and bfloat16 number exactly)"
                )
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
            array.setflags(write=False)
            object.__setattr__(self, part, array)
        if self.weight.ndim != 2 or 0 in self.weight.shape:
            raise FairmendError(f"the weight has shape {self.weight.shape}; it must be (out, in), with neither 0")
        if self.bias.shape != self.weight.shape[:1]:
            raise FairmendError(
                f"the bias has shape {self.bias.shape}; with a weight of shape {self.weight.shape} "
                f"it must be ({self.weight.shape[0]},)"
            )
        if self.bias.dtype != self.weight.dtype:
            raise FairmendError(f"the weight is {self.weight.dtype}, the bias {self.bias.dtype}; use one dtype")
        if not self.stores_bias and self.bias.any():
            raise FairmendError("the layer stores no bias, but the bias given is not 0")

    @property
    def derived_bias(self) -> DerivedBias | None:
        """How the bias follows from the weight; None if the layer can store any bias."""
        if self.fold is not None:
            return self.fold.derived_bias
        if self.stores_bias:
            return None
        from fairmend.network.folding import DerivedBias

        return DerivedBias.zero(self.weight)

    @property
    def parameters(self) -> FloatArray:
        """The weights, row by row, and then the biases, unless none are stored."""
        return np.concatenate([self.weight.ravel(), self.bias if self.derived_bias is None else self.bias[:0]])

    @property
    def size(self) -> int:
        """The number of parameters."""
        return int(self.weight.size + (self.bias.size if self.derived_bias is None else 0))

    def _bits(self) -> tuple[object, ...]:
        return self.weight.shape, self.weight.dtype.str, self.weight.tobytes(), self.bias.tobytes()

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit: −0.0 differs from 0.0."""
        return self._bits() == other._bits() if isinstance(other, Affine) else NotImplemented

    def __hash__(self) -> int:
        """Hash the bits that `__eq__` compares."""
        return hash(self._bits())

    def astype(self, dtype: npt.DTypeLike) -> Affine:
        """Return the layer in another dtype; numbers that overflow become infinite, which Network refuses."""
        if self.weight.dtype == dtype:
            return self
        with np.errstate(over="ignore"):
            return Affine(self.weight.astype(dtype), self.bias.astype(dtype), stores_bias=self.stores_bias)

    def stored(self, name: str) -> tuple[StoredLayer, ...]:
        """Return the layer as a file stores it, under its name; a joined layer is stored in several."""
        fold = self.fold
        if fold is None:
            return (StoredLayer(name, self.weight, self.bias if self.stores_bias else None, ()),)
        if fold.parts:
            return tuple(StoredLayer(part.name, part.weight, part.bias, ()) for part in fold.parts)
        return (StoredLayer(name, fold.weight, fold.bias, (*fold.before, *fold.after)),)

    def stored_as(self, other: Affine) -> Affine:
        """Return the closest layer that can be stored as `other` is.

        It has the dtype of `other` and the norms beside it. Where `other` stores no bias, neither does the layer.
        """
        if self.fold is None and other.fold is not None:
            return Affine.from_fold(other.fold.refit(self.weight, self.bias))
        cast = self.astype(other.weight.dtype)
        return cast if other.stores_bias or self.fold is not None else Affine.without_bias(cast.weight)

    def width(self, widths: Sequence[int]) -> int:
        """Return the number of outputs."""
        require_sources(self.kind, widths, 1, 1)
        if widths[0] != self.weight.shape[1]:
            raise FairmendError(f"takes {self.weight.shape[1]} values, but the layer before it gives {widths[0]}")
        return int(self.weight.shape[0])

    def compute(self, values: Sequence[FloatArray], out: FloatArray, part: int | None = None) -> None:
        """Compute weight·x + bias for each row; the product for so many rows at a time, or for all."""
        x, step = values[0], max(1, len(out)) if part is None else part
        for start in range(0, len(out), step):
            np.matmul(x[start : start + step], self.weight.T, out=out[start : start + step])
        out += self.bias
