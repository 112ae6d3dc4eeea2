"""What is known so far about the inputs that are being certified; the engines fill it in."""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.progress import Progress
from fairmend.bounds.inference import closing_error
from fairmend.network import DEFAULT_THRESHOLD, Network
from fairmend.prove.margin import margin_error, point_margins, proven_at_points
from fairmend.prove.result import CertifyResult, Verdict, Witness

TIME_LIMIT = "time limit"
WITHIN_ROUNDING = "no witness was found, but the margin is within rounding error"
TIE = "a tie: inference predicts two classes, but the scores are within its rounding error"


def between_adjacent(dtype: npt.DTypeLike) -> str:
    """Return the reason if a box has no number between its ends, and its bounds do not prove the class."""
    return f"no witness was found, but bounds between adjacent {np.dtype(dtype)} numbers do not prove the class"


# Candidates come in order of their margins, so a second one helps only if the first is within rounding of a tie.
_TRIES = 4


class Findings:
    """Witnesses and proofs for the inputs X (inputs, width), and the clock.

    classes : int64 (inputs,), the class that the network predicts for each input
    unfair : bool (inputs,), where there is a witness
    fair : bool (inputs,), where the class is proven for the whole neighbourhood
    """

    def __init__(
        self, net: Network, X: FloatArray, time_limit: float | None = None, progress: Progress | None = None
    ) -> None:
        self.net, self.X = net, X
        self.classes = net.predict(X)
        self.unfair = np.zeros(len(X), dtype=np.bool_)
        self.fair = np.zeros(len(X), dtype=np.bool_)
        self._witnesses: list[Witness | None] = [None] * len(X)
        self._unproven: dict[int, str] = {}
        self._started = time.perf_counter()
        self._limit = math.inf if time_limit is None else time_limit
        self._progress = progress

    @property
    def seconds_left(self) -> float:
        """The rest of the time limit; infinite without one."""
        return self._limit - (time.perf_counter() - self._started)

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds_left <= 0

    def try_witnesses(self, rows: Ints, points: FloatArray, margin: Floats) -> None:
        """Try points (k, width) as witnesses for the inputs `rows` (k,), those with the least margin (k,) first.

        Inference must have predicted another class for each than for the input. A point becomes a witness only if
        inference on the pair alone predicts two classes too (in another batch the last bits of a logit may differ), and
        if both classes are proven in exact arithmetic. Otherwise it is a tie, and the input cannot be proven either.
        """
        differs = (points != self.X[rows]).any(axis=1) & ~self.unfair[rows]
        rows, points, margin = rows[differs], points[differs], margin[differs]
        order = np.lexsort((margin, rows))
        rows, points = rows[order], points[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        for attempt in range(_TRIES):
            now = (rank == attempt) & ~self.unfair[rows]
            if not now.any():
                return
            for row, witness in zip(
                rows[now].tolist(), _confirm(self.net, self.X[rows[now]], points[now]), strict=True
            ):
                if witness is None:
                    self.mark_unproven([row], TIE)
                else:
                    self._witnesses[row] = witness
                    self.unfair[row] = True

    def mark_unproven(self, rows: npt.ArrayLike, reason: str) -> None:
        """Record why these inputs cannot be proven. The first reason counts, and a witness overrides it."""
        for row in np.unique(np.asarray(rows, dtype=np.int64)).tolist():
            self._unproven.setdefault(row, reason)

    def is_unproven(self, row: int) -> bool:
        """Return whether there is a reason why this input cannot be proven."""
        return row in self._unproven

    def mark_done(self, rows: npt.ArrayLike) -> None:
        """Mark these inputs as fully explored: they are fair unless there is a witness or they are unproven."""
        done = np.asarray(rows, dtype=np.int64)
        unproven = np.array([row in self._unproven for row in done.tolist()], dtype=np.bool_)
        self.fair[done] = ~self.unfair[done] & ~unproven

    def report_progress(self, done: int | None = None) -> None:
        """Call the progress callback with the number of inputs done: by default, those with a verdict."""
        if self._progress is not None:
            count = int((self.unfair | self.fair).sum()) if done is None else done
            self._progress("certify", count, len(self.X))

    def result(self, engine: str) -> CertifyResult:
        """Return the verdicts; inputs without a verdict or a reason ran out of time."""
        verdicts, reasons = [], []
        for row in range(len(self.X)):
            if self.unfair[row]:
                verdict, reason = Verdict.UNFAIR, ""
            elif self.fair[row]:
                verdict, reason = Verdict.FAIR, ""
            else:
                verdict, reason = Verdict.UNKNOWN, self._unproven.get(row, TIME_LIMIT)
            verdicts.append(verdict)
            reasons.append(reason)
        seconds = time.perf_counter() - self._started
        return CertifyResult(tuple(verdicts), tuple(self._witnesses), tuple(reasons), engine, seconds)


def _confirm(net: Network, X: FloatArray, other: FloatArray) -> list[Witness | None]:
    """Return each pair, both (k, width), as a witness, or None if it is not confirmed."""
    pairs = np.stack([X, other], axis=1)
    answers = np.stack([net.predict(pair) for pair in pairs])
    points, classes = pairs.reshape(-1, pairs.shape[2]), answers.ravel()
    proven = proven_at_points(net, points, classes).reshape(-1, 2).all(axis=1)
    error = margin_error(net, points, points, classes)
    if net.threshold != DEFAULT_THRESHOLD:  # logits are seldom compared with the log-odds, but probabilities are
        error = error + closing_error(net, classes)
    clear = point_margins(net, points, classes)[0] > error
    ties = np.logical_not(clear.reshape(-1, 2).all(axis=1)).tolist()
    found = proven & (answers[:, 0] != answers[:, 1])
    return [
        Witness(pair[0].copy(), pair[1].copy(), answer[0], answer[1], tie, classes=max(2, net.outputs)) if ok else None
        for pair, answer, tie, ok in zip(pairs, answers.tolist(), ties, found.tolist(), strict=True)
    ]
