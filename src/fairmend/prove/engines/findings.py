"""What is known so far about the inputs that are being certified; the engines fill it in.

`Findings` says, for each kind of claim, what a point or a set of points shows: `ClassFindings` that all of a
neighbourhood get the class of the input, `ScoreFindings` that no two of their scores differ by more than delta.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.progress import Progress
from fairmend.network import DEFAULT_THRESHOLD, Network
from fairmend.network.model import compute_scores
from fairmend.prove.counterfactuals import ScoreExtremes
from fairmend.prove.kernel_bounds import KernelBounds, compute_margins
from fairmend.prove.result import CertifyResult, Verdict, Witness
from fairmend.spec import Claim
from fairmend_check.kernel.rounding import down

TIME_LIMIT = "time limit"
TIE = "a tie: inference predicts two classes, but the scores are within its rounding error"

# Candidates come in order of their margins, so a second one helps only if the first is within rounding of a tie.
_TRIES = 4


def between_adjacent(dtype: npt.DTypeLike) -> str:
    """Return the reason if a box has no number between its ends, and its bounds do not prove the class."""
    return f"no witness was found, but bounds between adjacent {np.dtype(dtype)} numbers do not prove the class"


def findings_of(
    net: Network,
    claim: Claim,
    X: FloatArray,
    time_limit: float | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Findings:
    """Return the findings of a claim, without any so far; ``clock`` tells when the time limit has passed."""
    made_for: dict[str, type[Findings]] = {"class": ClassFindings, "score": ScoreFindings}
    return claim.choose(made_for, "certify")(net, claim, X, time_limit, progress, clock)


class Findings(ABC):
    """Witnesses and proofs for the inputs X (inputs, width), and the clock.

    unfair : bool (inputs,), where there is a witness
    fair : bool (inputs,), where the claim is proven for the whole neighbourhood
    """

    within_rounding: str

    def __init__(
        self,
        net: Network,
        claim: Claim,
        X: FloatArray,
        time_limit: float | None = None,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.net, self.claim, self.X = net, claim, X
        self.bounds = KernelBounds(net, claim.on)
        self.unfair = np.zeros(len(X), dtype=np.bool_)
        self.fair = np.zeros(len(X), dtype=np.bool_)
        self._witnesses: list[Witness | None] = [None] * len(X)
        self._unproven: dict[int, str] = {}
        self._clock, self._started = clock, clock()
        self._limit = math.inf if time_limit is None else time_limit
        self._progress = progress

    @property
    def seconds_left(self) -> float:
        """The rest of the time limit; infinite without one."""
        return self._limit - (self._clock() - self._started)

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds_left <= 0

    @abstractmethod
    def error_over(self, rows: Ints, lower: FloatArray, upper: FloatArray) -> Floats:
        """Return the error of inference over boxes (n, width) of the inputs `rows` (n,), as `add_points` takes it."""

    @abstractmethod
    def add_points(self, rows: Ints, points: FloatArray, error: Floats) -> None:
        """Take in points (k, width) of the inputs `rows` (k,), with a bound of their `error` (k, ...)."""

    @abstractmethod
    def settle_points(self, rows: Ints, *, last: bool) -> Ints:
        """Decide the inputs `rows` of whose neighbourhoods all points were added.

        Unless it is the ``last`` time, return those for which all points must be added again, with the least errors.
        """

    def mark_unproven(self, rows: npt.ArrayLike, reason: str) -> None:
        """Record why these inputs cannot be proven. The first reason counts, and a witness overrides it."""
        for row in np.unique(np.asarray(rows, dtype=np.int64)).tolist():
            self._unproven.setdefault(row, reason)

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
        seconds = self._clock() - self._started
        return CertifyResult(tuple(verdicts), tuple(self._witnesses), tuple(reasons), engine, seconds)


class ClassFindings(Findings):
    """Every point of a neighbourhood gets the class of the input."""

    within_rounding = "no witness was found, but the margin is within rounding error"

    @cached_property
    def classes(self) -> Ints:
        """The class that inference gives each input, int64 (inputs,)."""
        return self.net.predict(self.X)

    def error_over(self, rows: Ints, lower: FloatArray, upper: FloatArray) -> Floats:
        """Return how far margins from inference can be from the real ones: (n,)."""
        return self.bounds.margin_error(lower, upper, self.classes[rows])

    def add_points(self, rows: Ints, points: FloatArray, error: Floats) -> None:
        """Try points as witnesses if their class differs, else prove their class.

        A margin from inference that exceeds its error (k,) proves the class in real arithmetic at no cost. The kernel's
        bounds decide the other points.
        """
        undecided = ~self.unfair[rows]
        rows, points, error = rows[undecided], points[undecided], error[undecided]
        self._prove_points(rows, points, ~(self.try_points(rows, points) > error))

    def add_boxes(self, rows: Ints, lower: FloatArray, upper: FloatArray, box: Ints, points: FloatArray) -> None:
        """Take in all points (k, width) of boxes (n, width) of the inputs `rows` (n,), `box` (k,) being their box."""
        margin, least = self.try_points(rows[box], points), np.full(len(rows), np.inf)
        np.minimum.at(least, box, margin)
        open_boxes = np.flatnonzero(~self.unfair[rows])
        error = np.full(len(rows), np.inf)
        error[open_boxes] = self.bounds.margin_error(
            lower[open_boxes], upper[open_boxes], self.classes[rows[open_boxes]], least[open_boxes]
        )
        self._prove_points(rows[box], points, ~(margin > error[box]))

    def _prove_points(self, rows: Ints, points: FloatArray, close: Bools) -> None:
        """Let the kernel decide those points (k, width) whose margins are ``close`` (k,) to their errors."""
        left = np.flatnonzero(close & ~self.unfair[rows])
        if len(left):
            points, classes = points[left], self.classes[rows[left]]
            proven = self.bounds.proven_at_points(points, classes, self.bounds.point_margins(points, classes))
            self.mark_unproven(rows[left[~proven]], self.within_rounding)

    def settle_points(self, rows: Ints, *, last: bool) -> Ints:
        """Leave it at what the points have shown one by one."""
        return rows[:0]

    def try_points(self, rows: Ints, points: FloatArray) -> Floats:
        """Try points (k, width) as witnesses for the inputs `rows` (k,), and return their margins (k,)."""
        differs, margin = compute_margins(self.net, points, self.classes[rows])
        if differs.any():
            self.try_witnesses(rows[differs], points[differs], margin[differs])
        return margin

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
            for row, witness in zip(rows[now].tolist(), self._confirm(self.X[rows[now]], points[now]), strict=True):
                if witness is None:
                    self.mark_unproven([row], TIE)
                else:
                    self._witnesses[row] = witness
                    self.unfair[row] = True

    def _confirm(self, X: FloatArray, other: FloatArray) -> list[Witness | None]:
        """Return each pair, both (k, width), as a witness, or None if it is not confirmed."""
        pairs = np.stack([X, other], axis=1)
        answers = np.stack([self.net.predict(pair) for pair in pairs])
        points, classes = pairs.reshape(-1, pairs.shape[2]), answers.ravel()
        margins = self.bounds.point_margins(points, classes)
        proven = self.bounds.proven_at_points(points, classes, margins).reshape(-1, 2).all(axis=1)
        least = margins[0]
        if self.net.threshold != DEFAULT_THRESHOLD:  # logits are seldom compared with log-odds, but probabilities are
            least = down(least - self.bounds.closing_error(classes))
        clear = least > self.bounds.margin_error(points, points, classes, least)
        ties = np.logical_not(clear.reshape(-1, 2).all(axis=1)).tolist()
        found = proven & (answers[:, 0] != answers[:, 1])
        count = max(2, self.net.outputs)
        return [
            Witness(pair[0].copy(), pair[1].copy(), answer[0], answer[1], tie, classes=count) if ok else None
            for pair, answer, tie, ok in zip(pairs, answers.tolist(), ties, found.tolist(), strict=True)
        ]


class ScoreFindings(Findings):
    """No two people of a neighbourhood have scores that differ by more than delta, in inference."""

    within_rounding = "no witness was found, but the difference comes within rounding error of delta"

    @cached_property
    def seen(self) -> ScoreExtremes:
        """The lowest and highest scores found in each neighbourhood, and where."""
        return ScoreExtremes(self.X, self._scores(self.X))

    @cached_property
    def _wide(self) -> Network:
        return self.net.astype(np.float64)

    def _scores(self, points: FloatArray) -> Floats:
        """Return scores (k, outputs) in float64, so that they differ from the real ones in the last digits only."""
        return compute_scores(self._wide, points, self.claim.on)

    def see(self, rows: Ints, points: FloatArray) -> Floats:
        """Take in points (k, width) of the inputs `rows` (k,) as people who may differ; return their scores."""
        scores = self._scores(points)
        self.seen.take(rows, points, scores)
        return scores

    @cached_property
    def over_points(self) -> ScoreRanges:
        """Bounds of the scores of the points that were added."""
        return ScoreRanges(len(self.X), self.net.outputs)

    def error_over(self, rows: Ints, lower: FloatArray, upper: FloatArray) -> Floats:
        """Return how far raw outputs of inference can be from the real ones: (n, outputs)."""
        return self.bounds.output_error(lower, upper)

    def add_points(self, rows: Ints, points: FloatArray, error: Floats) -> None:
        """Take in the scores of points, with the error of their raw outputs (k, outputs)."""
        self.see(rows, points)
        self.over_points.add(rows, *self.bounds.computed_scores(points, error))

    def settle_points(self, rows: Ints, *, last: bool) -> Ints:
        """Decide inputs by the scores of all points of their neighbourhoods."""
        wide = rows[~self.over_points.within(self.claim.limit)[rows]]
        open_rows = np.array([row for row in wide.tolist() if not self.try_extremes(row)], dtype=np.int64)
        if last:
            self.mark_unproven(open_rows, self.within_rounding)
        self.over_points.forget(open_rows)
        return open_rows

    def try_pair(self, row: int, first: FloatArray, other: FloatArray, output: int) -> bool:
        """Try two people (width,) of an input's neighbourhood, the lower score first, and return whether it is one.

        Their scores must differ by more than delta in inference on the pair alone, and provably in exact arithmetic.
        """
        pair = np.stack([first, other])
        scores = compute_scores(self.net, pair, self.claim.on)[:, output]
        (low, high), (least, most) = self.bounds.exact_scores(pair), self.bounds.computed_scores(pair)
        surely = np.nextafter(low[1, output] - high[0, output], -np.inf)
        if not (scores[1] - scores[0] > self.claim.limit and surely > self.claim.limit):
            return False
        answer, other_answer = (None, None) if self.claim.on == "output" else self.net.predict(pair).tolist()
        self._witnesses[row] = Witness(
            first.copy(),
            other.copy(),
            answer,
            other_answer,
            tie=bool(least[1, output] - most[0, output] <= self.claim.limit),
            scores=(float(scores[0]), float(scores[1])),
            output=output if self.net.outputs > 1 else None,
            classes=max(2, self.net.outputs),
        )
        self.unfair[row] = True
        return True

    def try_extremes(self, row: int) -> bool:
        """Try the widest pair found for an input, and return whether it is a witness."""
        seen = self.seen
        wide = seen.high[row] - seen.low[row]
        return any(
            self.try_pair(row, seen.at_low[row, k], seen.at_high[row, k], k)
            for k in np.argsort(-wide).tolist()
            if wide[k] > self.claim.limit * (1 - 1e-9)
        )


class ScoreRanges:
    """Bounds of the scores of each input: low and high (inputs, outputs), those of nothing at first."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.low, self.high = np.full((inputs, outputs), np.inf), np.full((inputs, outputs), -np.inf)

    def add(self, rows: Ints, low: Floats, high: Floats) -> None:
        """Take in bounds, each (k, outputs), for the inputs `rows` (k,)."""
        np.minimum.at(self.low, rows, low)
        np.maximum.at(self.high, rows, high)

    def forget(self, rows: Ints) -> None:
        """Start again with the inputs `rows`."""
        self.low[rows], self.high[rows] = np.inf, -np.inf

    def within(self, delta: float) -> Bools:
        """Return where (inputs,) all scores differ by at most delta; not where there are none."""
        with np.errstate(invalid="ignore"):
            difference = np.nextafter(self.high - self.low, np.inf)
        return np.asarray(((difference <= delta) & (self.low <= self.high)).all(axis=1))
