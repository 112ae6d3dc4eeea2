"""Engine "enumerate": look at every point of finite neighbourhoods, streamed, and prove each where rounding allows."""

from __future__ import annotations

import numpy as np

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.prove.engines.boxes import inputs_at_a_time
from fairmend.prove.engines.findings import ROUNDING, Findings
from fairmend.prove.margin import computed, proven_at, rounding
from fairmend.spec import Spec

_ENTRIES = 4_000_000  # of an array of points
_BATCH = 65536


def by_enumeration(net: Network, spec: Spec, X: FloatArray, findings: Findings) -> None:
    """Decide each input from all its points, unless the time limit comes first."""
    if not spec.finite:
        names = ", ".join(f.name for f in spec.features if f.varies and f.kind == "continuous")
        raise FairmendError(
            f"neighbours differ in {names}, which is continuous, so they cannot be enumerated; use engine branch"
        )
    step, batch = inputs_at_a_time(spec), max(1, min(_BATCH, _ENTRIES // spec.width))
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        error = _error_of_inputs(net, spec, chunk)
        for rows, points in spec.points(chunk, batch, dtype=X.dtype):
            if findings.late:
                findings.finish(np.arange(start, start + rows[0]))
                return
            look_at(net, findings, rows + start, points, error[rows])
            findings.report_progress(start + int(rows[-1]))
        findings.finish(np.arange(start, start + len(chunk)))
    findings.report_progress(len(X))


def look_at(net: Network, findings: Findings, rows: Ints, points: FloatArray, error: Floats) -> None:
    """Offer points (k, width) of inputs `rows` as witnesses where the answer differs, else prove them.

    A computed margin beyond the `error` (k,) of computing it proves the class in real arithmetic, at no cost; the
    rest is looked at rigorously.
    """
    open_ = ~findings.unfair[rows]
    rows, points, error = rows[open_], points[open_], error[open_]
    differs, margin = computed(net, points, findings.own[rows])
    if differs.any():
        findings.offer(rows[differs], points[differs], margin[differs])
    close = np.flatnonzero(~(margin > error) & ~findings.unfair[rows])
    if len(close):
        proven = proven_at(net, points[close], findings.own[rows[close]])
        findings.doubt(rows[close[~proven]], ROUNDING)


def _error_of_inputs(net: Network, spec: Spec, X: FloatArray) -> Floats:
    """How far a computed margin can be from the real one, anywhere in the neighbourhood of each input; (inputs,)."""
    regions = spec.regions(X, X.dtype)
    error = rounding(net, regions.lower, regions.upper)
    return np.asarray(np.maximum.reduceat(error, np.searchsorted(regions.owner, np.arange(len(X)))))
