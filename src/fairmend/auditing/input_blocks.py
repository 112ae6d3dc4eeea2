"""Split inputs of any origin into blocks of one size, so that an audit does not depend on how they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.spec import Spec
from fairmend.spec.read_values import RowsError, is_frame

if TYPE_CHECKING:
    import pandas as pd


Inputs: TypeAlias = Union["pd.DataFrame", npt.ArrayLike, "Iterable[pd.DataFrame | npt.ArrayLike]"]

_ROWS, _NUMBERS = 65_536, 2_000_000


def known_length(X: Inputs) -> int:
    """Return the number of inputs, or 0 for a stream, whose length only its end tells."""
    return 0 if _is_stream(X) else len(X)  # type: ignore[arg-type]


def encode_chunks(spec: Spec, X: Inputs, dtype: npt.DTypeLike) -> Iterator[FloatArray]:
    """Yield X in pieces of any size, checked and encoded."""
    done = 0
    for chunk in _chunks(X, block_rows(spec)):
        try:
            encoded = spec.as_inputs(chunk, dtype, first_row=done)
        except RowsError:
            if not _is_stream(X):
                spec.as_inputs(X, dtype)  # type: ignore[arg-type]  # raises the same error, counted over all rows
            raise
        done += len(encoded)
        yield _kept(encoded, chunk) if _is_stream(X) else encoded


def cut_blocks(pieces: Iterable[FloatArray], size: int) -> Iterator[FloatArray]:
    """Yield inputs that come in pieces of any size in blocks of one size; the last block may be smaller."""
    waiting: list[FloatArray] = []  # the start of a block, in pieces
    rows = 0
    for piece in pieces:
        start = 0
        while len(piece) - start >= size - rows:
            end = start + size - rows
            block = piece[start:end]
            yield np.concatenate([*waiting, block]) if waiting else block
            start, waiting, rows = end, [], 0
        if start < len(piece):
            waiting.append(piece[start:].copy() if start else piece)
            rows += len(piece) - start
    if rows:
        yield np.concatenate(waiting)


def sample_blocks(spec: Spec, samples: int, seed: int, dtype: npt.DTypeLike) -> Iterator[FloatArray]:
    """Yield `samples` uniform samples of the input space, in blocks."""
    rng, size = np.random.default_rng(seed), block_rows(spec)
    for start in range(0, samples, size):
        yield spec.sample_inputs(min(size, samples - start), rng, dtype)


def block_rows(spec: Spec) -> int:
    """Return the number of inputs in a block: fewer if they are wide."""
    return max(64, min(_ROWS, _NUMBERS // spec.width))


def _kept(encoded: FloatArray, chunk: pd.DataFrame | npt.ArrayLike) -> FloatArray:
    """Return inputs that stay as they are, even if a stream fills the array of a chunk again for the next one."""
    return encoded if is_frame(chunk) or not np.may_share_memory(encoded, np.asarray(chunk)) else encoded.copy()


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
        yield matrix  # Spec.as_inputs raises the error
        return
    yield from (matrix[start : start + size] for start in range(0, len(matrix), size))
