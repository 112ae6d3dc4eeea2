"""Score disparity as a report shows it: the distribution, the curve over the thresholds, and the worst pair."""

from __future__ import annotations

from collections.abc import Sequence

from fairmend.auditing.disparity import ScoreDisparity
from fairmend.auditing.result import AuditPair
from fairmend.base.arrays import histogram
from fairmend.base.text import plain_value, short
from fairmend.evaluate.document import DisparityFigures, ScorePair
from fairmend.spec import Spec

_BINS = 40
_MOST_COLUMNS = 16


def disparity_figures(
    disparity: ScoreDisparity, spec: Spec, answers: Sequence[str], end: float | None = None
) -> DisparityFigures:
    """Return the figures of a score disparity, with a histogram from 0 to `end`, by default the largest difference.

    `answers` are the names of the classes.
    """
    end = end or disparity.largest or 1.0
    counts, edges = histogram(disparity.differences, _BINS, end)
    total, curve = len(disparity.differences), disparity.curve
    return DisparityFigures(
        on=disparity.on,
        exact=disparity.exact,
        **disparity.quantiles,
        largest=disparity.largest,
        above={f"{100 * limit:g}": count / total for limit, count in disparity.above.items()},
        edges=edges.tolist(),
        counts=counts.tolist(),
        worst=None if disparity.worst is None else _score_pair(disparity.worst, spec, answers),
        threshold=None if curve is None else curve.decision,
        thresholds=[] if curve is None else curve.thresholds.tolist(),
        unequal=[] if curve is None else curve.shares.tolist(),
    )


def _score_pair(pair: AuditPair, spec: Spec, answers: Sequence[str]) -> ScorePair:
    """Return both people, with the features in which similar people may differ first."""
    varying = {f.name for f in spec.varying}
    names = sorted((f.name for f in spec.features), key=lambda name: name not in varying)
    shown, features = names[:_MOST_COLUMNS], {f.name: f for f in spec.features}
    number = 1 if pair.output is None else pair.output
    answer = answers[number] if number < len(answers) else f"class {number}"
    return ScorePair(
        pair.row,
        [short(name) for name in shown],
        len(names) - len(shown),
        [plain_value(features[name].show(pair.values[name])) for name in shown],
        [plain_value(features[name].show(pair.other_values[name])) for name in shown],
        list(pair.scores),
        None if spec.regression else answer,
        None if pair.id is None else short(pair.id, 40),
    )
