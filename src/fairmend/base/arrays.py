"""Array types that signatures use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError

# Figures of arrays that are too long to copy: they are read in chunks, and the results are those of NumPy.
#
# An array with a number for each row is kept in memory if it is small, and in a temporary file otherwise.


CHUNK = 1 << 20
"""How many rows are read at a time."""

_MEMORY = 1 << 23  # bytes of an array in memory
_FEW = 1 << 23  # rows of which NumPy may make copies
_BITS = 16  # that one pass over the values decides
_SIGN = np.uint64(1 << 63)


def chunks(rows: int) -> Iterator[slice]:
    """Yield the parts of an array with so many rows."""
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))


def in_chunks(
    values: npt.NDArray[Any], compute: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Return what a function gives for each row of values (rows, …), as an array (rows,) of this type."""
    result = empty_array((len(values),), dtype)
    for part in chunks(len(values)):
        result[part] = compute(values[part])
    return result


def select_rows(values: npt.NDArray[Any], chosen: Bools) -> npt.NDArray[Any]:
    """Return the rows of values (rows, …) that are chosen (rows,)."""
    result = empty_array((int(np.count_nonzero(chosen)), *values.shape[1:]), values.dtype)
    end = 0
    for part in chunks(len(values)):
        some = values[part][chosen[part]]
        result[end : end + len(some)] = some
        end += len(some)
    return result


def empty_array(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array to be filled: in memory, or in a temporary file, which the system deletes with the array."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= _MEMORY:
        return np.empty(shape, dtype)
    with writing_temporary(), TemporaryFile(prefix="fairmend-") as file:
        # Where the disk is full, this fails with a message, but writing to the array would end the program.
        for start in range(0, size, CHUNK):
            file.write(bytes(min(CHUNK, size - start)))
        file.flush()
        return np.asarray(np.memmap(file, dtype, mode="r+", shape=shape))


@contextmanager
def writing_temporary() -> Iterator[None]:
    """Turn an error of the system, while a temporary file is written, into a message about the temporary folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise FairmendError(
            f"cannot write to the temporary folder ({reason}); set TMPDIR to a folder with enough space"
        ) from error


def count_codes(codes: npt.NDArray[np.integer[Any]], groups: int) -> Ints:
    """Return how many rows have each of the codes (rows,), which are below `groups`."""
    return count_together((codes, groups))


def count_together(*columns: tuple[npt.NDArray[Any], int]) -> Ints:
    """Return how many rows have each combination of codes: one axis for each column.

    A column is its codes (rows,), whole numbers or bools, and a number that they are below.
    """
    sizes = [size for _, size in columns]
    counts = np.zeros(math.prod(sizes), dtype=np.int64)
    for part in chunks(len(columns[0][0])):
        together = columns[0][0][part]
        if len(columns) > 1:
            together = together.astype(np.intp)
            for codes, size in columns[1:]:
                together *= size
                together += codes[part].astype(np.intp, copy=False)
        counts += np.bincount(together, minlength=len(counts))
    return counts.reshape(sizes)


def count_above(values: npt.NDArray[Any], limit: float) -> int:
    """Return how many values (rows,) are above a limit."""
    return sum(int((values[part] > limit).sum()) for part in chunks(len(values)))


def sum_in_chunks(rows: int, compute: Callable[[slice], Floats]) -> float:
    """Return the sum of what a function gives for the rows of a part (k,), over all rows.

    Halves are added as NumPy adds those of one array, so the sum has the same bits.
    """

    def add_up(start: int, end: int) -> float:
        if end - start <= CHUNK:
            return float(compute(slice(start, end)).sum())
        half = (end - start) // 2
        middle = start + half - half % 8
        return add_up(start, middle) + add_up(middle, end)

    return add_up(0, rows)


def histogram(values: npt.NDArray[Any], bins: int, end: float) -> tuple[Ints, Floats]:
    """Return how many values (rows,) are in each bin from 0 to `end`, those above in the last one, and the edges."""
    counts, edges = np.histogram(np.minimum(values[:CHUNK], end), bins=bins, range=(0, end))
    for part in list(chunks(len(values)))[1:]:
        counts = counts + np.histogram(np.minimum(values[part], end), bins=bins, range=(0, end))[0]
    return counts, edges


def quantiles(values: npt.NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """Return the quantiles of values (rows,) as `numpy.quantile` does, with little memory however long they are."""
    if len(values) <= _FEW:
        return np.quantile(values, shares).tolist()  # type: ignore[no-any-return]
    places = [share * (len(values) - 1) for share in shares]
    ranks = sorted({rank for place in places for rank in (int(place), min(int(place) + 1, len(values) - 1))})
    found = dict(zip(ranks, _values_of_ranks(values, ranks), strict=True))
    ends = [(found[int(place)], found[min(int(place) + 1, len(values) - 1)], place % 1) for place in places]
    return [float(np.quantile([low, high], between)) for low, high, between in ends]


def _values_of_ranks(values: npt.NDArray[np.float64], ranks: Sequence[int]) -> list[float]:
    """Return the values with these places in the order of all values, the first 16 bits first."""
    # The bits that are known so far, and the place among the values that share them.
    starts = [(np.uint64(0), rank) for rank in ranks]
    for known in range(0, 64, _BITS):
        shift = np.uint64(64 - known - _BITS)
        counts = {prefix: np.zeros(1 << _BITS, np.int64) for prefix, _ in starts}
        for part in chunks(len(values)):
            upper = _ordered_bits(values[part]) >> shift
            for prefix, count in counts.items():
                mine = upper if known == 0 else upper[upper >> np.uint64(_BITS) == prefix]
                count += np.bincount((mine & np.uint64((1 << _BITS) - 1)).astype(np.int64), minlength=len(count))
        starts = [_narrowed(prefix, place, counts[prefix]) for prefix, place in starts]
    bits = np.array([prefix for prefix, _ in starts], dtype=np.uint64)
    plain = np.where(bits & _SIGN, bits ^ _SIGN, ~bits)
    return plain.view(np.float64).tolist()  # type: ignore[no-any-return]


def _narrowed(prefix: np.uint64, place: int, count: Ints) -> tuple[np.uint64, int]:
    """Return the prefix with the next bits of the value at a place, and its place among the values that share them."""
    ends = np.cumsum(count)
    bucket = int(np.searchsorted(ends, place, side="right"))
    before = int(ends[bucket - 1]) if bucket else 0
    return (prefix << np.uint64(_BITS)) | np.uint64(bucket), place - before


def _ordered_bits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return whole numbers in the order of the values: the bits of a float64 are, but for its sign."""
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)  # one zero
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def first_of_each(owner: Ints, *keys: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Return each owner once, in order, and the place of the one of its entries that the keys put first.

    The first key counts most, and smaller is earlier; each (entries,).
    """
    order = np.lexsort((*keys[::-1], owner))
    who, first = np.unique(owner[order], return_index=True)
    return who, order[first]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
FloatArray = NDArray[np.floating[Any]]
"""float32 or float64: inputs and scores in the network's own precision."""
