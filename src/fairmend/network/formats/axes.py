"""Axes of the tensors of a model, of which one is that of the rows.

A tensor has so many numbers for each row, its columns, in the order of its axes. Whatever only moves them is done to
their numbers 0, 1, 2, …, in an array of these axes; in it, the axis of the rows has the length of what is merged with
the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
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

    __repr__ = __str__


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
Axes = dict[Hashable, "int | Rows"]  # by name
Labels = list[Hashable]

_MIXES = "mixes the rows"


def lengths(dims: Dims) -> tuple[int, ...]:
    """Return how many entries of a row each axis has."""
    return tuple(size.entries if isinstance(size, Rows) else size for size in dims)


def rows_axis(dims: Dims) -> int:
    """Return which axis is that of the rows."""
    return next(axis for axis, size in enumerate(dims) if isinstance(size, Rows))


def column_numbers(dims: Dims, start: int = 0) -> Ints:
    """Return the numbers of a row, counted from one on, in the axes of a tensor."""
    return np.arange(start, start + math.prod(lengths(dims)), dtype=np.int64).reshape(lengths(dims))


def with_rows(sizes: Sequence[int], axis: int, rows: Rows | int) -> Dims:
    """Return the sizes of an array as axes of a value, of which one is that of the rows."""
    return tuple(rows if each == axis else int(size) for each, size in enumerate(sizes))


def sizes_of(dims: Dims) -> list[int | Count]:
    """Return the sizes of axes, as the Shape of a value has them."""
    return [Count(size.entries) if isinstance(size, Rows) else size for size in dims]


def shown(dims: Sequence[Any]) -> str:
    """Return axes or sizes for messages."""
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def follow(dims: Dims, move: Callable[[Ints], Any]) -> tuple[Ints, Dims]:
    """Return what ``move`` does to tensors of these axes: the columns of its result, in an array, and its axes.

    It moves, chooses and repeats the numbers of an array of all rows, and is done to those of two rows and of three. A
    ValueError says that it mixes rows, or depends on how many there are.
    """
    width = math.prod(lengths(dims))
    two, three = (np.asarray(move(_of_rows(dims, count))) for count in (2, 3))
    axis, rows = _rows_in(two, three, width)
    columns, again = (_of_first_row(array, axis, rows, width) for array in (two, three))
    if not np.array_equal(columns, again):
        raise ValueError(_MIXES)
    return columns, with_rows(columns.shape, axis, rows)


def _rows_in(two: Ints, three: Ints, width: int) -> tuple[int, Rows]:
    """Return which axis of the numbers of two rows and of three has the rows, and what is merged with them there."""
    differ = [axis for axis, (a, b) in enumerate(zip(two.shape, three.shape, strict=False)) if a != b]
    if (
        not two.size
        or two.ndim != three.ndim
        or len(differ) != 1
        or 3 * two.shape[differ[0]] != 2 * three.shape[differ[0]]
    ):
        raise ValueError(_MIXES)
    times, along = two.shape[differ[0]] // 2, np.moveaxis(two, differ[0], 0)
    rows = along.reshape(2 * times, -1)[:, 0] // width
    after = int(np.argmax(rows != rows[0]))  # so many entries of one row follow each other
    if not after or times % after:
        raise ValueError(_MIXES)
    return differ[0], Rows(times // after, after)


def _of_first_row(array: Ints, axis: int, rows: Rows, width: int) -> Ints:
    """Return the numbers of the first row; ValueError if those of the others are not the same columns."""
    count = array.shape[axis] // rows.entries
    apart = array.reshape(*array.shape[:axis], rows.before, count, rows.after, *array.shape[axis + 1 :])
    columns = apart.take([0], axis + 1)
    every = width * np.arange(count).reshape(count, *[1] * (array.ndim - axis))
    if columns.max() >= width or not np.array_equal(apart, columns + every):
        raise ValueError(_MIXES)
    return columns.reshape(*array.shape[:axis], rows.entries, *array.shape[axis + 1 :])


def _of_rows(dims: Dims, count: int) -> Ints:
    """Return the numbers of so many rows, counted row by row, in the axes of a tensor."""
    at, columns = rows_axis(dims), column_numbers(dims)
    rows = dims[at]
    assert isinstance(rows, Rows)
    apart = columns.reshape(*columns.shape[:at], rows.before, 1, rows.after, *columns.shape[at + 1 :])
    every = columns.size * np.arange(count).reshape(count, *[1] * (columns.ndim - at))
    return (apart + every).reshape(*columns.shape[:at], rows.entries * count, *columns.shape[at + 1 :])


def broadcast(first: Dims, second: Dims) -> Dims:
    """Return the axes of what two tensors give together; ValueError if they do not fit."""
    count = max(len(first), len(second))
    both = [(1,) * (count - len(dims)) + tuple(dims) for dims in (first, second)]
    found = tuple(b if a == 1 else a for a, b in zip(*both, strict=True))
    fits = all(size in (1, whole) for dims in both for size, whole in zip(dims, found, strict=True))
    if not fits or sum(isinstance(size, Rows) for size in found) != 1:
        raise ValueError(f"combines shapes {shown(first)} and {shown(second)}")
    return found


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


def contraction(first: Axes, second: Axes, out: Sequence[Hashable]) -> Contraction:
    """Return how the sum of products over all axes that are not in ``out`` is one of matrices.

    Axes have names. Those of the result that both have are groups, those of one alone are rows or columns. The second
    factor may have no axis of rows: weights. A ValueError says what does not fit.
    """
    sizes = {**second, **first}
    summed = [name for name in first if name not in out]
    for name, size in second.items():
        if sizes[name] != size:
            raise ValueError(f"multiplies axes of {sizes[name]} and {size} numbers")
    single = [name for name in (*summed, *second) if name not in out and not (name in first and name in second)]
    if single or any(name not in sizes for name in out):
        raise ValueError("adds up an axis that only one factor has")
    rows = {name for axes in (first, second) for name, size in axes.items() if isinstance(size, Rows)}
    if len(rows) != 1 or not rows <= first.keys() or not rows <= {*out}:
        raise ValueError("multiplies the rows with each other, other than row by row")
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


def unstretched(first: Axes, second: Axes) -> tuple[Axes, Axes]:
    """Return the axes of two factors without those of size 1 that are stretched to an axis of the other."""
    both = [
        {name: size for name, size in axes.items() if size != 1 or other.get(name, 1) == 1}
        for axes, other in ((first, second), (second, first))
    ]
    return both[0], both[1]


def matrix_names(first: Dims, second: Dims) -> tuple[Labels, Labels, Labels]:
    """Return the names of the axes of two factors of a product of matrices, and of its result.

    The axes before the last two are stretched to each other; a factor of one axis is a row or a column.
    """
    batch = max(len(first), len(second), 2) - 2
    groups = [list(range(batch - max(len(dims) - 2, 0), batch)) for dims in (first, second)]
    row, column = ["row"] * (len(first) > 1), ["column"] * (len(second) > 1)
    return [*groups[0], *row, "sum"], [*groups[1], "sum", *column], [*range(batch), *row, *column]


def last_factor(names: Sequence[Sequence[Hashable]], out: Sequence[Hashable]) -> int:
    """Return which of three factors is multiplied last: the last one that has all axes that are added up.

    The products of the two others are then not added up before: any order of programs rounds less. A ValueError says
    that there is none.
    """
    summed = {name for each in names for name in each} - {*out}
    for place in reversed(range(len(names))):
        if summed <= {*names[place]}:
            return place
    raise ValueError("has no factor with all axes that are added up; write it as several")
