"""Engine "enumerate": evaluate every point of finite neighbourhoods, and bound what it gives in real arithmetic.

Enumeration in a runtime, for models that are only run: every counterfactual is run, and nothing is proven beyond it.

FAIR means that all people of a neighbourhood got one class, or scores that differ by at most delta, in batches, in the
program that ran the model. UNFAIR has a pair that differed in two batches.
"""

from __future__ import annotations

import time

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.models import RunModel
from fairmend.network.model import scores_of
from fairmend.prove.counterfactuals import OtherClasses, ScoreExtremes
from fairmend.prove.engines.branch import inputs_per_batch
from fairmend.prove.engines.findings import TIME_LIMIT, Findings
from fairmend.prove.result import CertifyResult, Verdict, Witness
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


MOST_RUN = 1_000_000
"""Neighbourhoods with more people are not run: an input of such a one is UNKNOWN."""

_ANOTHER_BATCH = "two scores were different, but not in another batch: they are within rounding of the decision"


def certify_by_running(
    model: RunModel, spec: Spec, X: FloatArray, time_limit: float | None = None, progress: Progress | None = None
) -> CertifyResult:
    """Return the verdict on each of X (inputs, width), from all people of its neighbourhood."""
    started = time.perf_counter()
    reasons = _cannot_run(spec, X)
    found = (_Scores if spec.claim.is_score else _Classes)(model, spec, X)
    left = np.array([row for row, reason in enumerate(reasons) if not reason], dtype=np.int64)
    done = np.zeros(len(X), dtype=np.bool_)
    for owner, points in spec.points(X[left], _BATCH, dtype=X.dtype) if len(left) else ():
        done[left[: owner[0]]] = True
        if time_limit is not None and time.perf_counter() - started > time_limit:
            break
        found.add(left[owner], points)
        if progress is not None:
            progress("certify", int(left[owner[-1]]), len(X))
    else:
        done[left] = True
    unequal, witnesses = found.witnesses()
    verdicts = []
    for row, reason in enumerate(reasons):
        if witnesses[row] is not None:
            verdicts.append(Verdict.UNFAIR)
        elif done[row] and not unequal[row]:
            verdicts.append(Verdict.FAIR)
        else:
            verdicts.append(Verdict.UNKNOWN)
            reasons[row] = reason or (_ANOTHER_BATCH if unequal[row] else TIME_LIMIT)
    seconds = time.perf_counter() - started
    return CertifyResult(tuple(verdicts), tuple(witnesses), tuple(reasons), "enumerate", seconds, runtime=model.runtime)


def _cannot_run(spec: Spec, X: FloatArray) -> list[str]:
    """Return for each input why not all of its counterfactuals can be run; "" if they can."""
    if not spec.finite:
        names = ", ".join(f.name for f in spec.varying if f.kind == "continuous")
        return [f"counterfactuals differ in {names}, which is continuous, so they cannot all be run"] * len(X)
    sizes = spec.neighbourhood_sizes(X, X.dtype).tolist()
    return [f"{size:,} counterfactuals are too many to run" if size > MOST_RUN else "" for size in sizes]


class _Classes:
    """The counterfactual of each input with another class, the one whose probability differs most."""

    def __init__(self, model: RunModel, spec: Spec, X: FloatArray) -> None:
        self._model, self._X = model, X
        self._seen = OtherClasses(model, X, model.logits(X))

    def add(self, rows: Ints, points: FloatArray) -> None:
        """Take in counterfactuals (k, width) of the inputs `rows` (k,)."""
        self._seen.take(rows, points, self._model.logits(points))

    def witnesses(self) -> tuple[Bools, list[Witness | None]]:
        """Return where another class was found (inputs,), and the pairs that have two classes in another batch too."""
        found: list[Witness | None] = [None] * len(self._X)
        unequal, others = self._seen.gap >= 0, self._seen.other
        rows = np.flatnonzero(unequal)
        if len(rows) == 0:
            return unequal, found
        answers = self._model.predict(np.concatenate([self._X[rows], others[rows]])).reshape(2, -1)
        for row, answer, other in zip(rows.tolist(), *answers.tolist(), strict=True):
            # Equal rows are not similar people who are treated unequally.
            if answer != other and not np.array_equal(self._X[row], others[row]):
                pair = self._X[row].copy(), others[row].copy()
                found[row] = Witness(*pair, answer, other, classes=max(2, self._model.outputs))
        return unequal, found


class _Scores:
    """The two people of each neighbourhood whose scores differ most, by output."""

    def __init__(self, model: RunModel, spec: Spec, X: FloatArray) -> None:
        self._model, self._claim = model, spec.claim
        self._seen = ScoreExtremes(X, self._scores(X))

    def _scores(self, points: FloatArray) -> Floats:
        return scores_of(self._model.logits(points), self._claim.on)

    def add(self, rows: Ints, points: FloatArray) -> None:
        """Take in people (k, width) of the neighbourhoods of the inputs `rows` (k,)."""
        self._seen.take(rows, points, self._scores(points))

    def witnesses(self) -> tuple[Bools, list[Witness | None]]:
        """Return where scores differ by more than delta (inputs,), and the pairs that do in another batch too."""
        seen = self._seen
        wide = seen.high - seen.low
        output, each = wide.argmax(axis=1), np.arange(len(wide))
        unequal = np.asarray(wide[each, output] > self._claim.limit)
        found: list[Witness | None] = [None] * len(wide)
        for row in np.flatnonzero(unequal).tolist():
            pair = np.stack([at[row, output[row]] for at in (seen.at_low, seen.at_high)])
            logits = self._model.logits(pair)
            low, high = scores_of(logits, self._claim.on)[:, output[row]].tolist()
            if not high - low > self._claim.limit:
                continue
            answer, other = (None, None) if self._claim.on == "output" else self._model.decide(logits).tolist()
            found[row] = Witness(
                pair[0],
                pair[1],
                answer,
                other,
                scores=(low, high),
                output=int(output[row]) if self._model.outputs > 1 else None,
                classes=max(2, self._model.outputs),
            )
        return unequal, found
