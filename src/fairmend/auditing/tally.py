"""What an audit knows of the inputs so far: of some of them on a worker, and of all of them once parts are merged.

Parts are merged in the order of the inputs, so that the result depends on how the inputs are cut into parts, and not on
where or when each part was audited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairmend.auditing.comparisons import ScanResult, WorstNeighbours
from fairmend.auditing.disparity import DisparityCollector, ScoreDisparity, ScoreSummary, disparity_score
from fairmend.auditing.result import AuditPair, ExaminedInputs
from fairmend.auditing.rows import AuditedRows, RowCollector, RowSample, RowStore
from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.network import Model
from fairmend.spec import Claim, Spec

# What an audit keeps for reports: a random sample of so many inputs, or fewer if they are wide.
_EXAMINED_ROWS, _EXAMINED_NUMBERS = 20_000, 5_000_000


class AuditTally:
    """Counts, the worst inputs, a sample, and a few bytes of every input.

    Attributes
    ----------
    count, total, unknown : how many inputs are treated unequally, how many there are, and how many are not decided
    evaluations : how many scores were computed
    notes : what the reader of the inputs noted beside them
    """

    def __init__(
        self, net: Model, spec: Spec, pairs: int, seed: int, first: int = 0, limit: float = float("inf")
    ) -> None:
        """Start without inputs; `pairs` pairs are to be shown, and `first` rows come before in the data.

        `limit` is the `sample_limit` of a tally that this one will be merged into: it makes this one smaller.
        """
        self.count = self.total = self.evaluations = self.unknown = 0
        self.notes: Any = None
        # Twice as many as asked for: their order is only known up to rounding so far.
        self._largest, self._widest = _LargestGaps(2 * pairs), _WidestSpread()
        self._rows, self._scores = RowCollector(), _ScoreDifferences(net, spec)
        self._sample = RowSample(max(1, min(_EXAMINED_ROWS, _EXAMINED_NUMBERS // spec.width)), seed, first, limit)

    def add(self, spec: Spec, X: FloatArray, found: ScanResult) -> None:
        """Add the next inputs X (k, width), and what the scan found about them."""
        # Scores that differ by less than delta are shown too; the gap of equal predictions is 0.
        self._largest.add(self.total, X, np.flatnonzero(found.unequal | (found.gap > 0)), found.gap)
        self._widest.add(self.total, X, found.spread.difference)
        self._scores.add(spec.claim, found)
        self._rows.add(spec, X, found)
        columns = {"X": X, "unequal": found.unequal}
        self._sample.add(columns | ({"other": found.other} if isinstance(found, WorstNeighbours) else {}))
        self.count += int(found.unequal.sum())
        self.total += len(X)
        self.evaluations += found.points
        self.unknown += 0 if found.unknown is None else int(found.unknown.sum())

    def merge(self, other: AuditTally) -> None:
        """Add the inputs that follow; the other tally is used up."""
        if not other.total:
            return
        self._largest.merge(other._largest, self.total)
        self._widest.merge(other._widest, self.total)
        self._scores.merge(other._scores)
        self._rows.merge(other._rows)
        self._sample.merge(other._sample)
        self.count += other.count
        self.total += other.total
        self.evaluations += other.evaluations
        self.unknown += other.unknown

    @property
    def sample_limit(self) -> float:
        """The number from which on no further input can be in the sample."""
        return self._sample.limit

    def largest(self) -> tuple[list[int], list[FloatArray]]:
        """Return the rows of the inputs with the largest gaps, and those inputs (width,)."""
        return self._largest.kept()

    def widest(self) -> tuple[int, FloatArray]:
        """Return the row of the input whose scores differ most, and that input (1, width)."""
        return self._widest.row, self._widest.X

    def rows(self) -> AuditedRows:
        """Return what is known of every input."""
        return self._rows.rows()

    def examined(self) -> ExaminedInputs:
        """Return the sample of the inputs."""
        kept = self._sample.columns()
        return ExaminedInputs(kept["X"], kept["unequal"], kept["row"], kept.get("other"))

    def disparity(self, claim: Claim, worst: AuditPair | None) -> ScoreDisparity:
        """Return how far scores differ; `worst` are the two similar people whose scores differ most."""
        return self._scores.disparity(claim, worst, self.count)

    def scores(self, claim: Claim, disparity: ScoreDisparity) -> ScoreSummary | None:
        """Return the differences that the claim is about; None for a claim about classes."""
        return self._scores.summary(claim, disparity)


class _ScoreDifferences:
    """Collects how far scores differ: for the disparity, and for a claim about scores in the claim's own unit."""

    def __init__(self, net: Model, spec: Spec) -> None:
        on = disparity_score(spec)
        self._same = spec.claim.on == on
        self._collector = DisparityCollector(on, net.threshold)
        self._claimed = RowStore()

    def add(self, claim: Claim, found: ScanResult) -> None:
        """Add what the scan found about the next inputs."""
        self._collector.add(found.spread, found.gap if self._same else None)
        if claim.is_score and not self._same:
            self._claimed.add(found.gap)

    def merge(self, other: _ScoreDifferences) -> None:
        """Add the inputs that follow."""
        self._collector.merge(other._collector)
        self._claimed.merge(other._claimed)

    def disparity(self, claim: Claim, worst: AuditPair | None, count: int) -> ScoreDisparity:
        """Return the disparity, with `count` unequal inputs at the threshold that decides."""
        found = self._collector.disparity(worst)
        if found.curve is None or claim.is_score:
            return found
        return replace(found, curve=found.curve.with_decided(count))

    def summary(self, claim: Claim, disparity: ScoreDisparity) -> ScoreSummary | None:
        """Return the differences that the claim is about; None for a claim about classes."""
        if not claim.is_score:
            return None
        return ScoreSummary(claim, disparity.differences if self._same else self._claimed.array())


