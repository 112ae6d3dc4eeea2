"""Shares of score claims: what is decided about a box is true for everyone in it, by enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend.network.scores import compute_scores
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.listing import Listing
from fairmend.quantifying.score_decide import (
    ScoreDecider,
    logit_network,
    logit_steps_beyond,
    logit_steps_within,
    make_decider,
)
from fairmend.quantifying.space import make_space
from fairmend.spec import Claim, Spec
from support.quantify_cases import CONTINUOUS, LINKED, SMALL, SPECS, linear, random_boxes, spreads_of
from support.strategies import random_network


def with_claim(spec, delta, on):
    return Spec(spec.features, links=spec.links, claim=Claim("score", delta, on))


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from([*SPECS, *LINKED]),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    on=st.sampled_from(["probability", "logit"]),
    pieces=st.sampled_from([None, 2]),
)
def test_decided_shares_are_lower_bounds(name, seed, outputs, on, pieces):
    """Delta is the spread of someone in the box, so that ties are near."""
    rng, spec = np.random.default_rng(seed), {**SPECS, **LINKED}[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    space = make_space(net, with_claim(spec, 0.5, on), pieces)
    boxes = random_boxes(space, rng, 3)
    spread = [spreads_of(net, space, boxes, row) for row in range(3)]
    delta = float(np.clip(rng.choice(spread[0]), 1e-6, 0.999))
    space = make_space(net, with_claim(spec, delta, on), pieces)
    decider = make_decider(net, space)
    error, listing = np.full(3, decider.root_error()), Listing(decider)
    found = [decider.decide(boxes, error)] + ([listing.decide(boxes, error)] if space.finite else [])
    for row in range(3):
        beyond = (spread[row] > delta).mean()
        for each in found:
            assert each.fair[row] <= 1 - beyond + 1e-12
            assert each.unfair[row] <= beyond + 1e-12


def test_what_both_cases_have_in_common_cancels():
    """The score changes a lot with hours, but by 0.4 with age for everyone: one box is enough."""
    net = linear([0.1, 50, 0, 0, 0, 0], 0)
    for delta, fair in ((0.41, 1), (0.39, 0)):
        found = fairmend.quantify(net, with_claim(SMALL, delta, "logit"), seconds=5)
        assert (found.fair, found.unfair, found.leaves) == (fair, 1 - fair, 1)
        assert not fair or not found.boxes
    assert found.boxes[0].text == "all people: age decides"
    assert (found.boxes[0].positive, found.boxes[0].negative) == ({"age": 24}, {"age": 20})
    assert found.boxes[0].classes is None


@pytest.mark.parametrize("outputs", [1, 2])
def test_people_of_a_continuous_space_are_counted(outputs):
    spec = with_claim(CONTINUOUS, 0.1, "probability")
    net = random_network(np.random.default_rng(3), spec.width, [4], outputs)
    found = fairmend.quantify(net, spec, seconds=10, share=0.1, samples=5000)
    assert found.undecided <= 0.1
    assert found.unfair - 0.02 <= found.sampled <= 1 - found.fair + 0.02


def test_rows_are_counted_too():
    spec = with_claim(SMALL, 0.05, "probability")
    net = random_network(np.random.default_rng(5), spec.width, [4])
    space = make_space(net, spec)
    X = space.people(np.stack([space.root().first[0], space.root().last[0]]), space.values[:1], np.float32)
    beyond = spreads_of(net, space, space.root(), 0)[[0, -1]] > 0.05
    found = fairmend.quantify(net, spec, seconds=5, X=X)
    assert (found.rows.unfair, found.rows.fair) == (beyond.sum(), (~beyond).sum())


def test_the_sigmoid_of_the_logit_is_the_score():
    X = np.random.default_rng(0).normal(size=(20, SMALL.width)).astype(np.float32)
    for outputs in (1, 2):
        net = random_network(np.random.default_rng(1), SMALL.width, [4], outputs)
        scores = 1 / (1 + np.exp(-logit_network(net, "probability").logits(X)))
        np.testing.assert_allclose(scores, compute_scores(net, X, "probability")[:, -1], atol=1e-6)
    assert logit_network(random_network(np.random.default_rng(1), SMALL.width, [4], 3), "probability") is None
    assert logit_network(net, "logit") is net


def test_steps_of_logits_are_safe_and_tight():
    """Compared with all steps on a grid of logits between the ends."""
    rng = np.random.default_rng(0)
    low = np.concatenate([rng.normal(size=200) * 6, [-np.inf, -800, 700, 0, -np.inf]])
    high = np.concatenate([low[:200] + rng.exponential(size=200) * 2, [np.inf, -790, 900, 0, 0]])
    delta = rng.choice([1e-6, 0.02, 0.3, 0.9], len(low))
    within, beyond = logit_steps_within(delta, low, high), logit_steps_beyond(delta, low, high)
    assert np.isfinite(within).mean() > 0.5
    assert np.isfinite(beyond[delta < 0.1]).mean() > 0.3
    for k in range(200):
        z = np.linspace(low[k], high[k], 50)
        if np.isfinite(within[k]):
            assert (sigmoid(z + within[k]) - sigmoid(z)).max() <= delta[k] + 1e-14
            assert (sigmoid(z + 1.001 * within[k] + 1e-9) - sigmoid(z)).max() > delta[k] * 0.99
        if np.isfinite(beyond[k]):
            assert (sigmoid(z + beyond[k]) - sigmoid(z)).min() >= delta[k] - 1e-14


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_the_claim_chooses_the_decider():
    net = linear([1] * SMALL.width, 0)
    assert type(make_decider(net, make_space(net, SMALL))) is Decider
    assert type(make_decider(net, make_space(net, with_claim(SMALL, 1, "logit")))) is ScoreDecider
