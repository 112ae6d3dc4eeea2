"""Engine "enumerate" for claims about scores: bound the scores of all points of finite neighbourhoods."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.prove.engines.boxes import inputs_per_batch
from fairmend.prove.engines.enumerate import points_per_batch, require_finite
from fairmend.prove.engines.score_findings import WITHIN_ROUNDING, ScoreExtremes, ScoreFindings
from fairmend.prove.score_bounds import bound_scores_at_points, score_error
from fairmend.spec import Spec


class ScoreBounds:
    """Bounds of the scores that inference gives anywhere in each neighbourhood: low and high (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.low, self.high = np.full((inputs, outputs), np.inf), np.full((inputs, outputs), -np.inf)

    def add(self, rows: Ints, bounds: tuple[Floats, Floats], error: Floats) -> None:
        """Take in bounds in real arithmetic, each (k, outputs), for the inputs `rows` (k,), and inference's error."""
        np.minimum.at(self.low, rows, np.nextafter(bounds[0] - error, -np.inf))
        np.maximum.at(self.high, rows, np.nextafter(bounds[1] + error, np.inf))

    def within(self, delta: float) -> Bools:
        """Return where (inputs,) all scores differ by at most delta."""
        with np.errstate(invalid="ignore"):
            difference = np.nextafter(self.high - self.low, np.inf)
        return np.asarray(((difference <= delta) & (self.low <= self.high)).all(axis=1))


def certify_scores_by_enumeration(net: Network, spec: Spec, X: FloatArray, findings: ScoreFindings) -> None:
    """Decide each input from the scores of all points of its neighbourhood, until the time limit."""
    require_finite(spec)
    step = inputs_per_batch(spec)
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        done = _certify(net, spec, chunk, findings, start)
        findings.mark_done(np.arange(start, start + done))
        if done < len(chunk):
            return
    findings.report_progress(len(X))


def _certify(net: Network, spec: Spec, X: FloatArray, findings: ScoreFindings, start: int) -> int:
    """Decide a batch of inputs, of which the first has the number `start`; return for how many there was time."""
    claim = spec.claim
    seen, bounds = ScoreExtremes(net, claim, X), ScoreBounds(len(X), net.outputs)
    error, done = _error_in_neighbourhoods(net, spec, X), len(X)
    for rows, points in spec.points(X, points_per_batch(spec), dtype=X.dtype):
        if findings.out_of_time:
            done = int(rows[0])
            break
        seen.add(rows, points)
        bounds.add(rows, bound_scores_at_points(net, claim, points), error[rows])
        findings.report_progress(start + int(rows[-1]))
    for row in np.flatnonzero(~bounds.within(claim.limit)[:done]).tolist():
        if not findings.try_extremes(start + row, seen, row) and not _is_fair(net, spec, X[row : row + 1]):
            findings.mark_unproven([start + row], WITHIN_ROUNDING)
    return done


def _is_fair(net: Network, spec: Spec, x: FloatArray) -> bool:
    """Decide one input (1, width) with the error of inference at each point: it is less than over a neighbourhood."""
    bounds = ScoreBounds(1, net.outputs)
    for rows, points in spec.points(x, points_per_batch(spec), dtype=x.dtype):
        error = score_error(net, spec.claim, points, points)
        bounds.add(rows, bound_scores_at_points(net, spec.claim, points), error)
    return bool(bounds.within(spec.claim.limit)[0])


def _error_in_neighbourhoods(net: Network, spec: Spec, X: FloatArray) -> Floats:
    """Return how far scores from inference can be from the real ones in each neighbourhood: (inputs, outputs)."""
    regions = spec.regions(X, X.dtype)
    error = score_error(net, spec.claim, regions.lower, regions.upper)
    return np.asarray(np.maximum.reduceat(error, np.searchsorted(regions.owner, np.arange(len(X)))))