class _WidestSpread:
    """The input with the largest difference of scores in its neighbourhood."""

    def __init__(self) -> None:
        self.row, self.difference, self.X = 0, float("-inf"), np.zeros((0, 0), np.float32)

    def add(self, first_row: int, X: FloatArray, difference: Floats) -> None:
        """Add the next inputs X (k, width), from row `first_row` on, with their differences (k,)."""
        widest = int(difference.argmax())
        self._take(first_row + widest, float(difference[widest]), X[widest : widest + 1])

    def merge(self, other: _WidestSpread, first_row: int) -> None:
        """Add the inputs that follow, from row `first_row` on."""
        self._take(first_row + other.row, other.difference, other.X)

    def _take(self, row: int, difference: float, X: FloatArray) -> None:
        if difference > self.difference:
            self.row, self.difference, self.X = row, difference, X.copy()


class _LargestGaps:
    """The inputs with the largest gaps so far, equal inputs once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[float, int, FloatArray]] = {}
        self._least = float("-inf")

    def add(self, first_row: int, X: FloatArray, shown: Ints, gap: Floats) -> None:
        """Add some of the inputs X (k, width), from row `first_row` on, with the gaps (k,) of all of them."""
        chosen = shown[gap[shown] >= self._least]
        if len(chosen) == 0 or self._most == 0:
            return
        # Of equal inputs, keep the first row.
        _, first = np.unique(X[chosen], axis=0, return_index=True)
        different = chosen[np.sort(first)]
        for i in different[np.argsort(-gap[different], kind="stable")[: self._most]].tolist():
            self._kept.setdefault(X[i].tobytes(), (float(gap[i]), first_row + i, X[i].copy()))
        self._shrink()

    def merge(self, other: _LargestGaps, first_row: int) -> None:
        """Add the inputs that follow, from row `first_row` on."""
        for key, (gap, row, x) in other._kept.items():
            self._kept.setdefault(key, (gap, first_row + row, x))
        self._shrink()

    def _shrink(self) -> None:
        best = sorted(self._kept.items(), key=lambda item: (-item[1][0], item[1][1]))[: self._most]
        self._kept = dict(best)
        if len(best) == self._most and best:
            self._least = best[-1][1][0]

    def kept(self) -> tuple[list[int], list[FloatArray]]:
        """Return the rows and the inputs (width,)."""
        return [row for _, row, _ in self._kept.values()], [x for _, _, x in self._kept.values()]


TALLY_CLASSES = (
    AuditTally,
    DisparityCollector,
    RowCollector,
    RowSample,
    RowStore,
    _LargestGaps,
    _ScoreDifferences,
    _WidestSpread,
)
"""The classes that a tally is made of."""
