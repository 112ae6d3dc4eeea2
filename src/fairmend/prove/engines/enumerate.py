"""Engine "enumerate": evaluate every point of finite neighbourhoods, and prove its class in real arithmetic."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.prove.engines.boxes import inputs_per_batch
from fairmend.prove.engines.findings import WITHIN_ROUNDING, Findings
from fairmend.prove.margin import compute_margins, margin_error, proven_at_points
from fairmend.spec import Spec

_ENTRIES = 4_000_000  # in an array of points
_BATCH = 65536  # points


def certify_by_enumeration(net: Network, spec: Spec, X: FloatArray, findings: Findings) -> None:
    """Decide each input from all points of its neighbourhood, until the time limit."""
    require_finite(spec)
    step, batch = inputs_per_batch(spec), points_per_batch(spec)
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        error = _error_in_neighbourhoods(net, spec, chunk, findings.classes[start : start + step])
        for rows, points in spec.points(chunk, batch, dtype=X.dtype):
            if findings.out_of_time:
                findings.mark_done(np.arange(start, start + rows[0]))
                return
            decide_points(net, findings, rows + start, points, error[rows])
            findings.report_progress(start + int(rows[-1]))
        findings.mark_done(np.arange(start, start + len(chunk)))
    findings.report_progress(len(X))


def require_finite(spec: Spec) -> None:
    """Raise an error if neighbourhoods are infinite."""
    if not spec.finite:
        names = ", ".join(f.name for f in spec.varying if f.kind == "continuous")
        raise FairmendError(
            f"engine enumerate: counterfactuals differ in {names}, which is continuous, so there are infinitely many; "
            "use engine branch"
        )


def points_per_batch(spec: Spec) -> int:
    """Return how many points are evaluated together."""
    return max(1, min(_BATCH, _ENTRIES // spec.width))


def decide_points(net: Network, findings: Findings, rows: Ints, points: FloatArray, error: Floats) -> None:
    """Try points (k, width) of the inputs `rows` (k,) as witnesses if their class differs, else prove their class.

    A margin from inference that exceeds its `error` (k,) proves the class in real arithmetic at no cost. Rigorous
    bounds decide the other points.
    """
    undecided = ~findings.unfair[rows]
    rows, points, error = rows[undecided], points[undecided], error[undecided]
    differs, margin = compute_margins(net, points, findings.classes[rows])
    if differs.any():
        findings.try_witnesses(rows[differs], points[differs], margin[differs])
    close = np.flatnonzero(~(margin > error) & ~findings.unfair[rows])
    if len(close):
        proven = proven_at_points(net, points[close], findings.classes[rows[close]])
        findings.mark_unproven(rows[close[~proven]], WITHIN_ROUNDING)


def _error_in_neighbourhoods(net: Network, spec: Spec, X: FloatArray, classes: Ints) -> Floats:
    """Return how far a margin from inference can be from the real one in each whole neighbourhood: (inputs,)."""
    regions = spec.regions(X, X.dtype)
    error = margin_error(net, regions.lower, regions.upper, classes[regions.owner])
    return np.asarray(np.maximum.reduceat(error, np.searchsorted(regions.owner, np.arange(len(X)))))
