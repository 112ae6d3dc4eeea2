"""Inputs of any origin as blocks of one size, so that an audit does not depend on how they came in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.spec import Spec
from fairmend.spec.frames import is_frame

if TYPE_CHECKING:
    import pandas as pd

Inputs: TypeAlias = Union["pd.DataFrame", npt.ArrayLike, "Iterable[pd.DataFrame | npt.ArrayLike]"]

_ROWS, _NUMBERS = 16_384, 2_000_000


def block_rows(spec: Spec) -> int:
    """Return the inputs in one block: many, as long as they stay small."""
    return max(64, min(_ROWS, _NUMBERS // spec.width))


def known_length(X: Inputs) -> int:
    """Return how many inputs there are, 0 where only the end of a stream will tell."""
    return 0 if _is_stream(X) else len(X)  # type: ignore[arg-type]


def blocks(spec: Spec, X: Inputs, dtype: npt.DTypeLike) -> Iterator[FloatArray]:
    """Yield X, checked and encoded, in blocks of one size; the last may be smaller."""
    size = block_rows(spec)
    waiting: list[FloatArray] = []
    rows = done = 0
    for chunk in _chunks(X, size):
        encoded = encode_chunk(spec, chunk, done, dtype)
        done += len(encoded)
        waiting.append(encoded)
        rows += len(encoded)
        if rows >= size:
            joined = np.concatenate(waiting)
            whole = rows - rows % size
            yield from (joined[start : start + size] for start in range(0, whole, size))
            waiting, rows = [joined[whole:].copy()], rows - whole
    if rows:
        yield np.concatenate(waiting)
    if done == 0:
        raise FairmendError("X has no rows; give at least one input")


def sample_blocks(spec: Spec, samples: int, seed: int, dtype: npt.DTypeLike) -> Iterator[FloatArray]:
    """Yield so many uniform samples of the input space, in blocks."""
    rng, size = np.random.default_rng(seed), block_rows(spec)
    for start in range(0, samples, size):
        yield spec.sample_inputs(min(size, samples - start), rng, dtype)


def _is_stream(X: Inputs) -> bool:
    return (
        isinstance(X, Iterable)
        and not isinstance(X, Sequence | str)
        and not is_frame(X)
        and not hasattr(X, "__array__")
    )


def _chunks(X: Inputs, size: int) -> Iterator[pd.DataFrame | npt.ArrayLike]:
    if _is_stream(X):
        yield from (chunk for chunk in X if len(chunk))  # type: ignore[union-attr, arg-type, misc]
        return
    if is_frame(X):
        yield from (X.iloc[start : start + size] for start in range(0, len(X), size))
        return
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        yield matrix  # the spec says what is wrong with it
        return
    yield from (matrix[start : start + size] for start in range(0, len(matrix), size))


def encode_chunk(spec: Spec, chunk: pd.DataFrame | npt.ArrayLike, before: int, dtype: npt.DTypeLike) -> FloatArray:
    """Encode one chunk; an error names the row as it is counted over all chunks."""
    try:
        return spec.as_inputs(chunk, dtype)
    except FairmendError as error:
        counted = re.sub(
            r'^(feature ".*?", row )(\d+)', lambda m: f"{m[1]}{int(m[2]) + before}", str(error), flags=re.S
        )
        raise FairmendError(counted) from error
