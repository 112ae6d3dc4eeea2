"""Axes of values in a file: one of them is that of the rows, the others are numbers of a row under some shape.

A value is a row of numbers, in the order of its axes. Whatever only moves numbers (reshape, transpose, slice, expand)
is done to the numbers 0, 1, 2, … of the columns, by NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The axis of the rows, with which others may be merged: those before it, and those after it.

    A row then has so many entries in it: ``before`` times as many, far apart, and ``times`` as many side by side.
    """

    times: int = 1
    before: int = 1

    @property
    def entries(self) -> int:
        """How many entries each row has in the axis."""
        return self.before * self.times


Dims = tuple["int | Rows", ...]


def plain(dims: Dims) -> tuple[int, ...]:
    """Return the sizes of the axes for one row."""
    return tuple(size.entries if isinstance(size, Rows) else size for size in dims)


def rows_axis(dims: Dims) -> int:
    """Return which axis is that of the rows."""
    return next(axis for axis, size in enumerate(dims) if isinstance(size, Rows))


def places(dims: Dims) -> Places:
    """Return the numbers of the columns, in the axes of a value."""
    return np.arange(math.prod(plain(dims)), dtype=np.int64).reshape(plain(dims))


def axis_of(axis: int, dims: Dims, what: str) -> int:
    """Return an axis counted from the front; refuse one that there is not, and that of the rows."""
    if not -len(dims) <= axis < len(dims) or isinstance(dims[axis], Rows):
        raise CheckError(f"node {what} is along axis {axis}, which cannot be checked")
    return axis % len(dims)


def reshaped(dims: Dims, shape: Sequence[int | Rows]) -> Dims:
    """Return the axes after a reshape to this shape; refuse one that mixes rows. -1 stands for what is left.

    Whatever is before the rows stays before them, in axes of its own or merged with theirs; so does what is after them.
    """
    at, rows = rows_axis(dims), dims[rows_axis(dims)]
    assert isinstance(rows, Rows)
    before, after = math.prod(plain(dims[:at])) * rows.before, rows.times * math.prod(plain(dims[at + 1 :]))
    named = [axis for axis, size in enumerate(shape) if isinstance(size, Rows)]
    unknown = [axis for axis, size in enumerate(shape) if size == -1]
    axis = next(iter(named or unknown), len(shape) - 1)
    sizes = [1 if isinstance(size, Rows) else size for size in shape]
    if named and unknown:
        entries = math.prod(plain(dims))
        given = plain((shape[axis],))[0] * math.prod(size for size in sizes if size != -1)
        sizes[unknown[0]] = entries // given if given > 0 else 0
    left, right = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
    if len(named) < 2 and len(unknown) < 2 and left > 0 and right > 0 and not before % left and not after % right:
        found, size = Rows(after // right, before // left), shape[axis]
        if size == -1 or (
            isinstance(size, Rows) and size.entries == found.entries
        ):  # a size does not say which come first
            return (*sizes[:axis], found, *sizes[axis + 1 :])
    raise CheckError("node Reshape changes the shape of a value, which cannot be checked")


def broadcast(first: Dims, second: Dims) -> Dims:
    """Return the axes of a combination of two values; refuse what does not fit."""
    if len(first) != len(second):
        raise CheckError("values of different numbers of axes are combined")
    found: list[int | Rows] = []
    for a, b in zip(first, second, strict=True):
        if isinstance(a, Rows) != isinstance(b, Rows) or (a != b and 1 not in (a, b)):
            raise CheckError("values of axes that do not fit are combined")
        found.append(b if a == 1 else a)
    return tuple(found)


@dataclass(frozen=True)
class Factors:
    """How the product of two values is one of matrices: where the numbers of each are, and how many of each kind.

    ``left`` and ``right`` are the columns of both in the order (groups, rows, length) and (groups, columns, length),
    and ``back`` brings the products, in the order (groups, rows, columns), into the axes ``dims``.
    """

    left: Places
    right: Places
    sizes: tuple[int, int, int, int]
    back: Places
    dims: Dims


def factors(first: Dims, second: Dims, labels: tuple[str, str, str]) -> Factors:
    """Return how an einsum of two values is a product of matrices; ``labels`` name the axes of both and of the result.

    Axes of the result that both have are groups, those of one alone are rows or columns; others are summed over.
    """
    a, b, out = labels
    if len(a) != len(first) or len(b) != len(second) or not {*a, *b} >= {*out}:
        raise CheckError("values are multiplied that have other axes than those that are named")
    shapes: dict[str, int | Rows] = {}
    for names, dims in ((a, first), (b, second)):
        for name, size in zip(names, dims, strict=True):
            if shapes.setdefault(name, size) != size:
                raise CheckError("values of axes that do not fit are multiplied")
    rows_of = [name for name, size in shapes.items() if isinstance(size, Rows)]
    if len(rows_of) != 1 or not all(rows_of[0] in names for names in labels):
        raise CheckError("a product combines numbers of different rows")
    summed = [name for name in a if name in b and name not in out]
    if not {*out, *summed} >= {*a, *b}:
        raise CheckError("a product sums over an axis of one factor")
    groups = [name for name in out if name in a and name in b]
    rows, columns = [name for name in out if name not in b], [name for name in out if name not in a]
    length = {name: plain((shapes[name],))[0] for name in shapes}
    sizes = tuple(math.prod(length[name] for name in kind) for kind in (groups, rows, columns, summed))
    left = places(first).transpose([a.index(name) for name in (*groups, *rows, *summed)]).reshape(-1)
    right = places(second).transpose([b.index(name) for name in (*groups, *columns, *summed)]).reshape(-1)
    order = [*groups, *rows, *columns]
    made = np.arange(math.prod(sizes[:3])).reshape([length[name] for name in order])
    back = made.transpose([order.index(name) for name in out]).reshape(-1)
    return Factors(left, right, sizes, back, tuple(shapes[name] for name in out))  # type: ignore[arg-type]


def elementwise_factors(first: Dims, second: Dims) -> Factors:
    """Return how an elementwise product is one of matrices: an axis of size 1 is stretched to that of the other."""
    out = broadcast(first, second)
    names = "abcdefghijklmnopqrstuvwxyz"[: len(out)]
    kept = [[axis for axis, size in enumerate(dims) if size == out[axis]] for dims in (first, second)]
    labels = ["".join(names[axis] for axis in axes) for axes in kept]
    dims = [tuple(each[axis] for axis in axes) for each, axes in zip((first, second), kept, strict=True)]
    return factors(dims[0], dims[1], (labels[0], labels[1], names))


def matrix_factors(first: Dims, second: Dims) -> Factors:
    """Return how a MatMul of two values is one of matrices, with the axes before the last two broadcast."""
    if len(first) < 2 or len(first) != len(second):
        raise CheckError("node MatMul multiplies values of different numbers of axes")
    out = (*broadcast(first[:-2], second[:-2]), first[-2], second[-1])
    batch = "abcdefghijklmnopqrstuvw"[: len(out) - 2]
    found = []
    for dims, last in ((first, "yx"), (second, "xz")):
        kept = [axis for axis, size in enumerate(dims[:-2]) if size == out[axis]]
        found.append(("".join(batch[axis] for axis in kept) + last, (*(dims[axis] for axis in kept), *dims[-2:])))
    return factors(found[0][1], found[1][1], (found[0][0], found[1][0], batch + "yz"))
