"""Axes of the values in an ONNX graph, of which one is that of the rows.

A value has so many numbers for each row, in the order of its axes. Whatever only moves them is done to their numbers
0, 1, 2, …, in an array of these axes; in it, the axis of the rows has the length of what is merged with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The axis of the rows, with the axes merged into it: so many entries of a row ``before`` it, and ``after`` it.

    Of (tokens · rows, width), each row has `tokens` entries before; of (rows · heads, width), `heads` after.
    """

    before: int = 1
    after: int = 1

    @property
    def entries(self) -> int:
        """How many entries of a row the axis has."""
        return self.before * self.after

    def __str__(self) -> str:
        """Return it as in a shape."""
        return "·".join([*([str(self.before)] * (self.before > 1)), "rows", *([str(self.after)] * (self.after > 1))])


@dataclass(frozen=True)
class Count:
    """A size that is so many times the number of rows, whatever that is."""

    times: int = 1

    def __str__(self) -> str:
        """Return it as in a shape."""
        return "rows" if self.times == 1 else f"{self.times}·rows"

    __repr__ = __str__

    def __mul__(self, other: object) -> Count:
        """Multiply by a number."""
        if type(other) is not int or other < 1:
            raise TypeError("the number of rows is multiplied by something else than a positive number")
        return Count(self.times * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Count | int:
        """Divide by a number, or by so many rows, where nothing is left over."""
        by = other.times if isinstance(other, Count) else other
        if type(by) is not int or by < 1 or self.times % by:
            raise TypeError("the number of rows is divided with a rest")
        return self.times // by if isinstance(other, Count) else Count(self.times // by)


ROWS = Rows()
Dims = tuple["int | Rows", ...]
Shape = Sequence["int | Count"]
Axes = dict[Hashable, "int | Rows"]  # by name


def lengths(dims: Dims) -> tuple[int, ...]:
    """Return how many entries of a row each axis has."""
    return tuple(size.entries if isinstance(size, Rows) else size for size in dims)


def rows_axis(dims: Dims) -> int:
    """Return which axis is that of the rows."""
    return next(axis for axis, size in enumerate(dims) if isinstance(size, Rows))


def column_numbers(dims: Dims) -> Ints:
    """Return the numbers of a row, counted, in the axes of a value."""
    return np.arange(math.prod(lengths(dims)), dtype=np.int64).reshape(lengths(dims))


def with_rows(sizes: Sequence[int], axis: int, rows: Rows | int) -> Dims:
    """Return the sizes of an array as axes of a value, of which one is that of the rows."""
    return tuple(rows if each == axis else int(size) for each, size in enumerate(sizes))


def sizes_of(dims: Dims) -> list[int | Count]:
    """Return the sizes of axes, as the Shape of a value has them."""
    return [Count(size.entries) if isinstance(size, Rows) else size for size in dims]


def shown(dims: Sequence[Any]) -> str:
    """Return axes or sizes for messages."""
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def reshaped(dims: Dims, shape: Shape) -> Dims | None:
    """Return the axes after a reshape, in which -1 stands for what is left; None if it mixes rows.

    What was before the rows stays before them: in axes of its own, or merged with theirs. So does what was after them.
    """
    at = rows_axis(dims)
    rows = dims[at]
    assert isinstance(rows, Rows)
    before, after = math.prod(lengths(dims[:at])) * rows.before, rows.after * math.prod(lengths(dims[at + 1 :]))
    counted = [axis for axis, size in enumerate(shape) if isinstance(size, Count)]
    left = [axis for axis, size in enumerate(shape) if size == -1]
    if len(counted) > 1 or len(left) > 1 or not (counted or left):
        return None
    named = (counted or left)[0]
    sizes = [size if isinstance(size, int) and axis != named else 1 for axis, size in enumerate(shape)]
    if counted and left:
        sizes[left[0]] = 1
        sizes[left[0]] = before * after // max(1, math.prod(sizes) * shape[named].times)  # type: ignore[union-attr]
    first, last = math.prod(sizes[:named]), math.prod(sizes[named + 1 :])
    if min(sizes) < 1 or before % first or after % last:
        return None
    found = Rows(before // first, after // last)
    if counted and shape[named] != Count(found.entries):
        return None
    return with_rows(sizes, named, found)


def broadcast(first: Dims, second: Dims) -> Dims | None:
    """Return the axes of what two values give together; None if they do not fit."""
    count = max(len(first), len(second))
    both = [(1,) * (count - len(dims)) + tuple(dims) for dims in (first, second)]
    if rows_axis(both[0]) != rows_axis(both[1]):
        return None
    found = tuple(b if a == 1 else a for a, b in zip(*both, strict=True))
    fits = all(size in (1, whole) for dims in both for size, whole in zip(dims, found, strict=True))
    return found if fits else None


@dataclass(frozen=True)
class Contraction:
    """How a product of two values is one of matrices.

    ``first`` and ``second`` are their columns in the order (groups, rows, length) and (groups, columns, length), which
    are so many as ``sizes`` says; ``result`` are the columns of the product in the order of the axes ``dims``.
    """

    first: list[int]
    second: list[int]
    sizes: tuple[int, int, int, int]
    result: list[int]
    dims: Dims


def contraction(first: Axes, second: Axes, out: Sequence[Hashable]) -> Contraction | None:
    """Return how the sum of products over all axes that are not in ``out`` is one of matrices; None if it is not.

    Axes have names. Those of the result that both have are groups, those of one alone are rows or columns.
    """
    sizes = {**first, **second}
    summed = [name for name in first if name not in out]
    if any(first.get(name, size) != size for name, size in second.items()) or any(name not in sizes for name in out):
        return None
    if any(name not in second for name in summed) or any(name not in {*out, *summed} for name in second):
        return None
    rows = next(name for name, size in sizes.items() if isinstance(size, Rows))
    if rows not in first or rows not in second or rows not in out or not isinstance(second[rows], Rows):
        return None
    groups = [name for name in out if name in first and name in second]
    kinds = (groups, [n for n in out if n not in second], [n for n in out if n not in first], summed)
    length = dict(zip(sizes, lengths(tuple(sizes.values())), strict=True))
    made = [*kinds[0], *kinds[1], *kinds[2]]
    counted = np.arange(math.prod(length[name] for name in made)).reshape([length[name] for name in made])
    return Contraction(
        _in_order(first, [*groups, *kinds[1], *summed]),
        _in_order(second, [*groups, *kinds[2], *summed]),
        tuple(math.prod(length[name] for name in kind) for kind in kinds),  # type: ignore[arg-type]
        [int(number) for number in counted.transpose([made.index(name) for name in out]).reshape(-1)],
        tuple(sizes[name] for name in out),
    )


def _in_order(axes: Axes, order: Sequence[Hashable]) -> list[int]:
    names = list(axes)
    numbers = column_numbers(tuple(axes.values())).transpose([names.index(name) for name in order])
    return [int(number) for number in numbers.reshape(-1)]


def elementwise_contraction(first: Dims, second: Dims) -> Contraction | None:
    """Return how the product of two values, number by number, is one of matrices.

    An axis of size 1 that is stretched belongs to the other value alone.
    """
    out = broadcast(first, second)
    return None if out is None else contraction(_kept(first, out), _kept(second, out), range(len(out)))


def _kept(dims: Dims, out: Dims) -> Axes:
    """Return the axes that are not stretched to those of a result, named by their place in it."""
    start = len(out) - len(dims)
    return {start + axis: size for axis, size in enumerate(dims) if size == out[start + axis]}


def matrix_contraction(first: Dims, second: Dims) -> Contraction | None:
    """Return how a MatMul of two values is one of matrices; the axes before the last two are broadcast."""
    if len(first) < 3 or len(second) < 3:
        return None
    batch = broadcast(first[:-2], second[:-2]) if _has_rows(first[:-2]) and _has_rows(second[:-2]) else None
    if batch is None:
        return None
    one: Axes = {**_kept(first[:-2], batch), "row": first[-2], "sum": first[-1]}
    other: Axes = {**_kept(second[:-2], batch), "sum": second[-2], "column": second[-1]}
    return contraction(one, other, [*range(len(batch)), "row", "column"])


def _has_rows(dims: Dims) -> bool:
    return any(isinstance(size, Rows) for size in dims)
