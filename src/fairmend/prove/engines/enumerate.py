"""Engine "enumerate": evaluate every point of finite neighbourhoods, and bound what it gives in real arithmetic."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.prove.engines.boxes import inputs_per_batch
from fairmend.prove.engines.findings import Findings
from fairmend.spec import Spec

_ENTRIES = 4_000_000  # in an array of points
_BATCH = 65536  # points


def certify_by_enumeration(spec: Spec, findings: Findings) -> None:
    """Decide each input from all points of its neighbourhood, until the time limit."""
    if not spec.finite:
        names = ", ".join(f.name for f in spec.varying if f.kind == "continuous")
        raise FairmendError(
            f"engine enumerate: counterfactuals differ in {names}, which is continuous, so there are infinitely many; "
            "use engine branch"
        )
    X, step, batch = findings.X, inputs_per_batch(spec), max(1, min(_BATCH, _ENTRIES // spec.width))
    for start in range(0, len(X), step):
        rows = np.arange(start, min(start + step, len(X)))
        error, done = _error_in_neighbourhoods(spec, findings, rows), rows
        for owner, points in spec.points(X[rows], batch, dtype=X.dtype):
            if findings.out_of_time:
                done = rows[: owner[0]]
                break
            findings.add_points(rows[owner], points, error[owner])
            findings.report_progress(int(rows[owner[-1]]))
        again = findings.settle_points(done, last=False)
        for owner, points in spec.points(X[again], batch, dtype=X.dtype) if len(again) else ():
            findings.add_points(again[owner], points, findings.error_over(again[owner], points, points))
        findings.settle_points(again, last=True)
        findings.mark_done(done)
        if len(done) < len(rows):
            return
    findings.report_progress(len(X))


def _error_in_neighbourhoods(spec: Spec, findings: Findings, rows: Ints) -> Floats:
    """Return the error of inference in each whole neighbourhood: (inputs, ...)."""
    X: FloatArray = findings.X[rows]
    regions = spec.regions(X, X.dtype)
    error = findings.error_over(rows[regions.owner], regions.lower, regions.upper)
    return np.asarray(np.maximum.reduceat(error, np.searchsorted(regions.owner, np.arange(len(X)))))
