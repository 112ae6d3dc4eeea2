"""Count the people in a box on one side of a linear form, without listing them.

The values of a linear form over a grid are sums of one term for each feature, so their distribution is the convolution
of the features' own. Terms of the largest group are kept as they are, or those of a feature with many values as a
line. Those of the others are rounded to whole bins, and the distribution of their sum is computed with one fast Fourier
transform for each group. Everything is rounded the safe way: thresholds move by the sum of the largest roundings, and
shares shrink by a bound of what the transforms lose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats

BINS = 2048
"""The bins of the distribution in one box."""

# A transform of n numbers loses at most log2(n) times a few units of rounding, relative to its 2-norm (Higham, 2002,
# section 24.1); 16 leaves room for other algorithms than radix 2.
_TRANSFORM = 16
_MERGED = 128  # segments of features whose terms are added up
_UNIT = float(np.finfo(np.float64).eps) / 2


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of one feature in each box: segments with values between ``low`` and ``high``, and their weights.

    All are ``(n, segments)``; the weights of a box add up to 1, and some may be 0.
    """

    low: Floats
    high: Floats
    weight: Floats


@dataclass(frozen=True, eq=False)
class Line:
    """The terms of a feature with many cells: that of cell k is within ``off`` of ``start + k * step``.

    All are ``(n,)``; ``count`` is the number of cells, from 0 on. Steps may be negative, and are not 0.
    """

    start: Floats
    step: Floats
    off: Floats
    count: Floats

    def share_between(self, low: Floats, high: Floats) -> Floats:
        """Return lower bounds of the share of cells with terms above ``low`` and below ``high``, each ``(n, m)``."""
        up = (self.step > 0)[:, None]
        start, step = self.start[:, None], np.abs(self.step)[:, None]
        off = self.off[:, None] + 16 * _UNIT * self.size[:, None]  # and the rounding of the next lines
        first = np.where(up, low - start, start - high) + off  # how far above the start, in the direction of the step
        after = np.where(up, high - start, start - low) - off
        count = self.count[:, None]
        first = np.floor(np.clip(first / step * (1 + 8 * _UNIT), -1.0, count)) + 1
        after = np.ceil(np.clip(after / step * (1 - 8 * _UNIT), 0.0, count))
        return np.maximum(after - first, 0.0) / count

    @property
    def size(self) -> Floats:
        """A bound of the size of the terms."""
        return np.abs(self.start) + np.abs(self.step) * self.count + self.off


@dataclass(frozen=True, eq=False)
class Distribution:
    """Where the values of a form lie in each box: a term that is ``kept``, and the sum of all others.

    ``cumulative (n, bins + 1)`` is the share of the others below each bin's number; a sum in bin k is within ``error
    (n,)`` of ``origin + k * width``.
    """

    kept: Terms | Line
    cumulative: Floats
    origin: Floats
    width: Floats
    error: Floats
    lost: float

    def above(self, threshold: Floats) -> Floats:
        """Return a lower bound of the share of each box ``(n,)`` with values above a threshold ``(n,)``."""
        return self.between(threshold, np.full_like(threshold, np.inf))

    def below(self, threshold: Floats) -> Floats:
        """Return a lower bound of the share of each box ``(n,)`` with values below a threshold ``(n,)``."""
        return self.between(np.full_like(threshold, -np.inf), threshold)

    def between(self, low: Floats, high: Floats) -> Floats:
        """Return a lower bound of the share of each box ``(n,)`` with values above ``low`` and below ``high``."""
        if isinstance(self.kept, Line):
            share = self._between_bins(self.kept, low, high)
        else:
            share = self._between_terms(self.kept, low, high)
        return np.clip(share, 0.0, 1.0)

    def _between_terms(self, kept: Terms, low: Floats, high: Floats) -> Floats:
        """Return the shares of the others, added up over the terms that are kept."""
        first = self._bin((low + self.error)[:, None] - kept.low, np.floor) + 1
        after = self._bin((high - self.error)[:, None] - kept.high, np.ceil)
        bins = self.cumulative.shape[1] - 1
        first, after = np.clip(first, 0, bins), np.clip(after, 0, bins)
        shares = np.take_along_axis(self.cumulative, after, 1) - np.take_along_axis(self.cumulative, first, 1)
        share = (kept.weight * np.where(after > first, np.maximum(shares - self.lost, 0.0), 0.0)).sum(axis=1)
        return np.asarray(share * (1 - 2 * (kept.weight.shape[1] + 32) * _UNIT))

    def _between_bins(self, kept: Line, low: Floats, high: Floats) -> Floats:
        """Return the shares of the cells that are kept, added up over the bins of the others."""
        shares = np.diff(self.cumulative, axis=1)
        sums = self.origin[:, None] + self.width[:, None] * np.arange(shares.shape[1])
        cells = kept.share_between((low + self.error)[:, None] - sums, (high - self.error)[:, None] - sums)
        return np.asarray((shares * cells).sum(axis=1) - self.lost - 4 * (shares.shape[1] + 32) * _UNIT)

    def _bin(self, value: Floats, rounded: np.ufunc) -> np.ndarray:
        """Return the bin of a value; its rounding is less than the error of a bin, which has room for it."""
        with np.errstate(all="ignore"):
            place = rounded((value - self.origin[:, None]) / self.width[:, None])
        bins = self.cumulative.shape[1]
        return np.asarray(np.clip(np.nan_to_num(place, nan=0.0, posinf=bins, neginf=-2), -2, bins + 1), np.int64)


