"""The first layer of a network for many neighbourhoods: all of it that the points of a neighbourhood share.

What the columns that vary add to it comes from tables (`fast_scores`). The sum is computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.network import Affine
from fairmend.spec import Spec
from fairmend.spec.products import Products
from fairmend.spec.reachable import ReachableValues, encode_column

# Multiplications in one product: below the number at which BLAS starts threads. Numbers in a block of inputs: few
# enough for the cache.
_PRODUCTS, _NUMBERS = 250_000, 65_536


class FirstLayer:
    """Computes the first layer, without the columns that vary."""

    def __init__(self, affine: Affine, spec: Spec) -> None:
        """Prepare the buffers."""
        self._weight, self._bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)[:, None]
        self._links = bool(spec.links)
        self._added = [spec.columns(feature.name) for feature in spec.varying if feature.protected]
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
        fixed[...] = X[products.owner[chosen] if products is not None and self._links else chosen]
        for columns in self._added:
            fixed[:, columns] = 0
        for each in [] if products is None else products.values:
            if not (each.feature.protected or each.feature.tolerance):
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
