"""Score disparity: how far the scores of similar people differ, and who would be treated unequally at which threshold.

An audit reports it whatever its claim is about. A decision hides how far the score behind it moves: at another
threshold, the same model may treat many more people unequally. A person whose scores reach from low to high over the
neighbourhood is treated unequally at a threshold t if low < t <= high. So the counts at all thresholds follow from how
many have low < t, and how many have high < t.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.auditing.comparisons import ScoreSpread
from fairmend.auditing.figures import AboveLimit, AtThreshold, DisparityFigures, ScoreFigures
from fairmend.auditing.rows import RowStore
from fairmend.base.arrays import Floats, Ints, count_above, histogram, quantiles
from fairmend.spec import Claim, Spec

if TYPE_CHECKING:
    from fairmend.auditing.result import AuditPair


@dataclass(frozen=True, eq=False)
class ScoreSummary:
    """How far the scores of similar people differ.

    Attributes
    ----------
    claim : what the spec claims about scores
    differences : (inputs,), the largest difference in the neighbourhood of each input
    """

    claim: Claim
    differences: Floats = field(repr=False)

    def take(self, rows: Ints) -> ScoreSummary:
        """Return the differences of some of the inputs."""
        return ScoreSummary(self.claim, self.differences[rows])

    @property
    def largest(self) -> float:
        """The largest difference within any neighbourhood."""
        return float(self.differences.max())

    @property
    def median(self) -> float:
        """The difference that half of the inputs do not exceed."""
        return quantiles(self.differences, [0.5])[0]

    @property
    def most(self) -> float:
        """The difference that 90 % of the inputs do not exceed."""
        return quantiles(self.differences, [0.9])[0]

    def figures(self, end: float | None = None) -> ScoreFigures:
        """Return the figures, with a histogram from 0 to `end`: the largest difference by default, or delta."""
        end = max(self.largest, self.claim.limit) if end is None else end
        counts, edges = histogram(self.differences, _BINS, end)
        return ScoreFigures(
            on=str(self.claim.on),
            delta=self.claim.limit,
            largest=self.largest,
            median=self.median,
            p90=self.most,
            edges=edges.tolist(),
            counts=counts.tolist(),
        )


LIMITS = (0.01, 0.05, 0.10)
"""Differences of a probability above which people are counted."""

QUANTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}

_BINS = 40  # of a histogram
_STEPS = 100  # thresholds lie 1/100 apart
_CELLS = 128  # of the same width, from 0 to 1; a power of two, so that no rounding moves a number to another cell


def disparity_score(spec: Spec) -> str:
    """Return the score whose disparity an audit reports: "probability", or "output" of a regression network."""
    return "output" if spec.regression else "probability"


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """How many inputs would be treated unequally at each threshold of the probability.

    Attributes
    ----------
    thresholds : (k,), from 0.01 to 0.99 in steps of 0.01, and the threshold of the decision
    counts : (k,), how many inputs have a lower score below the threshold, and a higher one at or above it
    total : how many inputs there are
    decision : the threshold that decides
    """

    thresholds: Floats
    counts: Ints
    total: int
    decision: float

    @property
    def shares(self) -> Floats:
        """The share of the inputs treated unequally at each threshold (k,)."""
        return np.asarray(self.counts / self.total)

    @property
    def peak(self) -> tuple[float, float]:
        """The threshold at which most inputs would be treated unequally, and their share."""
        worst = int(self.counts.argmax())
        return float(self.thresholds[worst]), float(self.shares[worst])

    def share_at(self, threshold: float) -> float:
        """Return the share at one of the thresholds, the nearest one."""
        return float(self.shares[np.abs(self.thresholds - threshold).argmin()])

    def with_decided(self, count: int) -> ThresholdCurve:
        """Return the curve with this count at the threshold that decides: there, the audit settles close scores."""
        counts = self.counts.copy()
        counts[self.thresholds == self.decision] = count
        return replace(self, counts=counts)

    def points(self) -> list[AtThreshold]:
        """Return the points of the curve."""
        columns = zip(self.thresholds.tolist(), self.counts.tolist(), self.shares.tolist(), strict=True)
        return [AtThreshold(*each) for each in columns]


@dataclass(frozen=True, eq=False, repr=False)
class ScoreDisparity:
    """How far the scores of similar people differ: the largest difference in the neighbourhood of each input.

    Attributes
    ----------
    on : "probability", or "output" for a regression network; with several outputs, the one that differs most
    exact : whether every neighbour was computed; otherwise each difference is a lower bound
    differences : (inputs,)
    worst : the two similar people whose scores differ most, the lower score first; None if no scores differ
    curve : the share treated unequally at each threshold; None for a regression network or more than two classes
    """

    on: str
    exact: bool
    differences: Floats = field(repr=False)
    worst: AuditPair | None = None
    curve: ThresholdCurve | None = None

    @property
    def largest(self) -> float:
        """The largest difference of any two similar people."""
        found = float(self.differences.max())
        return found if self.worst is None else self.worst.gap if self.exact else max(found, self.worst.gap)

    @cached_property
    def quantiles(self) -> dict[str, float]:
        """The differences that 50, 90, 95 and 99 % of the inputs do not exceed, by name."""
        return dict(zip(QUANTILES, quantiles(self.differences, list(QUANTILES.values())), strict=True))

    @cached_property
    def above(self) -> Mapping[float, int]:
        """How many inputs have a difference above 0.01, 0.05 and 0.1; empty for a regression network."""
        return {limit: count_above(self.differences, limit) for limit in LIMITS} if self.on == "probability" else {}

    def describe(self) -> str:
        """Return the disparity as a line of text."""
        return self.figures().describe()

    def __repr__(self) -> str:
        """Return the same line."""
        return f"ScoreDisparity({self.describe()})"

    def figures(self, end: float | None = None) -> DisparityFigures:
        """Return the figures, with a histogram from 0 to `end`, by default the largest difference."""
        counts, edges = histogram(self.differences, _BINS, end or self.largest or 1.0)
        total = len(self.differences)
        return DisparityFigures(
            on=self.on,
            exact=self.exact,
            **self.quantiles,
            largest=self.largest,
            above=[AboveLimit(round(100 * limit), count, count / total) for limit, count in self.above.items()],
            edges=edges.tolist(),
            counts=counts.tolist(),
            worst=None if self.worst is None else self.worst.figures(),
            threshold=None if self.curve is None else self.curve.decision,
            curve=[] if self.curve is None else self.curve.points(),
        )

    def _repr_html_(self) -> str:
        """Show the disparity in a notebook: its distribution, the two people who differ most, and other thresholds."""
        return self.figures().as_html()

    def as_dict(self) -> dict[str, Any]:
        """Return the disparity as plain data."""
        return asdict(self.figures())


class DisparityCollector:
    """Collects the spread of a stream of inputs: one number for each, and counts at the thresholds."""

    def __init__(self, on: str, decision: float) -> None:
        """Start without inputs; `decision` is the threshold that decides."""
        self._on, self._decision = on, decision
        self._thresholds = np.unique([*(np.arange(1, _STEPS) / _STEPS), decision])
        self._below = np.zeros((2, len(self._thresholds) + 1), dtype=np.int64)
        self._differences = RowStore()
        self._exact = self._has_ranges = True

    def add(self, spread: ScoreSpread, differences: Floats | None = None) -> None:
        """Add the next inputs; `differences` (k,) replace those of the spread where they are known more precisely."""
        self._differences.add((spread.difference if differences is None else differences).copy())
        self._exact &= spread.exact
        self._has_ranges &= spread.range is not None
        if spread.range is not None:
            grid = _grid_of(tuple(self._thresholds.tolist()))
            for end, counts in zip(spread.range.T, self._below, strict=True):
                # An end below a threshold is below all that follow, so it counts from the first one above it.
                counts += np.bincount(grid.count_reached(end), minlength=len(counts))

    def merge(self, other: DisparityCollector) -> None:
        """Add the inputs that follow."""
        self._differences.merge(other._differences)
        self._exact &= other._exact
        self._has_ranges &= other._has_ranges
        self._below += other._below

    def disparity(self, worst: AuditPair | None) -> ScoreDisparity:
        """Return the figures of all inputs so far."""
        differences = self._differences.array()
        curve = None
        if self._has_ranges:
            low, high = np.cumsum(self._below[:, :-1], axis=1)
            curve = ThresholdCurve(self._thresholds, low - high, len(differences), self._decision)
        return ScoreDisparity(self._on, self._exact, differences, worst, curve)


class _ThresholdGrid:
    """Counts how many thresholds a probability reaches; each cell has few, which is faster than a search over all.

    Attributes
    ----------
    before : (cells + 1,), how many thresholds are at most the start of each cell
    inside : the next thresholds, each (cells + 1,), and infinity in a cell that has fewer
    """

    def __init__(self, thresholds: Floats) -> None:
        starts = np.arange(_CELLS + 1) / _CELLS
        self.before = np.searchsorted(thresholds, starts, side="right")
        counts = np.searchsorted(thresholds, starts + 1 / _CELLS) - self.before
        padded = np.append(thresholds, np.inf)
        self.inside = [
            np.where(number < counts, padded[np.minimum(self.before + number, len(thresholds))], np.inf)
            for number in range(int(counts.max()))
        ]

    def count_reached(self, values: Floats) -> Ints:
        """Return how many thresholds are at most each of the values (k,), from 0 to 1."""
        cells = (values * _CELLS).astype(np.intp)
        reached = self.before.take(cells)
        for threshold in self.inside:
            reached += values >= threshold.take(cells)
        return reached


@lru_cache(maxsize=8)
def _grid_of(thresholds: tuple[float, ...]) -> _ThresholdGrid:
    return _ThresholdGrid(np.array(thresholds))
