"""What is known so far about the inputs whose scores are being certified; the engines fill it in."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.network.scores import compute_scores
from fairmend.prove.engines.findings import Findings
from fairmend.prove.result import Witness
from fairmend.prove.score_bounds import bound_scores_at_points, score_error
from fairmend.spec import Claim

WITHIN_ROUNDING = "no witness was found, but the difference comes within rounding error of delta"


class ScoreFindings(Findings):
    """Witnesses and proofs for the inputs X (inputs, width) of a claim about scores, and the clock."""

    def __init__(
        self,
        net: Network,
        claim: Claim,
        X: FloatArray,
        time_limit: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(net, X, time_limit, progress)
        self.claim = claim

    def try_pair(self, row: int, first: FloatArray, other: FloatArray, output: int) -> bool:
        """Try two people (width,) of an input's neighbourhood, the lower score first, and return whether it is one.

        Their scores must differ by more than delta in inference on the pair alone, and provably in exact arithmetic.
        """
        pair = np.stack([first, other])
        scores = compute_scores(self.net, pair, self.claim.on)[:, output]
        low, high = bound_scores_at_points(self.net, self.claim, pair)
        surely = np.nextafter(low[1, output] - high[0, output], -np.inf)
        if not (scores[1] - scores[0] > self.claim.limit and surely > self.claim.limit):
            return False
        answer, other_answer = (None, None) if self.claim.on == "output" else self.net.predict(pair).tolist()
        error = score_error(self.net, self.claim, pair, pair)[:, output].sum()
        self._witnesses[row] = Witness(
            first.copy(),
            other.copy(),
            answer,
            other_answer,
            tie=bool(surely - error <= self.claim.limit),
            scores=(float(scores[0]), float(scores[1])),
            output=output if self.net.outputs > 1 else None,
            classes=max(2, self.net.outputs),
        )
        self.unfair[row] = True
        return True

    def try_extremes(self, row: int, seen: ScoreExtremes, position: int) -> bool:
        """Try the widest pair found for an input, which is at `position` in `seen`; return whether it is a witness."""
        wide = seen.high[position] - seen.low[position]
        return any(
            self.try_pair(row, seen.at_low[position, k], seen.at_high[position, k], k)
            for k in np.argsort(-wide).tolist()
            if wide[k] > self.claim.limit * (1 - 1e-9)
        )


class ScoreExtremes:
    """The lowest and highest scores found in each neighbourhood, and where: the best pairs so far.

    low, high : (inputs, outputs), scores in float64 arithmetic, which differ from the real ones in the last digits only
    at_low, at_high : (inputs, outputs, width), the points that have them
    """

    def __init__(self, net: Network, claim: Claim, X: FloatArray) -> None:
        self._net, self._claim = net.astype(np.float64), claim
        self.low = compute_scores(self._net, X, claim.on)
        self.high = self.low.copy()
        self.at_low = np.repeat(X[:, None], net.outputs, axis=1)
        self.at_high = self.at_low.copy()

    def add(self, rows: Ints, points: FloatArray) -> Floats:
        """Take in points (k, width) of the inputs `rows` (k,); return their scores (k, outputs)."""
        scores = compute_scores(self._net, points, self._claim.on)
        for output in range(scores.shape[1]):
            for value, at, sign in ((self.low, self.at_low, 1.0), (self.high, self.at_high, -1.0)):
                order = np.lexsort((sign * scores[:, output], rows))
                who, first = np.unique(rows[order], return_index=True)
                best = order[first]
                better = sign * scores[best, output] < sign * value[who, output]
                who, best = who[better], best[better]
                value[who, output], at[who, output] = scores[best, output], points[best]
        return scores
