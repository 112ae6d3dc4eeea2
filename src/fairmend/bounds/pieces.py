"""Boxes and points for rigorous bounds: converted to float64 exactly, and divided into batches that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats, Ints
from fairmend.base.device import current_device
from fairmend.base.errors import FairmendError
from fairmend.base.threads import side_by_side
from fairmend.network import Network

MAX_ENTRIES = 1_000_000
"""The entries of one temporary array on a CPU, 8 MB; only a few of them exist at a time."""

_ARRAYS = 32  # of that size that fit the memory of a GPU
_WIDE = 128  # columns, from which on leaving some out is worth the copy


def max_entries() -> int:
    """Return the entries of one temporary array on the device that bounds are computed on."""
    device = current_device()
    if device is None:
        return MAX_ENTRIES
    from fairmend.base.gpu import memory_of

    return memory_of(device) // (8 * _ARRAYS)


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
    if columns < _WIDE or not isinstance(arrays[0], np.ndarray):  # to ask a GPU takes longer than the product
        return None
    used = np.flatnonzero(np.any([array.any(axis=(0, 1)) for array in arrays], axis=0))
    return used if len(used) < 0.8 * columns else None


def batch_size(network: Network) -> int:
    """Return how many pieces are a batch: the coefficients of the widest layer, of both signs, fit in an array."""
    return max(1, max_entries() // (2 * widest_layer(network) ** 2))


def batches(network: Network, pieces: int) -> Iterator[slice]:
    """Return batches of pieces."""
    return _slices(pieces, batch_size(network))


def run_batches(work: Callable[[slice], None], pieces: int, size: int) -> None:
    """Call ``work`` on batches of so many pieces: side by side on the CPU, and one after another on a GPU.

    Each of them may fill the memory of the GPU. If it is full, batches become smaller, with a warning.
    """
    if current_device() is None:
        side_by_side(work, _slices(pieces, size))
        return
    from fairmend.base.gpu import run_in_parts

    run_in_parts(pieces, size, work, "neighbourhoods")


def _slices(pieces: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, pieces)) for start in range(0, pieces, size))
