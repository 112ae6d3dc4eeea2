"""What is known so far while inputs are being certified; the three engines fill it in."""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.prove.result import CertifyResult, Verdict, Witness

TIME_LIMIT = "time limit"
ROUNDING = "no neighbour is answered differently, but rounding cannot be excluded"

# Candidates come worst first, so a second one is only of use where the first is within rounding of the decision.
_TRIES = 4


class Findings:
    """Witnesses, proofs and doubts of the inputs X (inputs, width), the classes they have, and the clock.

    own : int64 (inputs,), the network's own answer to each input
    unfair : bool (inputs,), where a witness is at hand
    fair : bool (inputs,), where the class is proven over the whole neighbourhood
    """

    def __init__(
        self, net: Network, X: FloatArray, time_limit: float | None = None, progress: Progress | None = None
    ) -> None:
        self.net, self.X = net, X
        self.own = net.predict(X)
        self.unfair = np.zeros(len(X), dtype=np.bool_)
        self.fair = np.zeros(len(X), dtype=np.bool_)
        self._witnesses: list[Witness | None] = [None] * len(X)
        self._doubts: dict[int, str] = {}
        self._started = time.perf_counter()
        self._limit = math.inf if time_limit is None else time_limit
        self._progress = progress

    @property
    def seconds_left(self) -> float:
        """What is left of the time limit; infinite where there is none."""
        return self._limit - (time.perf_counter() - self._started)

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds_left <= 0

    def offer(self, rows: Ints, points: FloatArray, margin: Floats) -> None:
        """Take points (k, width) that may be witnesses for inputs `rows` (k,), those with the least margin first.

        Each is replayed through the plain forward pass, two rows by themselves, before it is believed: in another
        batch the last bits of a logit may differ.
        """
        differs = (points != self.X[rows]).any(axis=1) & ~self.unfair[rows]
        rows, points, margin = rows[differs], points[differs], margin[differs]
        order = np.lexsort((margin, rows))
        tried: dict[int, int] = {}
        for candidate in order.tolist():
            row = int(rows[candidate])
            tried[row] = tried.get(row, 0) + 1
            if self.unfair[row] or tried[row] > _TRIES:
                continue
            witness = _replay(self.net, self.X[row], points[candidate])
            if witness is not None:
                self._witnesses[row] = witness
                self.unfair[row] = True

    def doubt(self, rows: npt.ArrayLike, reason: str) -> None:
        """Say why these inputs cannot be proven; the first reason counts, and a witness outweighs it."""
        for row in np.unique(np.asarray(rows, dtype=np.int64)).tolist():
            self._doubts.setdefault(row, reason)

    def doubted(self, rows: Ints) -> npt.NDArray[np.bool_]:
        """Whether there is a reason why each of these inputs cannot be proven."""
        return np.array([row in self._doubts for row in rows.tolist()], dtype=np.bool_)

    def finish(self, rows: npt.ArrayLike) -> None:
        """Everything there is of these inputs was looked at: they are fair unless shown otherwise or doubted."""
        done = np.asarray(rows, dtype=np.int64)
        self.fair[done] = ~self.unfair[done] & ~self.doubted(done)

    def report_progress(self, done: int | None = None) -> None:
        """Call the progress callback with the inputs done: by default, those that have a verdict."""
        if self._progress is not None:
            count = int((self.unfair | self.fair).sum()) if done is None else done
            self._progress("certify", count, len(self.X))

    def report(self, engine: str) -> CertifyResult:
        """Return the verdicts; what was never finished ran out of time."""
        verdicts, reasons = [], []
        for row in range(len(self.X)):
            if self.unfair[row]:
                verdict, reason = Verdict.UNFAIR, ""
            elif self.fair[row]:
                verdict, reason = Verdict.FAIR, ""
            else:
                verdict, reason = Verdict.UNKNOWN, self._doubts.get(row, TIME_LIMIT)
            verdicts.append(verdict)
            reasons.append(reason)
        seconds = time.perf_counter() - self._started
        return CertifyResult(tuple(verdicts), tuple(self._witnesses), tuple(reasons), engine, seconds)


def _replay(net: Network, x: FloatArray, other: FloatArray) -> Witness | None:
    """The pair as a witness, where the plain forward pass answers the two differently."""
    answer, other_answer = net.predict(np.stack([x, other])).tolist()
    if answer == other_answer:
        return None
    return Witness(x.copy(), other.copy(), answer, other_answer)
