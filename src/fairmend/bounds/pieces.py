"""The boxes and points that rigorous bounds are asked for: taken over exactly, in groups that fit memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Floats
from fairmend.errors import FairmendError
from fairmend.network import Network

ENTRIES = 1_000_000
"""Of one temporary array, 8 MB; a handful of them live at a time."""


def exact_rows(network: Network, array: npt.ArrayLike, name: str) -> Floats:
    """The array ``(rows, inputs)`` in float64, refused where that would change a number."""
    given = np.asarray(array)
    if given.ndim != 2 or given.shape[1] != network.inputs:
        raise FairmendError(f"{name} has shape {given.shape}; it must be (rows, {network.inputs})")
    exact = given.dtype.kind == "f" and given.dtype.itemsize <= 8
    exact = exact or (given.dtype.kind in "biu" and bool(np.all((given <= 2**53) & (given >= -(2**53)))))
    if not exact or not np.isfinite(given).all():
        raise FairmendError(f"{name} must hold finite numbers that float64 has exactly (dtype {given.dtype})")
    return given.astype(np.float64)


def exact_boxes(network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The boxes ``lower <= x <= upper``, each ``(pieces, inputs)``, in float64."""
    low, high = exact_rows(network, lower, "lower"), exact_rows(network, upper, "upper")
    if low.shape != high.shape or not np.all(low <= high):
        raise FairmendError("boxes need lower and upper of one shape, lower <= upper in every column")
    return low, high


def widest(network: Network) -> int:
    """The largest number of values between two layers."""
    return max(int(size) for affine in network.affines for size in affine.weight.shape)


def groups(network: Network, pieces: int) -> Iterator[slice]:
    """Groups of pieces such that the widest layer's coefficients, of both signs, fit in a temporary array."""
    step = max(1, ENTRIES // (2 * widest(network) ** 2))
    return (slice(start, min(start + step, pieces)) for start in range(0, pieces, step))
