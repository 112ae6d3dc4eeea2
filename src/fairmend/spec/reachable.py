"""The values of one feature that the neighbours of an input can have: what a neighbourhood is, feature by feature.

docs/certificate.md defines it, and the checker reads that definition independently. Everything in fairmend that lists,
encloses, samples or recognises neighbours builds on this module.

A numeric or ordinal feature reaches e(v), the encoding of v, for every value v in reach, and the input's own column as
well. The two differ at the input's own value if the input was scaled elsewhere: by an ulp if that was done in float32,
and by much more if the mean of the scale is much larger than its standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.spec.features import Feature


@dataclass(frozen=True, eq=False)
class ReachableValues:
    """The values that a feature can have in the neighbourhoods of some inputs.

    Attributes
    ----------
    columns : the encoded columns of the feature
    x : (inputs,), the inputs' own encoded column; of a one-hot feature, the first of its columns
    own : float64 (inputs,), the inputs' own values, or codes
    lowest, highest : float64 (inputs,), the ends of what neighbours can have, as values or codes
    apart : bool (inputs,), whether ``x`` is a further value of a whole-number feature: not the encoding of any other
    kept : bool (inputs,), whether ``x`` is the only value, bit for bit
    moved : bool (inputs,), whether ``x`` is not among the values
    """

    feature: Feature
    columns: slice
    x: FloatArray
    own: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    apart: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    moved: NDArray[np.bool_]

    @staticmethod
    def around(feature: Feature, columns: slice, X: FloatArray) -> ReachableValues:
        """Return the values around inputs X (inputs, width), which must be valid."""
        x = X[:, columns.start]
        own = feature.category_of(X[:, columns]).astype(np.float64) if feature.one_hot else feature.nearest(x)
        lo, hi = feature.bounds
        lowest, highest = np.full(len(x), lo, np.float64), np.full(len(x), hi, np.float64)
        if not feature.protected:
            lowest, highest = np.maximum(own - feature.reach, lowest), np.minimum(own + feature.reach, highest)
        none = np.zeros(len(x), dtype=np.bool_)
        return ReachableValues.within(feature, columns, x, own, (lowest, highest), kept=none, moved=none)

    @staticmethod
    def within(
        feature: Feature,
        columns: slice,
        x: FloatArray,
        own: NDArray[np.float64],
        ends: tuple[NDArray[np.float64], NDArray[np.float64]],
        *,
        kept: NDArray[np.bool_],
        moved: NDArray[np.bool_],
    ) -> ReachableValues:
        """Return the values between ``ends``, and ``x`` where it is one of them."""
        apart = np.zeros(len(x), dtype=np.bool_)
        if feature.kind != "continuous" and not feature.one_hot:
            apart = ~(_are_encodings(feature, x, own, *ends) | kept | moved)
        return ReachableValues(feature, columns, x, own, *ends, apart, kept, moved)

    def take(self, rows: NDArray[np.int64]) -> ReachableValues:
        """Return the values around some of the inputs, in any order."""
        return ReachableValues(
            self.feature,
            self.columns,
            self.x[rows],
            self.own[rows],
            self.lowest[rows],
            self.highest[rows],
            self.apart[rows],
            self.kept[rows],
            self.moved[rows],
        )

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of values (inputs,) of a feature that is not continuous."""
        return self.highest.astype(np.int64) - self.lowest.astype(np.int64) + 1 + self.apart

    def encoded(self, rows: NDArray[np.int64], number: NDArray[np.int64]) -> FloatArray:
        """Return the columns (k, width of the feature) of the values with these numbers (k,), around inputs (k,).

        The values come in order; ``x``, where it is apart from them, comes last.
        """
        value = self.lowest[rows] + number
        if self.feature.one_hot:
            return self.feature.one_hot_columns(value.astype(np.int64), self.x.dtype)
        column = encode_column(self.feature, value, self.x.dtype)
        if self.apart.any():
            column = np.where(value > self.highest[rows], self.x[rows], column)
        return self._with_kept(rows, column)[:, None]

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest box around the values: lower and upper ends, each (inputs, 1); not for one-hot."""
        # Rounding is monotone, so the rounded ends contain every rounded value between them.
        first, last = (encode_column(self.feature, end, self.x.dtype) for end in (self.lowest, self.highest))
        lower, upper = np.minimum(first, self.x), np.maximum(last, self.x)
        if self.moved.any():
            lower, upper = np.where(self.moved, first, lower), np.where(self.moved, last, upper)
        if self.kept.any():
            lower, upper = np.where(self.kept, self.x, lower), np.where(self.kept, self.x, upper)
        return lower[:, None], upper[:, None]

    def snap(self, rows: NDArray[np.int64], column: FloatArray) -> FloatArray:
        """Return the encodings nearest to a column (k,) that are in reach of inputs (k,); not for one-hot."""
        values = np.clip(self.feature.nearest(column), self.lowest[rows], self.highest[rows])
        return self._with_kept(rows, encode_column(self.feature, values, self.x.dtype))

    def contain(self, others: FloatArray) -> NDArray[np.bool_]:
        """Return whether the columns of others (inputs, width of the feature), valid inputs, are in reach."""
        if self.feature.one_hot:
            code = self.feature.category_of(others)
            return np.asarray((self.lowest <= code) & (code <= self.highest))
        column = others[:, 0]
        if self.feature.kind == "continuous":
            lower, upper = self.ends()
            return np.asarray((lower[:, 0] <= column) & (column <= upper[:, 0]))
        guess = np.clip(self.feature.nearest(column), self.lowest, self.highest)
        known = _are_encodings(self.feature, column, guess, self.lowest, self.highest)
        return np.asarray((known & ~self.kept) | ((column == self.x) & ~self.moved))

    def _with_kept(self, rows: NDArray[np.int64], column: FloatArray) -> FloatArray:
        """Return a column (k,) of values around inputs (k,), with own bits where they are the only value."""
        return np.where(self.kept[rows], self.x[rows], column) if self.kept.any() else column


def encode_column(feature: Feature, values: NDArray[np.float64], dtype: DTypeLike) -> FloatArray:
    """Return e(v), the encoding of values (or codes) of a feature with one column, in the network's precision."""
    encoded: FloatArray = feature.scaled(values).astype(dtype)
    return encoded


def _are_encodings(
    feature: Feature,
    column: FloatArray,
    guess: NDArray[np.float64],
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return where a column (k,) is e(v) of a whole number v from lowest to highest (k,); mostly v is the guess."""
    found = np.asarray(encode_column(feature, guess, column.dtype) == column)
    rest = np.flatnonzero(~found)
    if len(rest):
        # Encoding is monotone: bisect for the first value whose encoding is not below the column.
        low, high = lowest[rest].astype(np.int64), highest[rest].astype(np.int64)
        while np.any(low < high):
            middle = low + (high - low) // 2
            reached = encode_column(feature, middle.astype(np.float64), column.dtype) >= column[rest]
            low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
        found[rest] = encode_column(feature, low.astype(np.float64), column.dtype) == column[rest]
    return found
