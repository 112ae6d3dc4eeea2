"""Count the people in a box on one side of a linear form, without listing them.

The values of a linear form over a grid are sums of one term for each feature, so their distribution is the convolution
of the features' own. Terms are rounded to whole bins, and the distribution of the sum is computed with one fast Fourier
transform for each feature. Everything is rounded the safe way: thresholds move by the sum of the largest roundings, and
shares shrink by a bound of what the transforms lose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.arrays import Floats

__all__ = ["BINS", "Distribution", "Terms", "distribution"]

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
class Distribution:
    """Where the values of a form lie in each box: ``cumulative (n, bins + 1)``, the share below each bin's number.

    A value in bin k is within ``error (n,)`` of ``origin + k * width``.
    """

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
        first = self._bin(low + self.error, np.floor) + 1
        after = self._bin(high - self.error, np.ceil)
        bins = self.cumulative.shape[1] - 1
        first, after = np.clip(first, 0, bins), np.clip(after, 0, bins)
        rows = np.arange(len(first))
        share = self.cumulative[rows, after] - self.cumulative[rows, first]
        return np.where(after > first, np.clip(share - self.lost, 0.0, 1.0), 0.0)

    def _bin(self, value: Floats, rounded: np.ufunc) -> np.ndarray:
        """Return the bin of a value; its rounding is less than the error of a bin, which has room for it."""
        with np.errstate(all="ignore"):
            place = rounded((value - self.origin) / self.width)
        bins = self.cumulative.shape[1]
        return np.asarray(np.clip(np.nan_to_num(place, nan=0.0, posinf=bins, neginf=-2), -2, bins + 1), np.int64)


def distribution(terms: list[Terms], bins: int = BINS) -> Distribution:
    """Return the distribution of the sum of one term of each feature, for features that vary independently."""
    terms = _merged(terms)
    n = len(terms[0].low)
    present = [np.where(each.weight > 0, each.low, np.inf).min(axis=1) for each in terms]
    spans = [np.where(each.weight > 0, each.high, -np.inf).max(axis=1) for each in terms]
    total = np.sum([high - low for low, high in zip(present, spans, strict=True)], axis=0)
    width = np.where(total > 0, total, 1.0) / (bins - len(terms) - 2)
    spectrum = np.ones((n, bins // 2 + 1), np.complex128)
    error = np.zeros(n)
    rows = np.arange(n)[:, None] * bins
    for each, start in zip(terms, present, strict=True):
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
    sizes = np.sum([np.maximum(np.abs(a), np.abs(b)) for a, b in zip(present, spans, strict=True)], axis=0)
    error = error * 1.001 + 1e-6 * width + 64 * len(terms) * _UNIT * (sizes + np.abs(total))
    return Distribution(cumulative, np.sum(present, axis=0), width, error, _lost(len(terms), bins))


def _merged(terms: list[Terms]) -> list[Terms]:
    """Return the terms with small ones added up: each transform costs time, and each rounding accuracy."""
    merged: list[Terms] = []
    for each in sorted(terms, key=lambda terms: terms.low.shape[1]):
        if merged and merged[-1].low.shape[1] * each.low.shape[1] <= _MERGED:
            last = merged.pop()
            low, high = _outer(np.add, last.low, each.low), _outer(np.add, last.high, each.high)
            each = Terms(low, high, _outer(np.multiply, last.weight, each.weight))
        merged.append(each)
    return merged


def _outer(combine: np.ufunc, first: Floats, second: Floats) -> Floats:
    return np.asarray(combine(first[:, :, None], second[:, None, :])).reshape(len(first), -1)


def _lost(features: int, bins: int) -> float:
    """Return a bound of the error of a sum of bins.

    The spectrum of shares is at most 1 in size. So each transform, product and weight changes each bin by at most the
    relative error of the transform, and adding up bins loses one unit each.
    """
    each = _TRANSFORM * (np.log2(bins) + 1) * _UNIT
    return float(bins * (features + 1) * each + 2 * bins * _UNIT)