def distribution(terms: list[Terms], bins: int = BINS, line: Line | None = None) -> Distribution:
    """Return the distribution of the sum of one term of each feature, for features that vary independently.

    ``line`` is one more feature, if there is one with many cells.
    """
    others = _merged(terms, max(_MERGED, bins // 4))
    kept = others.pop() if line is None else line
    n = len(kept.start) if isinstance(kept, Line) else len(kept.low)
    present = [np.where(each.weight > 0, each.low, np.inf).min(axis=1) for each in others]
    spans = [np.where(each.weight > 0, each.high, -np.inf).max(axis=1) for each in others]
    total = np.zeros(n) + sum(high - low for low, high in zip(present, spans, strict=True))
    width = np.where(total > 0, total, 1.0) / (bins - len(others) - 2)
    spectrum = np.ones((n, bins // 2 + 1), np.complex128)
    error = np.zeros(n)
    rows = np.arange(n)[:, None] * bins
    for each, start in zip(others, present, strict=True):
        counted = each.weight > 0
        middle = (each.low + each.high) / 2 - start[:, None]
        place = np.where(counted, np.rint(middle / width[:, None]), 0.0)
        value = place * width[:, None] + start[:, None]
        off = np.maximum(value - each.low, each.high - value)
        error = error + np.where(counted, off, 0.0).max(axis=1)
        weights = np.bincount((rows + place.astype(np.int64)).ravel(), each.weight.ravel(), n * bins)
        spectrum *= np.fft.rfft(weights.reshape(n, bins), axis=1)
    shares = np.fft.irfft(spectrum, bins, axis=1)
    cumulative = np.concatenate([np.zeros((n, 1)), np.cumsum(shares, axis=1)], axis=1)
    sizes = np.zeros(n) if line is None else line.size
    sizes = sizes + sum(np.maximum(np.abs(each.low), np.abs(each.high)).max(axis=1) for each in terms)
    error = error * 1.001 + 1e-6 * width + 64 * (len(terms) + 1) * _UNIT * (sizes + np.abs(total))
    origin = np.zeros(n) + sum(present)
    return Distribution(kept, cumulative, origin, width, error, _lost(len(others), bins))


def _merged(terms: list[Terms], most: int) -> list[Terms]:
    """Return the terms with small ones added up: each transform costs time, and each rounding accuracy."""
    merged: list[Terms] = []
    for each in sorted(terms, key=lambda terms: terms.low.shape[1]):
        if merged and merged[-1].low.shape[1] * each.low.shape[1] <= most:
            last = merged.pop()
            low, high = _outer(np.add, last.low, each.low), _outer(np.add, last.high, each.high)
            each = Terms(low, high, _outer(np.multiply, last.weight, each.weight))
        merged.append(each)
    return sorted(merged, key=lambda terms: terms.low.shape[1])


def _outer(combine: np.ufunc, first: Floats, second: Floats) -> Floats:
    return np.asarray(combine(first[:, :, None], second[:, None, :])).reshape(len(first), -1)


def _lost(features: int, bins: int) -> float:
    """Return a bound of the error of a sum of bins.

    The spectrum of shares is at most 1 in size. So each transform, product and weight changes each bin by at most the
    relative error of the transform, and adding up bins loses one unit each.
    """
    each = _TRANSFORM * (np.log2(bins) + 1) * _UNIT
    return float(bins * (features + 1) * each + 2 * bins * _UNIT)
