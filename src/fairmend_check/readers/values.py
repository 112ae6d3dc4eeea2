"""Values of a file that is read, and what readers of all formats do with them: steps of a graph.

A value is a row of numbers, in the order of its axes (`axes`). Whatever only moves numbers is done to the numbers 0, 1,
2, … of the columns, by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.operations.product import Product
from fairmend_check.readers.axes import Dims, Factors, Places, places, plain, rows_axis


@dataclass(frozen=True)
class Value:
    """A value of a graph, and its axes."""

    value: int
    dims: Dims


V = TypeVar("V", bound=Value)


class Values:
    """The steps of a graph; at most so many numbers are moved at once."""

    def __init__(self, graph: Graph, most: int) -> None:
        self.graph, self._most = graph, most

    def moved(self, value: V, move: Callable[[Places], Places], axis: int | None = None) -> V:
        """Return a value with its numbers moved, chosen or repeated; ``axis`` is then that of the rows."""
        at, numbers = rows_axis(value.dims), np.asarray(move(places(value.dims)))
        if numbers.size > self._most:
            raise CheckError("too many numbers are chosen of a value")
        to = at if axis is None else axis
        dims = tuple(value.dims[at] if each == to else size for each, size in enumerate(numbers.shape))
        return replace(value, value=self.graph.columns(value.value, numbers.reshape(-1).tolist()), dims=dims)

    def along(self, value: V, axis: int, compute: Callable[[int], int]) -> V:
        """Return what ``compute`` gives for the numbers along an axis side by side; they stay where they are."""
        numbers = np.moveaxis(places(value.dims), axis, -1).reshape(-1)
        made = compute(self.graph.columns(value.value, numbers.tolist()))
        return replace(value, value=self.graph.columns(made, np.argsort(numbers).tolist()))

    def product(self, first: Value, second: Value, how: Factors) -> Value:
        """Return the products of two values."""
        a = self.graph.columns(first.value, how.left.tolist())
        b = self.graph.columns(second.value, how.right.tolist())
        made = self.graph.apply(Product(*how.sizes), a, b)
        return Value(self.graph.columns(made, how.back.tolist()), how.dims)

    def negative(self, value: int) -> int:
        """Return the negative numbers."""
        return self.graph.norm(value, scaling(0.0, -1.0, None))

    def inverse(self, value: int) -> int:
        """Return 1 divided by the numbers."""
        return self.graph.function(value, Activation("reciprocal"))

    def parts(self, value: Value, axes: Sequence[int]) -> list[int]:
        """Return the numbers at each place of these axes."""
        rest = [axis for axis in range(len(value.dims)) if axis not in axes]
        size = int(np.prod([plain(value.dims)[axis] for axis in rest]))
        numbers = places(value.dims).transpose([*axes, *rest]).reshape(-1, size)
        return [self.graph.columns(value.value, part.tolist()) for part in numbers]

    def total(self, values: Sequence[int], *, mean: bool) -> int:
        """Return the sum of values, or their mean."""
        if len(values) == 1:
            return values[0]
        found = self.graph.sum(*values)
        return self.graph.norm(found, scaling(0.0, 1 / len(values), None)) if mean else found

    def multiplied(self, values: Sequence[int]) -> int:
        """Return the product of values, one after the other: a product of products has errors of every order."""
        found = values[0]
        for other in values[1:]:
            found = self.graph.apply(Product(self.graph.width(found)), found, other)
        return found

    def largest(self, values: Sequence[int], *, smallest: bool) -> int:
        """Return the largest of values: the larger of b and those before it, a, is b + relu(a - b)."""
        found = values[0]
        for other in values[1:]:
            more = self.graph.function(self.graph.sum(found, self.negative(other)), Activation("relu"))
            found = self.graph.sum(found, self.negative(more)) if smallest else self.graph.sum(other, more)
        return found

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Return values side by side along an axis."""
        starts = np.cumsum([0, *(self.graph.width(each.value) for each in values)])
        numbers = [places(each.dims) + start for each, start in zip(values, starts, strict=False)]
        whole = np.concatenate(numbers, axis=axis)
        joined = self.graph.concatenate(*(each.value for each in values))
        dims = tuple(whole.shape[axis] if each == axis else size for each, size in enumerate(values[0].dims))
        return Value(self.graph.columns(joined, whole.reshape(-1).tolist()), dims)

    def looked_up(self, value: int, table: NDArray[Any]) -> int:
        """Return the rows of a table that all columns name."""
        columns = [self.graph.columns(value, [column]) for column in range(self.graph.width(value))]
        return self.graph.concatenate(*(self.graph.lookup(column, table) for column in columns))
