"""Bands: linear conditions on the range of a score over a region, from claims that scores differ by at most delta.

A direction of the head takes values from L to U over a region. A *band* is the condition

    (1 - slope) U - (1 + slope) L <= level,      -1 <= slope <= 1,

which is convex in the head, because U is convex in it and L concave. For raw outputs the band U - L <= delta is the
claim itself. For a probability, sigmoid(U) - sigmoid(L) <= delta reads, with the centre c = (L + U) / 2 and half the
width h = (U - L) / 2,

    h <= H(c),      exp(H(c)) = (delta cosh c + sqrt(delta² cosh² c + 1 - delta²)) / (1 - delta).

H is convex. So each of its tangents is a band that implies the claim; the tangent at c = 0 is the width that suffices
anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats

_STEEPEST = 1 - 1e-5
"""The largest slope of a tangent. Slopes near 1 leave U almost free, and their rows have entries of very different
sizes."""


@dataclass(frozen=True)
class Bands:
    """One band for each region and direction: ``slope`` and ``level``, each ``(count, directions)``.

    An infinite level demands nothing.
    """

    slope: Floats
    level: Floats

    def excess(self, low: Floats, high: Floats) -> Floats:
        """Return by how much ranges ``(count, directions)`` miss their bands; negative where they do not."""
        return np.asarray((1 - self.slope) * high - (1 + self.slope) * low - self.level)


def widths(delta: Floats, directions: int) -> Bands:
    """Return the bands U - L <= delta, ``delta (count,)``."""
    level = np.repeat(delta[:, None], directions, axis=1)
    return Bands(np.zeros_like(level), level)


def sufficient_width(delta: Floats) -> Floats:
    """Return the width of a logit within which a probability moves by at most delta, wherever it is."""
    return np.asarray(4 * np.arctanh(delta))


def tangents(delta: Floats, centre: Floats) -> Bands:
    """Return the tangents of H at ``centre (count, directions)``; any centre gives bands that imply the claim."""
    ratio = (delta / np.sqrt(1 - delta**2))[:, None]
    farthest = np.arccosh(np.sqrt((1 + (_STEEPEST / ratio) ** 2) / (1 - _STEEPEST**2)))  # where the slope is that
    at = np.clip(centre, -farthest, farthest)
    slope = np.asarray(ratio * np.sinh(at) / np.sqrt(1 + (ratio * np.cosh(at)) ** 2))
    return Bands(slope, 2 * (_half_width(delta, at) - slope * at))


def _half_width(delta: Floats, centre: Floats) -> Floats:
    """Return H at ``centre (count, directions)``."""
    share = delta[:, None]
    cosine = share * np.cosh(np.clip(centre, -30, 30))
    near = np.log((cosine + np.sqrt(cosine**2 + 1 - share**2)) / (1 - share))
    return np.asarray(np.where(np.abs(centre) <= 30, near, np.abs(centre) + np.log(share / (1 - share))))
