"""The largest difference of scores in a neighbourhood, and the pair that has it."""

import numpy as np
import pytest

from fairmend.auditing.score_differences import enclose_differences, find_widest_pairs
from fairmend.network.scores import compute_scores
from fairmend.spec import Claim
from support.audit_cases import SPEC, network, people


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
