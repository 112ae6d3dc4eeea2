"""A witness is a pair with two classes in inference and in exact arithmetic; otherwise it is a tie."""

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.network.model import compute_scores
from fairmend.prove.counterfactuals import ScoreExtremes
from fairmend.prove.engines.findings import TIE, ClassFindings, ScoreFindings
from fairmend.prove.result import Verdict
from fairmend.spec import Claim
from support.certify_cases import RELU, affine, linear

# Pairs become witnesses only if inference and exact arithmetic agree that their scores differ by more than delta.


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
    wide, points = NET.astype(np.float64), np.array([[3.0], [2.0], [-1.0]], np.float32)
    seen = ScoreExtremes(X, compute_scores(wide, X, "output"))
    seen.take(np.array([0, 1, 0]), points, compute_scores(wide, points, "output"))
    assert seen.low.tolist() == [[-1, -6], [1, -4]]
    assert seen.high.tolist() == [[3, 2], [2, -2]]
    assert seen.at_low[:, :, 0].tolist() == [[-1, 3], [1, 2]]
    findings = ScoreFindings(NET, Claim("score", 5.0, "output"), X)
    findings.see(np.array([0, 1, 0]), np.array([[3.0], [2.0], [-1.0]], np.float32))
    assert [findings.try_extremes(row) for row in (0, 1)] == [True, False]


def test_a_candidate_that_does_not_replay_is_no_witness():
    net, X = linear(1.0, bias=0.0), np.array([[4.0]], np.float32)
    findings = ClassFindings(net, Claim(), X)
    findings.try_witnesses(np.array([0]), np.array([[5.0]], np.float32), np.array([-1.0]))
    assert not findings.unfair.any()
    findings.try_witnesses(np.array([0, 0]), np.array([[5.0], [-1.0]], np.float32), np.array([-1.0, -0.5]))
    assert findings.unfair.all()
    assert findings.result("enumerate").witnesses[0].other.tolist() == [-1.0]


def try_one(net, x, other):
    findings = ClassFindings(net, Claim(), np.array([x], net.dtype))
    findings.try_witnesses(np.array([0]), np.array([other], net.dtype), np.array([-1.0]))
    findings.mark_done([0])
    return findings.result("enumerate")


def test_a_clear_pair_is_no_tie():
    witness = try_one(linear(1.0, bias=-1.5), [4.0], [0.0]).witnesses[0]
    assert not witness.tie


def test_a_pair_whose_score_is_within_the_error_of_inference_is_a_tie():
    witness = try_one(linear(1.0, bias=-4.0), [4.0], [0.0]).witnesses[0]  # exactly 0 is class 1
    assert witness.tie
    tiny = np.float32(2.0**-24)
    witness = try_one(linear(1.0, bias=-1.0 - 2 * tiny), [1.0], [4.0]).witnesses[0]
    assert witness.tie
    assert (witness.answer, witness.other_answer) == (0, 1)


def test_classes_that_differ_by_rounding_only_are_no_witness():
    # 1 + 2^-24 rounds to 1 in float32: the real score at 1 is -2^-24, as negative as at 2.
    net = Network([affine([[1.0], [2.0**-24]], [0.0, 0.0]), affine([[-1.0, -1.0]], [1.0])], [RELU])
    result = try_one(net, [2.0], [1.0])
    assert net.predict(np.array([[2.0], [1.0]], np.float32)).tolist() == [0, 1]
    assert result.verdicts == (Verdict.UNKNOWN,)
    assert result.reasons == (TIE,)


def test_a_curved_pair_that_bounds_cannot_tell_apart_is_no_witness():
    net = Network([affine([[1.0]], [0.0]), affine([[1.0]], [0.0])], [Activation("tanh")])
    assert try_one(net, [-1.0], [0.0]).reasons == (TIE,)
    assert try_one(net, [-1.0], [1.0]).witnesses[0].tie is False
