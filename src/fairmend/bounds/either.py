"""Operations on NumPy arrays and on PyTorch tensors alike, for bounds that run on the CPU or on a GPU.

Operators, `abs`, methods and indexing are the same for both, so this is what is left. Arrays are computed as ever:
these functions are NumPy's own for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from fairmend.base.arrays import Floats


def on_device(array: Floats, device: Any) -> Floats:
    """Return an array as a float64 tensor of a device; one that repeats its first row is not copied in full."""
    import torch

    if array.ndim and len(array) > 1 and array.strides[0] == 0:
        return cast(Floats, torch.tensor(array[:1], dtype=torch.float64, device=device).expand(array.shape))
    return cast(Floats, torch.tensor(array, dtype=torch.float64, device=device))


def as_array(values: Any) -> Floats:
    """Return an array, from one or from a tensor."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.cpu().numpy())


def positive_part(values: Floats) -> Floats:
    """Return max(values, 0)."""
    return np.maximum(values, 0.0) if isinstance(values, np.ndarray) else values.clamp(min=0.0)


def negative_part(values: Floats) -> Floats:
    """Return min(values, 0)."""
    return np.minimum(values, 0.0) if isinstance(values, np.ndarray) else values.clamp(max=0.0)


def larger(first: Floats, second: Floats) -> Floats:
    """Return the larger of each two."""
    return np.maximum(first, second) if isinstance(first, np.ndarray) else first.maximum(second)


def smaller(first: Floats, second: Floats) -> Floats:
    """Return the smaller of each two."""
    return np.minimum(first, second) if isinstance(first, np.ndarray) else first.minimum(second)


def select(condition: Any, first: Any, second: Any) -> Floats:
    """Return the first where the condition holds, else the second."""
    if isinstance(condition, np.ndarray):
        return np.asarray(np.where(condition, first, second))
    import torch

    chosen: Any = torch.where(condition, first, second)
    return cast(Floats, chosen)


def is_finite(values: Floats) -> Any:
    """Return which values are finite."""
    return np.isfinite(values) if isinstance(values, np.ndarray) else values.isfinite()


def downwards(values: Floats) -> Floats:
    """Return the next number below each."""
    if isinstance(values, np.ndarray):
        return np.nextafter(values, -np.inf)
    return values.nextafter(values.new_full((), -np.inf))


def split_columns(values: Floats, ends: Sequence[int]) -> Sequence[Floats]:
    """Return ``values (a, b, units)`` in parts that end at these units."""
    if isinstance(values, np.ndarray):
        return np.split(values, ends, axis=2)
    return values.tensor_split(list(ends), dim=2)


def zeros(shape: tuple[int, ...], like: Floats) -> Floats:
    """Return zeros of the kind of ``like``."""
    return np.zeros(shape) if isinstance(like, np.ndarray) else like.new_zeros(shape)
