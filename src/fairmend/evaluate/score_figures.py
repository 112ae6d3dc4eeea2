"""How far the scores of similar people differ, as a report shows it."""

from __future__ import annotations

from dataclasses import asdict

from fairmend.auditing.disparity import ScoreSummary
from fairmend.base.arrays import histogram
from fairmend.evaluate.document import ScoreFigures
from fairmend.evaluate.utility import RegressionUtility

_BINS = 40


def score_figures(
    scores: ScoreSummary, regression: RegressionUtility | None = None, end: float | None = None
) -> ScoreFigures:
    """Return how far scores differ, with a histogram from 0 to `end`: the largest difference by default, or delta."""
    end = max(scores.largest, scores.claim.limit) if end is None else end
    counts, edges = histogram(scores.differences, _BINS, end)
    return ScoreFigures(
        on=str(scores.claim.on),
        delta=scores.claim.limit,
        largest=scores.largest,
        median=scores.median,
        p90=scores.most,
        edges=edges.tolist(),
        counts=counts.tolist(),
        errors=regression_errors(regression),
    )


def regression_errors(regression: RegressionUtility | None) -> dict[str, float]:
    """Return the figures of a regression network by name, without those that are not defined."""
    figures = {} if regression is None else asdict(regression)
    return {name: value for name, value in figures.items() if value is not None}
