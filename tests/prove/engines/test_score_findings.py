"""Pairs become witnesses only if inference and exact arithmetic agree that their scores differ by more than delta."""

import numpy as np

from fairmend.network import Affine, Network
from fairmend.prove.engines.score_findings import ScoreExtremes, ScoreFindings
from fairmend.spec import Claim

NET = Network([Affine(np.array([[1.0], [-2.0]], np.float32), np.zeros(2, np.float32))], [])
X = np.array([[0.0], [1.0]], np.float32)


def test_a_pair_is_a_witness_only_above_delta():
    findings = ScoreFindings(NET, Claim("score", 1.5, "output"), X)
    low, high = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert not findings.try_pair(0, low, high, 0)
    assert not findings.try_pair(0, low, high, 1)  # the score of output 1 falls
    assert findings.try_pair(0, high, low, 1)
    assert findings.unfair.tolist() == [True, False]
    witness = findings.result("enumerate").witnesses[0]
    assert (witness.scores, witness.output, witness.tie) == ((-2.0, 0.0), 1, False)


def test_the_extremes_keep_the_points_and_the_widest_output():
    seen = ScoreExtremes(NET, Claim("score", 1.0, "output"), X)
    seen.add(np.array([0, 1, 0]), np.array([[3.0], [2.0], [-1.0]], np.float32))
    assert seen.low.tolist() == [[-1, -6], [1, -4]]
    assert seen.high.tolist() == [[3, 2], [2, -2]]
    assert seen.at_low[:, :, 0].tolist() == [[-1, 3], [1, 2]]
    findings = ScoreFindings(NET, Claim("score", 5.0, "output"), X)
    assert [findings.try_extremes(row, seen, row) for row in (0, 1)] == [True, False]
