"""Bounds of scores contain the scores of all points, and the errors of inference exceed what is seen."""

import numpy as np
import pytest

from fairmend.network.scores import compute_scores
from fairmend.prove.score_bounds import (
    bound_scores,
    bound_scores_at_points,
    require_scores,
    score_error,
    softmax_bounds,
)
from fairmend.spec import Claim
from support.spec_cases import refused
from support.strategies import random_network

CLAIMS = [Claim("score", 0.1, on) for on in ("probability", "logit")]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.on)
@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_bounds_contain_the_scores(claim, outputs, scale):
    rng = np.random.default_rng(outputs)
    net = random_network(rng, 3, [6, 5], outputs, dtype=np.float32)
    middle = rng.normal(size=(20, 3)).astype(np.float32) * np.float32(scale)
    lower, upper = middle - np.float32(0.1 * scale), middle + np.float32(0.1 * scale)
    low, high = bound_scores(net, claim, lower, upper)
    for _ in range(20):
        share = rng.random(middle.shape, dtype=np.float32)
        points = np.clip(lower + (upper - lower) * share, lower, upper)
        real = compute_scores(net.astype(np.float64), points, claim.on)
        assert ((low <= real + 1e-12) & (real - 1e-12 <= high)).all()
        least, most = bound_scores_at_points(net, claim, points)
        assert ((least <= real) & (real <= most)).all() or claim.on == "probability"
        assert (np.abs(least - real) <= 1e-10 * (1 + np.abs(real))).all()
        error = score_error(net, claim, points, points)
        assert (np.abs(compute_scores(net, points, claim.on) - real) <= error).all()
        assert (error <= score_error(net, claim, lower, upper) * (1 + 1e-6)).all()


def test_probabilities_stay_between_0_and_1():
    net = random_network(np.random.default_rng(0), 2, [4], 3)
    huge = np.full((1, 2), 1e6, np.float32)
    for claim in CLAIMS[:1]:
        low, high = bound_scores(net, claim, -huge, huge)
        assert ((low >= 0) & (high <= 1) & (low <= high)).all()


def test_the_output_of_a_network_that_ends_in_a_sigmoid_is_not_its_raw_output():
    net = random_network(np.random.default_rng(0), 2, [4], 1)
    closed = type(net)(net.affines, net.activations, "sigmoid")
    claim = Claim("score", 1.0, "output")
    require_scores(net, claim)
    for on in ("logit", "probability"):
        require_scores(closed, Claim("score", 0.1, on))
    with refused("ends in a sigmoid", 'on = "probability" or "logit"'):
        require_scores(closed, claim)


def test_no_probability_is_0_even_where_exp_overflows():
    low, high = softmax_bounds(np.array([[[0.0, 800.0], [-800.0, 0.0]]]))
    assert (low >= 0).all()
    assert high[0, 1] > 0
