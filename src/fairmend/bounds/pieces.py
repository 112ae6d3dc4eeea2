"""Boxes and points for rigorous bounds: converted to float64 exactly, and divided into batches that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Floats, Ints
from fairmend.errors import FairmendError
from fairmend.network import Network

__all__ = ["MAX_ENTRIES", "batches", "exact_boxes", "exact_rows", "used_columns", "widest_layer"]

MAX_ENTRIES = 1_000_000
"""The entries of one temporary array, 8 MB; only a few of them exist at a time."""


_WIDE = 128  # columns, from which on leaving some out is worth the copy


def exact_rows(network: Network, array: npt.ArrayLike, name: str) -> Floats:
    """Return the array ``(rows, inputs)`` in float64; raise an error if that would change a number."""
    given = np.asarray(array)
    if given.ndim != 2 or given.shape[1] != network.inputs:
        raise FairmendError(f"{name} has shape {given.shape}; it must be (rows, {network.inputs})")
    exact = given.dtype.kind == "f" and given.dtype.itemsize <= 8
    exact = exact or (given.dtype.kind in "biu" and bool(np.all((given <= 2**53) & (given >= -(2**53)))))
    if not exact or not np.isfinite(given).all():
        raise FairmendError(f"{name} must hold finite numbers that float64 represents exactly (dtype {given.dtype})")
    return given.astype(np.float64)


def exact_boxes(network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the boxes ``lower <= x <= upper``, each ``(pieces, inputs)``, in float64; refuse empty boxes."""
    low, high = exact_rows(network, lower, "lower"), exact_rows(network, upper, "upper")
    if low.shape != high.shape or not np.all(low <= high):
        raise FairmendError("boxes need lower and upper of one shape, with lower <= upper in every column")
    return low, high


def widest_layer(network: Network) -> int:
    """Return the largest number of inputs or outputs of a node."""
    return max(network.widths)


def used_columns(*arrays: Floats) -> Ints | None:
    """Return the columns ``(pieces, rows, columns)`` in which any number is not 0; None if few can be left out.

    A product with the columns that are used is as good, and in a wide layer of ReLU units about half are surely off.
    """
    columns = arrays[0].shape[2]
    if columns < _WIDE:
        return None
    used = np.flatnonzero(np.any([array.any(axis=(0, 1)) for array in arrays], axis=0))
    return used if len(used) < 0.8 * columns else None


def batches(network: Network, pieces: int) -> Iterator[slice]:
    """Return batches of pieces; the coefficients of the widest layer, of both signs, fit in a temporary array."""
    step = max(1, MAX_ENTRIES // (2 * widest_layer(network) ** 2))
    return (slice(start, min(start + step, pieces)) for start in range(0, pieces, step))
