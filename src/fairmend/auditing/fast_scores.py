"""Compute the lowest and highest score in each finite neighbourhood without building its points.

All points of a neighbourhood share the columns that do not vary. So the first affine layer is one product per input,
plus a small table over the values of the columns that vary; only the later layers run for every point. This regroups
sums, so a score differs from `Network.logits` in its last bits. `error` is a rigorous bound on that difference: if a
score is smaller, only the network itself can decide its sign. With links, all of this is done for each product of a
neighbourhood, in which features are independent.

`extremes` computes the scores, and spares those that cannot be the lowest or the highest; on a
GPU, `device_search` does that. The code uses one thread: blocks are below the size at which BLAS starts threads, and
two Python threads were no faster than one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import numpy.typing as npt

from fairmend.auditing.extremes import LaterLayers, RunningExtremes, search_lines, search_points
from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.network import Affine, Model, Network
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.neighbourhoods import build_hull
from fairmend.spec.products import Products, ReachableValues, encode_column

if TYPE_CHECKING:
    from fairmend.auditing.device_search import DeviceSearch  # PyTorch comes with it


_TOGETHER = 64  # rows that are compared as one
_TABLE = 65_536  # points in one table
_LINE = 24  # values in a line: of shorter ones, the ends and the middle of segments would be most of them
# Inputs whose neighbourhoods have the same shape share a table; fewer inputs than this are left out.
_SHARED = 4
# Compared with the bound's assumptions, this code may round each term of the first layer twice as often, and with a
# tolerance terms up to three times as large (an own value and a step away from it).
_ROUNDINGS, _ROUNDINGS_NEAR = 2, 2 * 3
# How many times the error of summing each layer the error of regrouping may be: where features are not scaled, tables
# are large, and more inputs would be left to the network than regrouping saves.
_REGROUPING = 10
_KNOWN = ("relu", "leaky_relu", "tanh", "sigmoid", "identity")
_FLOAT64 = 1e-14  # relative error of values prepared in float64
# Multiplications in one product: below the number at which BLAS starts threads. Numbers in a block of inputs: few
# enough for the cache.
_PRODUCTS, _NUMBERS = 250_000, 65_536


@dataclass(frozen=True, eq=False)
class Extremes:
    """The lowest and the highest score of each neighbourhood.

    Attributes
    ----------
    lowest, highest : (inputs,); NaN for inputs that were left out
    left_out : bool (inputs,); inputs whose neighbourhood shares its shape with too few others
    regrouping : (inputs,), what to add to the bounds on the error, for tables that replace the later layers' biases
    points : number of scores compared: all of the neighbourhoods that were not left out
    error : one bound on the error of all scores, less `regrouping`
    """

    lowest: FloatArray
    highest: FloatArray
    left_out: npt.NDArray[np.bool_]
    regrouping: Floats
    points: int
    error: float


class FastScores:
    """Evaluates a chain with one output over the finite neighbourhoods of a spec."""

    @staticmethod
    def knows(net: Model) -> TypeGuard[Network]:
        """Return whether the network is a chain with one output, and of functions whose slopes are from 0 to 1."""
        if not isinstance(net, Network):
            return False
        known = all(each.name in _KNOWN and each.slope <= 1 for each in net.activations)
        return net.outputs == 1 and net.is_chain and known

    def __init__(self, net: Network, spec: Spec, device: DeviceSearch | None = None) -> None:
        """Prepare everything that does not depend on the inputs; a device finds the same extremes."""
        self.net, self.spec, self._device = net, spec, device
        self._varying = [(f, spec.columns(f.name)) for f in spec.varying]
        self._near = any(f.tolerance for f, _ in self._varying)
        # The features whose values differ from product to product, in the order of the ends of a shape.
        tied = {name for link in spec.links for name in (*link.when, *link.then)}
        self._shaped = [f for f, _ in self._varying if f.tolerance or f.bands or f.name in tied]
        self._weight = net.affines[0].weight.astype(np.float64)
        gain = np.ones((1, 1))
        for affine in reversed(net.affines):
            gain = gain @ np.abs(affine.weight.astype(np.float64))
        self._gain = gain[0] * (1 + _FLOAT64 * 1000)
        self._bounds = KernelBounds(net)
        self._first, self._later = FirstLayer(net.affines[0], spec), LaterLayers(net)

    def extremes(self, X: FloatArray) -> Extremes:
        """Return the lowest and highest score in the neighbourhood of each of X (inputs, width)."""
        products = self.spec.products(X) if self._shaped else None
        count = len(X) if products is None else len(products.owner)
        lowest, highest = np.full(count, np.nan, X.dtype), np.full(count, np.nan, X.dtype)
        left_out, regrouping = np.zeros(count, dtype=np.bool_), np.zeros(count)
        base = self._first.base(X, products)
        error = self.error(X)
        points = 0
        for ends, rows in self._shapes(products):
            if not isinstance(rows, slice) and len(rows) < _SHARED:
                left_out[rows] = True
                continue
            tables = [self._steps(f, where, ends) for f, where in self._varying]
            mine = base if isinstance(rows, slice) else np.take(base, rows, axis=1)
            points += mine.shape[1] * math.prod(len(table) for table in tables)
            lowest[rows], highest[rows], regrouping[rows] = self._run(mine, tables, error)
        if products is not None and not products.single:
            # A product that was left out is NaN, and so is its neighbourhood then.
            lowest = np.minimum.reduceat(lowest, products.starts)
            highest = np.maximum.reduceat(highest, products.starts)
            left_out = np.logical_or.reduceat(left_out, products.starts)
            regrouping = np.maximum.reduceat(regrouping, products.starts)
        return Extremes(lowest, highest, left_out, regrouping, points, error)

    def error(self, X: FloatArray) -> float:
        """Return one bound on the error of all scores in the neighbourhoods of X (inputs, width), less `regrouping`."""
        lower, upper = (_over_rows(extreme, X).astype(np.float64) for extreme in (np.minimum, np.maximum))
        for feature, where in self._varying:
            ends = np.array([0.0, 1.0]) if feature.one_hot else feature.scaled(np.array(feature.bounds, np.float64))
            lower[where], upper[where] = np.minimum(lower[where], ends[0]), np.maximum(upper[where], ends[1])
        off = np.zeros(X.shape[1])
        for column, differences in self._offsets(X):
            off[column] = differences.max()
        return float(self._bound(lower[None], upper[None], off[None])[0])

    def errors(self, X: FloatArray) -> Floats:
        """Return a bound (inputs,) on the error around each of X (inputs, width): tighter than `error`, but slower."""
        lower, upper = build_hull(self._varying, X, self.spec.links)
        off = np.zeros(X.shape)
        for column, differences in self._offsets(X):
            off[:, column] = differences
        return self._bound(lower.astype(np.float64), upper.astype(np.float64), off)

    def _bound(self, lower: Floats, upper: Floats, off: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            lower, upper = lower - off, upper + off
            # That of the network and that of this code.
            roundings = (1, _ROUNDINGS_NEAR if self._near else _ROUNDINGS)
            own, here = (self._bounds.output_error(lower, upper, times)[:, 0] for times in roundings)
            bound = own + here + off @ self._gain
        return np.where(np.isnan(bound), np.inf, bound)

    def _offsets(self, X: FloatArray) -> Iterator[tuple[int, Floats]]:
        """Yield the columns that may differ here from those of the points, each with how far (inputs,)."""
        unit = float(np.finfo(X.dtype).eps) / 2
        for feature, where in self._varying:
            if feature.one_hot or not feature.varies:  # linked features are used exactly as in the points
                continue
            own = X[:, where.start].astype(np.float64)
            off = np.abs(own - feature.scaled(feature.nearest(X[:, where.start])))
            if np.any(off) or not feature.protected:
                largest = float(np.abs(feature.scaled(np.array(feature.bounds, np.float64))).max())
                off += (unit + _FLOAT64) * largest + float(np.finfo(X.dtype).tiny)
            yield where.start, off

    def _shapes(self, products: Products | None) -> Iterator[tuple[Ints, slice | Ints]]:
        """Yield the shapes of the products, each with the products that have it; without products, a single shape.

        A shape is the lowest and highest step that each feature with a tolerance can take, flat; a range cuts it off.
        Of bands and the features of links, it is the lowest and the highest value, or 0 and -1 for a single value of a
        linked one, which the base contains.
        """
        if products is None:
            yield np.zeros(0, np.int64), slice(None)
            return
        members = np.zeros(len(products.owner), dtype=np.int64)
        ends: list[Floats] = []
        for values in products.values:
            if values.feature not in self._shaped:
                continue
            if values.feature.tolerance:
                ends += [values.lowest - values.own, values.highest - values.own]
            elif values.feature.protected or values.feature.bands:
                ends += [values.lowest, values.highest]
            else:
                single = values.lowest == values.highest
                ends += [np.where(single, 0, values.lowest), np.where(single, -1, values.highest)]
        for end in ends:  # one by one, in numbers that stay below the square of the inputs
            distinct, which = np.unique(end, return_inverse=True)
            _, first, members = np.unique(members * len(distinct) + which, return_index=True, return_inverse=True)
        order = np.argsort(members, kind="stable")
        shapes = np.stack(ends, axis=1)[first].astype(np.int64)
        yield from zip(shapes, np.split(order, np.cumsum(np.bincount(members))[:-1]), strict=True)

    def _steps(self, feature: Feature, where: slice, ends: Ints) -> Floats:
        """Return what each value of a feature adds to the first layer (values, units)."""
        lo, hi = first, last = feature.bounds
        if feature in self._shaped:
            place = 2 * self._shaped.index(feature)
            first, last = ends[place], ends[place + 1]
        if first > last:
            return np.zeros((1, len(self._weight)))
        if feature.one_hot:
            steps = feature.by_category(self._weight[:, where], 0.0).T
            return np.ascontiguousarray(steps[int(first) : int(last) + 1])
        column = self._weight[:, where.start]
        if not feature.tolerance:
            encoded = feature.scaled(np.arange(first, last + 1, dtype=np.float64)).astype(self.net.dtype)
            return encoded.astype(np.float64)[:, None] * column
        low, high = feature.scaled(np.array([lo, hi], np.float64))
        steps = np.arange(first, last + 1) * ((high - low) / (hi - lo))
        return np.asarray(steps[:, None] * column)

    def _run(self, base: FloatArray, steps: Sequence[Floats], error: float) -> tuple[FloatArray, FloatArray, float]:
        """Return lowest and highest (inputs,), from base (units, inputs) and the steps of each varying feature.

        `error` bounds that of the scores, less what tables in place of biases add to it, which is the third result.
        """
        found = RunningExtremes(base.shape[1], base.dtype)
        sizes = [len(values) for values in steps]
        regrouping = 0.0
        for points in _point_numbers(sizes, self._line(sizes)):
            table = self._table(steps, sizes, points.ravel(), base.dtype)
            tables, more = self._later.tables(table, _REGROUPING * error)
            regrouping = max(regrouping, more)
            if self._device is not None and self._device.pays(base.shape[1], table.shape[1]):
                self._device.search(self._later, base, table, tables, more, found)
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                if len(tables) > 1 and points.shape[1] >= _LINE:
                    search_lines(self._later, base, tables, len(points), found)
                else:
                    search_points(self._later, base, tables, found)
        return found.lowest, found.highest, regrouping

    def _line(self, sizes: Sequence[int]) -> int | None:
        """Return which varying feature has the longest line of values; None if all lines are short."""
        lengths = [0 if f.one_hot or size > _TABLE else size for (f, _), size in zip(self._varying, sizes, strict=True)]
        longest = max(lengths, default=0)
        return lengths.index(longest) if longest >= _LINE else None

    def _table(self, steps: Sequence[Floats], sizes: Sequence[int], index: Ints, dtype: npt.DTypeLike) -> FloatArray:
        """Return what the points with these numbers add to the first layer (units, points)."""
        table = np.zeros((len(index), self._weight.shape[0]))
        for values, size in zip(reversed(steps), reversed(sizes), strict=True):
            index, digit = np.divmod(index, size)
            table += values[digit]
        return np.ascontiguousarray(table.T, dtype=dtype)


def _point_numbers(sizes: Sequence[int], line: int | None) -> Iterator[Ints]:
    """Yield the numbers of all points (lines, values), for one table after another.

    The values of the feature `line` follow one another in a line; without it, all points are lines of one.
    """
    total = math.prod(sizes)
    length = 1 if line is None else sizes[line]
    stride = 1 if line is None else math.prod(sizes[line + 1 :])
    values = stride * np.arange(length)
    step = max(1, _TABLE // length)
    for start in range(0, total // length, step):
        first, within = np.divmod(np.arange(start, min(start + step, total // length)), stride)
        yield (first * stride * length + within)[:, None] + values


def _over_rows(extreme: np.ufunc, X: FloatArray) -> FloatArray:
    """Return the minimum or maximum of each column of X (inputs, width); NumPy is slow for rows this short."""
    whole = len(X) // _TOGETHER * _TOGETHER
    long = extreme.reduce(X[:whole].reshape(-1, _TOGETHER * X.shape[1]), axis=0) if whole else X[:0]
    return np.asarray(extreme.reduce(np.concatenate([long.reshape(-1, X.shape[1]), X[whole:]]), axis=0))


class FirstLayer:
    """Computes the first layer without the columns that vary: all of it that the points of a neighbourhood share.

    Tables add the rest (`FastScores`). The sum is computed in float64 and rounded once.
    """

    def __init__(self, affine: Affine, spec: Spec) -> None:
        """Prepare the buffers."""
        self._weight, self._bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)[:, None]
        self._added = [spec.columns(f.name) for f in spec.varying if f.protected or f.bands]
        units, width = self._weight.shape
        self._step = max(64, _PRODUCTS // self._weight.size)
        rows = self._step * max(1, _NUMBERS // (self._step * max(units, width)))
        # Allocated once: the system hands out new memory of this size page by page.
        self._fixed, self._sums = np.empty((rows, width)), np.empty((units, rows))
        self._base: FloatArray = np.empty(0, affine.weight.dtype)

    def base(self, X: FloatArray, products: Products | None) -> FloatArray:
        """Return the layer (units, products) around inputs X (inputs, width); without products, for each input.

        The next call overwrites it.
        """
        count, block = len(X) if products is None else len(products.owner), len(self._fixed)
        size = len(self._weight) * count
        if len(self._base) < size or self._base.dtype != X.dtype:
            self._base = np.empty(size, X.dtype)
        base = self._base[:size].reshape(-1, count)
        for start in range(0, count, block):
            chosen = slice(start, min(start + block, count))
            fixed = self._fix(X, products, chosen)
            sums = self._sums[:, : len(fixed)]
            for first in range(0, len(fixed), self._step):
                part = slice(first, first + self._step)
                np.matmul(self._weight, fixed[part].T, out=sums[:, part])
            np.add(sums, self._bias, out=base[:, chosen], casting="same_kind")
        return base

    def _fix(self, X: FloatArray, products: Products | None, chosen: slice) -> Floats:
        """Return the columns of some products (k, width), with 0 for what the tables add."""
        fixed = self._fixed[: chosen.stop - chosen.start]
        fixed[...] = X[chosen if products is None or products.single else products.owner[chosen]]
        for columns in self._added:
            fixed[:, columns] = 0
        for each in [] if products is None else products.values:
            if not each.feature.varies:
                fixed[:, each.columns] = _single_values(each, chosen)
        return fixed


def _single_values(values: ReachableValues, chosen: slice) -> Floats:
    """Return the columns of a linked feature in some products (k, columns): its value if it is a single one, or 0."""
    lowest, x = values.lowest[chosen], values.x[chosen]
    if values.feature.one_hot:
        columns = values.feature.one_hot_columns(lowest.astype(np.int64), np.float64)
    else:
        encoded = encode_column(values.feature, lowest, x.dtype)
        columns = np.where(values.kept[chosen], x, encoded).astype(np.float64)[:, None]
    return np.where((lowest == values.highest[chosen])[:, None], columns, 0.0)
