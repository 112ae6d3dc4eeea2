"""Tensors of a model, and what its operators compute of them, as steps of a graph: once, for all formats.

A tensor has numbers for each row of the input, under any axes, of which one is that of the rows (see `axes`). To
reshape, choose, stack and transpose only moves numbers: what NumPy does to an array is done to the numbers of columns.
The reader of a format finds out which of these operators a node or layer is, and how its file names the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Normalise, Product, Sum
from fairmend.network.formats.axes import (
    Contraction,
    Count,
    Dims,
    Ints,
    broadcast,
    column_numbers,
    contraction,
    follow,
    lengths,
    matrix_names,
    rows_axis,
    shown,
    unstretched,
    with_rows,
)
from fairmend.network.formats.build import GraphBuilder, Value, unsupported

Bools = npt.NDArray[np.bool_]
Labels = Sequence[Hashable]
MOST = 2**26  # numbers of a row that are chosen or repeated
MOST_FACTORS = 16  # of a product along axes
MOST_COMPARED = 64  # numbers of which the largest is found, one after the other
POWERS = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
SUMS = {  # along axes: what is added up, and what is taken of the sum
    "L1": ("abs", "identity"),
    "L2": ("square", "sqrt"),
    "SumSquare": ("square", "identity"),
    "LogSum": ("identity", "log"),
    "LogSumExp": ("exp", "log"),
}
MASKED = "reads masked scores, -infinity, which only a softmax may read"


def hides(mask: npt.NDArray[Any], dtype: npt.DTypeLike) -> Bools:
    """Return where a mask that is added to scores, or fills them, leaves them out: -infinity, or the least number."""
    return np.asarray(mask <= -np.finfo(dtype).max)


@dataclass(eq=False)
class Tensor:
    """Numbers for each row: the values ``parts`` side by side, with the axes ``dims``.

    ``whole`` says whether they are whole numbers, which only look-ups may read; ``left_out`` which of them, in the axes
    of the tensor, are -infinity instead, which only a softmax may read.
    """

    parts: tuple[Value, ...]
    dims: Dims
    whole: bool = field(default=False, kw_only=True)
    left_out: Bools | None = field(default=None, kw_only=True)

    @property
    def value(self) -> Value:
        """The one value that it is."""
        (value,) = self.parts
        return value

    @property
    def width(self) -> int:
        """How many numbers there are for each row."""
        return sum(part.width for part in self.parts)

    @property
    def row_axis(self) -> int:
        """The axis of the rows."""
        return rows_axis(self.dims)

    def shape(self) -> str:
        """Return the shape for messages."""
        return shown(self.dims)


T = TypeVar("T", bound=Tensor)


class Place(Generic[T]):
    """A place in a model, with the operators on tensors that it may have; ``where`` names it in messages."""

    steps: GraphBuilder
    where: str
    most_terms = 2**13  # that a sum along axes adds up

    def refuse(self, why: str) -> FairmendError:
        """Return the error that names this place."""
        return unsupported(self.steps.source, self.where, why)

    def made(self, value: Value, dims: Dims, *of: T) -> T:
        """Return a new value as a tensor; ``of`` are those of the same columns that it is computed of."""
        raise NotImplementedError

    def derived(self, x: T, parts: tuple[Value, ...], dims: Dims) -> T:
        """Return numbers of a tensor under other axes."""
        return replace(x, parts=parts, dims=dims, left_out=None)

    def numbers(self, x: T) -> T:
        """Return a tensor that may be computed with."""
        if x.left_out is not None:
            raise self.refuse(MASKED)
        return x

    def flat(self, x: T) -> Value:
        """Return the numbers of a tensor as one value."""
        return self.steps.concatenate(self.where, x.parts)

    def along(self, x: T, axis: int, why: str = "") -> int:
        """Return an axis counted from the front; refuse that of the rows, and one that there is not."""
        if not -len(x.dims) <= axis < len(x.dims) or axis % len(x.dims) == x.row_axis:
            raise self.refuse(why or f"is along axis {axis} of {x.shape()}")
        return axis % len(x.dims)

    # Numbers that are moved.

    def view(self, x: T, dims: Dims) -> T:
        """Return the same numbers under other axes."""
        found = self.derived(x, x.parts, dims)
        found.left_out = None if x.left_out is None else x.left_out.reshape(lengths(dims))
        return found

    def select(self, x: T, numbers: Ints, dims: Dims) -> T:
        """Return the columns with these numbers, as a tensor with these axes."""
        if not 0 < numbers.size <= MOST:
            chooses = f"makes {numbers.size:,} numbers of a row; at most {MOST:,} are read"
            raise self.refuse(chooses if numbers.size else "chooses no numbers")
        flat = numbers.reshape(-1)
        found = self.derived(x, self._parts(x, flat.tolist()), dims)
        found.left_out = None if x.left_out is None else x.left_out.reshape(-1)[flat].reshape(lengths(dims))
        return found

    def _parts(self, x: T, numbers: list[int]) -> tuple[Value, ...]:
        """Return columns part by part, so that what was put side by side comes apart again."""
        ends = np.cumsum([part.width for part in x.parts])
        owners = np.searchsorted(ends, numbers, side="right").tolist()
        runs: list[tuple[int, list[int]]] = []
        for owner, number in zip(owners, numbers, strict=True):
            if not runs or runs[-1][0] != owner:
                runs.append((owner, []))
            runs[-1][1].append(number - (int(ends[owner]) - x.parts[owner].width))
        if len(runs) > len(x.parts):
            return (self.steps.columns(self.flat(x), self.where, numbers),)
        return tuple(self.steps.columns(x.parts[owner], self.where, chosen) for owner, chosen in runs)

    def moved(self, x: T, move: Callable[[Ints], Any], why: str = "") -> T:
        """Return what a move does to the numbers of a tensor, given as what it does to an array of all rows."""
        return self._placed(x, *self._followed(x, move, why))

    def chosen(self, x: T, move: Callable[[Ints], Any], why: str = "") -> T:
        """Return the numbers of a tensor that a move chooses, as new numbers even if they are all of them."""
        return self.select(x, *self._followed(x, move, why))

    def _followed(self, x: T, move: Callable[[Ints], Any], why: str) -> tuple[Ints, Dims]:
        try:
            return follow(x.dims, move)
        except (ValueError, IndexError, TypeError) as error:
            raise self.refuse(why or f"would mix the {x.width} numbers of different rows of {x.shape()}") from error

    def _placed(self, x: T, numbers: Ints, dims: Dims) -> T:
        """Return the columns with these numbers; all of them in order are a view."""
        whole = np.array_equal(numbers.reshape(-1), np.arange(x.width))
        return self.view(x, dims) if whole else self.select(x, numbers, dims)

    def within(self, x: T, axis: int, move: Callable[[Ints], Any]) -> T:
        """Return what a move does to the numbers of a tensor, which keeps the rows along one axis."""
        numbers = move(column_numbers(x.dims))
        return self.select(x, numbers, with_rows(numbers.shape, axis, x.dims[x.row_axis]))

    def reshaped(self, x: T, sizes: Sequence[int | Count], why: str = "") -> T:
        """Return a tensor under axes of these sizes, in which -1 stands for what is left."""

        def reshape(array: Ints) -> Ints:
            rows = array.size // x.width
            return array.reshape([size.times * rows if isinstance(size, Count) else size for size in sizes])

        return self.moved(x, reshape, why)

    def transposed(self, x: T, order: Sequence[int]) -> T:
        """Return a tensor with its axes in another order."""
        return self.within(x, list(order).index(x.row_axis), lambda numbers: numbers.transpose(order))

    def stretched(self, x: T, dims: Dims) -> T:
        """Return a tensor with its axes of size 1 repeated, to these sizes; axes before the first have size 1."""
        if x.dims == dims:
            return x
        return self._placed(x, np.broadcast_to(column_numbers(x.dims), lengths(dims)), dims)

    def together(self, tensors: Sequence[T]) -> list[T]:
        """Return tensors with the same axes: those of size 1 are stretched."""
        dims = tensors[0].dims
        try:
            for each in tensors[1:]:
                dims = broadcast(dims, each.dims)
        except ValueError as error:
            raise self.refuse(str(error)) from error
        return [self.stretched(each, dims) for each in tensors]

    def joined(self, tensors: Sequence[T], axis: int) -> T:
        """Return tensors side by side along one axis."""
        first = tensors[0]
        alike = {(len(each.dims), *each.dims[:axis], None, *each.dims[axis + 1 :]) for each in tensors}
        if len(alike) > 1:
            shapes = " and ".join(each.shape() for each in tensors)[:200]
            raise self.refuse(f"puts tensors of shapes {shapes} side by side along axis {axis}")
        starts = np.cumsum([0, *(each.width for each in tensors)]).tolist()
        numbers = [column_numbers(each.dims, start) for each, start in zip(tensors, starts, strict=False)]
        together = np.concatenate(numbers, axis)
        flat = self.derived(first, self._side_by_side(tensors), (first.dims[first.row_axis], starts[-1]))
        return self._placed(flat, together, with_rows(together.shape, first.row_axis, first.dims[first.row_axis]))

    def _side_by_side(self, tensors: Sequence[T]) -> tuple[Value, ...]:
        return (self.steps.concatenate(self.where, [self.flat(self.numbers(each)) for each in tensors]),)

    # Sums, factors and functions.

    def add(self, tensors: Sequence[T]) -> T:
        """Return the sum of tensors; axes of size 1 are stretched."""
        wide = self.together([self.numbers(each) for each in tensors])
        if len(wide) == 1:
            return wide[0]
        value = self.steps.apply(self.where, Sum(), [self.flat(each) for each in wide])
        return self.made(value, wide[0].dims, *tensors)

    def scaled(self, x: T, **parts: Any) -> T:
        """Return (x − mean) / divisor · gain + shift, of which parts may be left out."""
        return self.made(self.steps.scale(self.flat(self.numbers(x)), self.where, **parts), x.dims, x)

    def function(self, x: T, name: str, slope: float = 0.0, parameters: Any = ()) -> T:
        """Return an elementwise function of a tensor."""
        tensor = self.numbers(x)
        try:
            value = self.steps.function(self.flat(tensor), self.where, Activation(name, slope, tuple(parameters)))
        except FairmendError as error:
            raise self.refuse(f"is not supported: {error}") from error
        return self.made(value, tensor.dims, tensor)

    def total(self, x: T, axes: Sequence[int], *, mean: bool = False, keep: bool = False) -> T:
        """Return the sum or the mean along axes, which stay with size 1 if they are kept."""
        parts = self._along(self.numbers(x), axes, keep, self.most_terms, "adds up")
        found = self.add(parts)
        return self.scaled(found, divisor=float(len(parts))) if mean and len(parts) > 1 else found

    def power(self, x: T, exponent: float) -> T:
        """Return a power of a tensor."""
        if exponent == 3:  # as programs compute it
            return self.times(self.function(x, "square"), x)
        if exponent not in (1, *POWERS):
            raise self.refuse("is a power other than 3, 2, 1, 0.5, -0.5 and -1")
        return self.numbers(x) if exponent == 1 else self.function(x, POWERS[exponent])

    def summed(self, x: T, kind: str, axes: Sequence[int], keep: bool) -> T:
        """Return a norm, or the logarithm of a sum, along axes.

        Programs subtract the largest number before they take exp, and add it at the end. Of a few numbers, they round
        no more in that than the units of exp and log in the steps here.
        """
        before, after = SUMS[kind]
        count = math.prod(lengths(x.dims)[axis] for axis in axes)
        if kind == "LogSumExp" and count > MOST_COMPARED:
            raise self.refuse(f"takes exp of {count:,} numbers; at most {MOST_COMPARED:,} are read")
        return self.function(self.total(self.function(x, before), axes, keep=keep), after)

    def multiplied(self, x: T, axes: Sequence[int], *, keep: bool = False) -> T:
        """Return the product of the numbers along axes, multiplied one after the other."""
        found, *others = self._along(self.numbers(x), axes, keep, MOST_FACTORS, "multiplies")
        for other in others:
            found = self.times(found, other)
        return found

    def largest(self, x: T, axes: Sequence[int], *, smallest: bool, keep: bool = False) -> T:
        """Return the largest, or smallest, numbers along axes, found one after the other."""
        found, *others = self._along(self.numbers(x), axes, keep, MOST_COMPARED, "compares")
        for other in others:
            found = self.larger(found, other, smallest=smallest)
        return found

    def larger(self, a: T, b: T, *, smallest: bool) -> T:
        """Return the larger of two tensors, b + relu(a - b), or the smaller, a - relu(a - b)."""
        more = self.function(self.add([a, self.scaled(b, gain=-1.0)]), "relu")
        return self.add([a, self.scaled(more, gain=-1.0)] if smallest else [b, more])

    def _along(self, x: T, axes: Sequence[int], keep: bool, most: int, what: str) -> list[T]:
        """Return the parts of a tensor along axes."""
        sizes, rest = lengths(x.dims), [axis for axis in range(len(x.dims)) if axis not in axes]
        count = math.prod(sizes[axis] for axis in axes)
        if count > most:
            raise self.refuse(f"{what} {count:,} numbers; at most {most:,} are read")
        numbers = column_numbers(x.dims).transpose([*axes, *rest]).reshape(count, -1)
        dims = tuple(1 if axis in axes else size for axis, size in enumerate(x.dims) if keep or axis not in axes)
        return [self.select(x, part, dims) for part in numbers]

    def normalised(self, x: T, axis: int, epsilon: float, *, centred: bool = True) -> T:
        """Return (x - mean) / sqrt(variance + epsilon) over the axes from one on."""
        if not -len(x.dims) <= axis < len(x.dims) or x.row_axis >= axis % len(x.dims):
            raise self.refuse(f"normalises {x.shape()} from axis {axis} on")
        return self.grouped(x, math.prod(lengths(x.dims[axis % len(x.dims) :])), epsilon, centred=centred)

    def grouped(self, x: T, size: int, epsilon: float, *, centred: bool = True) -> T:
        """Return each group of so many numbers, side by side, less their mean and divided by their deviation."""
        value = self.steps.apply(self.where, Normalise(size, epsilon, centred), [self.flat(self.numbers(x))])
        return self.made(value, x.dims)

    # Products.

    def contract(self, a: T, a_names: Labels, b: T, b_names: Labels, out: Labels, *, stretch: bool = True) -> T:
        """Return the products of two tensors, added up over the axes that are not in ``out``; axes have names."""
        axes = [dict(zip(names, x.dims, strict=True)) for x, names in ((a, a_names), (b, b_names))]
        thin = unstretched(*axes) if stretch else axes
        if any(len(names) != len(set(names)) for names in (a_names, b_names, out)):
            raise self.refuse("takes a diagonal")
        sizes = {**axes[0], **axes[1], **thin[0], **thin[1]}
        known = [name for name in out if name in thin[0] or name in thin[1]]
        try:
            how = contraction(thin[0], thin[1], known)
        except ValueError as error:
            raise self.refuse(f"{error} ({a.shape()} and {b.shape()})") from error
        found = self.product(self.numbers(a), self.numbers(b), how)
        return self.view(found, tuple(sizes[name] for name in out)) if stretch else found

    def product(self, a: T, b: T, how: Contraction) -> T:
        """Return the product of the matrices in two tensors."""
        left = self.flat(self.select(a, np.array(how.first), (a.dims[a.row_axis], len(how.first))))
        right = self.flat(self.select(b, np.array(how.second), (b.dims[b.row_axis], len(how.second))))
        made = self.steps.apply(self.where, Product(*how.sizes), [left, right])
        return self.select(self.made(made, how.dims), np.array(how.result), how.dims)

    def times(self, a: T, b: T) -> T:
        """Return the product number by number; axes of size 1 are stretched."""
        names: list[list[Hashable]] = [list(range(-len(x.dims), 0)) for x in (a, b)]
        return self.contract(a, names[0], b, names[1], max(names, key=len))

    def matmul(self, a: T, b: T) -> T:
        """Return the product of matrices over the last two axes; those before them are stretched."""
        first, second, out = matrix_names(a.dims, b.dims)
        return self.contract(a, first, b, second, out)

    # Softmax, and what it leaves out.

    def masked(self, x: T, mask: Bools) -> T:
        """Return a tensor with -infinity where a mask says so, in its axes, which a softmax leaves out."""
        found = self.derived(x, x.parts, x.dims)
        found.left_out = np.broadcast_to(mask, lengths(x.dims))
        return found

    def filled(self, x: T, mask: Bools, number: Any) -> T:
        """Return a tensor with numbers where a mask says so, in its axes."""
        flat = np.broadcast_to(mask, lengths(x.dims)).reshape(-1)
        return self.scaled(x, gain=np.where(flat, 0.0, 1.0), shift=np.where(flat, number, 0.0))

    def softmax(self, x: T, axis: int, *, logarithm: bool = False) -> T:
        """Return the softmax along an axis; its logarithm is for the output alone."""
        left_out = x.left_out
        if left_out is not None and logarithm:
            raise self.refuse("has masked scores, and is a logarithm")
        order = [*(each for each in range(len(x.dims)) if each != axis), axis]
        last = self.transposed(replace(x, left_out=None), order)
        size = lengths(last.dims)[-1]
        if left_out is None:
            made = self.steps.softmax(self.flat(self.numbers(last)), self.where, None if logarithm else size)
        else:
            made = self._kept_softmax(self.flat(last), ~left_out.transpose(order).reshape(-1, size))
        return self.transposed(self.made(made, last.dims, last), np.argsort(order).tolist())

    def _kept_softmax(self, x: Value, kept: Bools) -> Value:
        """Return the softmax of the numbers that a mask keeps (groups, size), and 0 times the others.

        Groups that keep the same numbers are one softmax, over these alone, in the order of the first of them. The
        others count: a program adds -infinity to them, and makes NaN of what has overflowed, or it adds the least
        number, and their share is 0 as long as they are not as large. So they stand beside one that is kept.
        """
        if not kept.any(axis=1).all():
            raise self.refuse("has a mask that leaves out everything that a token attends to; leave out that token")
        where, numbers = self.where, np.arange(kept.size).reshape(kept.shape)
        parts, places, start = [], np.full(kept.shape, -1), 0
        for first, own in enumerate(kept):
            if places[first].max() >= 0:
                continue
            groups = np.flatnonzero((kept == own).all(axis=1))
            chosen = numbers[np.ix_(groups, np.flatnonzero(own))]
            part = self.steps.columns(x, where, chosen.reshape(-1).tolist())
            parts.append(self.steps.softmax(part, where, chosen.shape[1]))
            places[np.ix_(groups, np.flatnonzero(own))] = start + np.arange(chosen.size).reshape(chosen.shape)
            start += chosen.size
        if not kept.all():
            beside = numbers[np.arange(len(kept)), kept.argmax(axis=1)]
            first, others = (each[~kept].tolist() for each in (np.broadcast_to(beside[:, None], kept.shape), numbers))
            pair = [self.steps.columns(x, where, chosen) for chosen in (others, first)]
            rest = self.steps.apply(where, Sum(), pair)
            parts.append(self.steps.scale(rest, where, gain=0.0))
            places[~kept] = start + np.arange(rest.width)
        together = self.steps.concatenate(where, parts)
        return self.steps.columns(together, where, places.reshape(-1).tolist())
