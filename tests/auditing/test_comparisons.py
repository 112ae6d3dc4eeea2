"""The spread of the scores in each neighbourhood is that of computing every neighbour."""

import numpy as np
import pytest

from fairmend.auditing.comparisons import ScoreSpread, SpreadTracker, enclose_differences, find_widest_pairs
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan
from fairmend.network.model import compute_scores
from fairmend.spec import Claim
from support.audit_cases import SPEC, network, people
from support.score_cases import score_spec

CLAIMS = [SPEC, score_spec(0.1, "probability"), score_spec(0.5, "logit"), score_spec(0.5, "output")]


def ranges(net, spec, X, on):
    """Return the lowest and the highest score (inputs, outputs) in each neighbourhood, by computing it."""
    around = [compute_scores(net, np.concatenate([p for _, p in spec.points(x[None])]), on) for x in X]
    return np.array([scores.min(axis=0) for scores in around]), np.array([scores.max(axis=0) for scores in around])


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("spec", CLAIMS, ids=["class", "probability", "logit", "output"])
def test_a_scan_knows_the_spread_whatever_the_claim(spec, outputs):
    net, X = network(outputs), people(25)
    found = ExhaustiveScan(net, spec).scan(X).spread
    low, high = ranges(net, spec, X, "output" if spec.regression else "probability")
    assert found.exact
    assert found.difference == pytest.approx((high - low).max(axis=1), abs=1e-5)
    if spec.regression or outputs == 3:
        assert found.range is None
    else:
        assert found.range == pytest.approx(np.stack([low[:, -1], high[:, -1]], axis=1), abs=1e-5)


def test_random_neighbours_give_a_lower_bound():
    net, X = network(), people(25)
    low, high = ranges(net, SPEC, X, "probability")
    found = RandomScan(net, SPEC, 16, 0).scan(X).spread
    assert not found.exact
    assert (found.range[:, 0] >= low[:, 0] - 1e-6).all()
    assert (found.range[:, 1] <= high[:, 0] + 1e-6).all()
    assert (found.difference > 0).any()


def test_neighbours_may_come_in_any_order():
    tracker = SpreadTracker(np.array([0.0, 1.0], np.float32), regression=True)
    tracker.update(np.array([1, 0, 1]), np.array([3.0, -2.0, -1.0], np.float32))
    tracker.update(np.array([0]), np.array([0.5], np.float32))
    assert tracker.spread(exact=True).difference.tolist() == [2.5, 4.0]


def test_rows_can_be_replaced():
    first = ScoreSpread(np.zeros(3), np.zeros((3, 2)), exact=True)
    first.replace_rows(np.array([2, 0]), ScoreSpread(np.array([0.5, 0.25]), np.array([[0, 0.5], [0, 0.25]]), True))
    assert first.difference.tolist() == [0.25, 0, 0.5]
    assert first.range[:, 1].tolist() == [0.25, 0, 0.5]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["probability", "logit"])
def test_the_widest_pair_is_that_of_brute_force_in_any_order(outputs, on):
    net, X, claim = network(outputs), people(12), Claim("score", 0.1, on)
    forwards = list(SPEC.points(X, batch=5000))
    backwards = [(rows[::-1], points[::-1]) for rows, points in forwards[::-1]]
    for stream in (forwards, backwards):
        found = find_widest_pairs(net, claim.on, X, iter(stream))
        for i, x in enumerate(X):
            points = np.concatenate([p for _, p in SPEC.points(x[None])])
            scores = compute_scores(net, points, on)
            assert found.difference[i] == pytest.approx(np.ptp(scores, axis=0).max(), abs=1e-6)
            pair = compute_scores(net, np.stack([found.first[i], found.other[i]]), on)[:, found.output[i]]
            assert pair[1] - pair[0] == pytest.approx(found.difference[i], abs=1e-6)
            for member in (found.first[i], found.other[i]):
                assert (points == member).all(axis=1).any()
        assert found.points == len(X) + sum(len(points) for _, points in forwards)


def test_what_is_known_up_to_an_error_decides_where_it_can():
    claim = Claim("score", 1.0, "logit")
    low, high = np.zeros(4), np.array([0.5, 1.5, 1.0, np.nan])
    least, most, decided = enclose_differences(claim, low, high, np.full(4, 0.1))
    assert decided.tolist() == [True, True, False, False]
    assert np.allclose(least[:3], [0.3, 1.3, 0.8])
    assert np.allclose(most[:3], [0.7, 1.7, 1.2])
    assert not enclose_differences(claim, low, high, np.full(4, np.inf))[2].any()


def test_probabilities_differ_less_than_outputs():
    claim = Claim("score", 0.3, "probability")
    _, most, decided = enclose_differences(claim, np.array([-8.0, -1.0]), np.array([-3.0, 1.0]), np.zeros(2))
    assert decided.all()
    assert (most <= 0.3).tolist() == [True, False]
