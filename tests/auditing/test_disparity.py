"""The distribution of the differences that a claim about scores allows."""

import json

import numpy as np
import pytest

import fairmend
from fairmend.auditing.comparisons import ScoreSpread
from fairmend.auditing.disparity import DisparityCollector, ScoreSummary
from fairmend.base.files import to_json
from fairmend.spec import Claim
from support.audit_cases import SPEC, network, people
from support.score_cases import largest_differences, score_spec


def test_the_summary_is_over_all_inputs():
    summary = ScoreSummary(Claim("score", 0.1, "logit"), np.arange(0, 11.0))
    assert (summary.largest, summary.median, summary.most) == (10, 5, 9)
    figures = summary.figures()
    assert (figures.on, figures.delta, figures.largest, figures.median, figures.p90) == ("logit", 0.1, 10, 5, 9)


def collected(ranges, decision=0.5, size=10):
    collector = DisparityCollector("probability", decision)
    for start in range(0, len(ranges), size):
        part = ranges[start : start + size]
        collector.add(ScoreSpread(part[:, 1] - part[:, 0], part, exact=True))
    return collector.disparity(None)


@pytest.mark.parametrize("decision", [0.5, 0.275, 0.2849, 1e-9, 1 - 1e-12])
def test_the_curve_is_that_of_counting_at_every_threshold(decision):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 101, (500, 2)) / 100  # many ends lie on a threshold
    ends[:100] = np.nextafter(ends[:100], rng.integers(0, 2, (100, 2)))  # or next to one
    ends[100] = 0.0, decision
    ranges = np.sort(ends, axis=1)
    found = collected(ranges, decision)
    thresholds = found.curve.thresholds
    assert len(thresholds) == (99 if decision == 0.5 else 100)
    assert decision in thresholds
    counted = [((ranges[:, 0] < t) & (t <= ranges[:, 1])).sum() for t in thresholds]
    assert found.curve.counts.tolist() == counted
    assert found.curve.peak == (thresholds[np.argmax(counted)], max(counted) / 500)
    assert found.curve.share_at(decision) == counted[thresholds.tolist().index(decision)] / 500
    assert found.curve.with_decided(7).share_at(decision) == 7 / 500


def test_the_figures_are_those_of_all_people():
    differences = np.array([0.0, 0.005, 0.02, 0.06, 0.2])
    found = collected(np.stack([0.3 + 0 * differences, 0.3 + differences], axis=1), size=2)
    assert found.quantiles == pytest.approx({"median": 0.02, "p90": 0.144, "p95": 0.172, "p99": 0.1944}, abs=1e-9)
    assert found.above == {0.01: 3, 0.05: 2, 0.1: 1}
    assert found.largest == pytest.approx(0.2)
    assert (found.on, found.exact, found.worst) == ("probability", True, None)
    assert "60.0 % by more than 1, 40.0 % by more than 5, 20.0 % by more than 10 points" in found.describe().replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert repr(found).startswith("ScoreDisparity(the scores of similar people differ by 2.0\xa0points")


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_an_audit_of_decisions_reports_it_too(outputs):
    net, X = network(outputs), people(40)
    expected = largest_differences(net, score_spec(0.1, "probability"), X)
    result = fairmend.audit(net, SPEC, X, pairs=0)
    found = result.disparity
    assert found.differences == pytest.approx(expected, abs=1e-5)
    assert found.worst.gap == pytest.approx(expected.max(), abs=1e-5) == found.largest
    assert found.worst.scores[0] < found.worst.scores[1]
    assert found.worst.values != found.worst.other_values
    assert found.exact
    plain = json.loads(to_json(result.as_dict()))["disparity"]
    assert plain["above"][2] == {"points": 10, "count": (expected > 0.1).sum(), "share": (expected > 0.1).mean()}
    assert (plain["curve"] == []) == (outputs == 3)
    if outputs < 3:
        assert found.curve.share_at(0.5) == result.idi_rate
        assert plain["threshold"] == 0.5


def test_a_threshold_that_nobody_decides_at_shows_what_the_decision_hides():
    """Scores of 0.2 to 0.4 are one decision at 0.5, and two at 0.3."""
    spec = fairmend.Spec([fairmend.Feature("sex", "integer", range=(0, 1), protected=True)])
    low, high = np.log(0.2 / 0.8), np.log(0.4 / 0.6)
    affine = fairmend.network.Affine(np.array([[high - low]], np.float32), np.array([low], np.float32))
    result = fairmend.audit(fairmend.Network([affine], []), spec, np.array([[0.0], [1.0]], np.float32))
    assert result.count == 0
    assert result.disparity.curve.share_at(0.3) == 1
    assert result.disparity.curve.share_at(0.45) == 0
    assert result.disparity.worst.scores == pytest.approx([0.2, 0.4])
    assert result.disparity.largest == pytest.approx(0.2)


def test_a_regression_network_has_differences_in_its_own_units():
    net, X = network(), people(30)
    result = fairmend.audit(net, score_spec(0.6, "output"), X)
    assert result.disparity.on == "output"
    assert np.array_equal(result.disparity.differences, result.scores.differences)
    assert (result.disparity.curve, result.disparity.above) == (None, {})
    assert "outputs for similar people differ by" in result.disparity.describe()
    assert result.as_dict()["disparity"]["curve"] == []


def test_a_claim_about_logits_has_a_disparity_of_probabilities():
    net, X = network(), people(30)
    result = fairmend.audit(net, score_spec(0.6, "logit"), X)
    expected = largest_differences(net, score_spec(0.1, "probability"), X)
    assert result.disparity.differences == pytest.approx(expected, abs=1e-5)
    assert result.scores.largest > result.disparity.largest


def test_sampled_neighbours_give_a_lower_bound_and_that_is_said():
    result = fairmend.audit(network(), SPEC, people(30), per_row=8, method="sample")
    assert not result.disparity.exact
    assert "at least" in result.disparity.describe()
    expected = largest_differences(network(), score_spec(0.1, "probability"), people(30))
    assert (result.disparity.differences <= expected + 1e-6).all()
    assert result.disparity.largest >= result.disparity.differences.max()


def test_equal_scores_have_no_worst_pair():
    net = fairmend.Network([fairmend.network.Affine(np.zeros((1, 5), np.float32), np.ones(1, np.float32))], [])
    found = fairmend.audit(net, SPEC, people(5)).disparity
    assert (found.worst, found.largest) == (None, 0)
    assert found.curve.counts.sum() == 0
