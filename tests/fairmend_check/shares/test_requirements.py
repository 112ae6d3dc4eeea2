"""Shares of score claims: what the checker proves of a leaf is true for everyone in it, by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.spec import Claim, Spec
from fairmend_check.shares.listing import list_people
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.requirements import steps_beyond, steps_within
from support.checker_cases import read, write
from support.checker_models import checked_model
from support.examples import examples
from support.quantify_cases import LINKED, MANY, SMALL, SPECS, linear, spreads_of
from support.share_cases import checked_spec, people_of_spec, random_leaves
from support.strategies import random_network


def with_claim(spec, delta, on):
    return Spec(spec.features, links=spec.links, claim=Claim("score", delta, on))


@examples(25)
@given(
    name=st.sampled_from([*SPECS, *LINKED]),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    on=st.sampled_from(["probability", "logit"]),
    divided=st.booleans(),
)
def test_what_is_proven_of_a_leaf_is_true(name, seed, outputs, on, divided):
    """Delta is the spread of someone in the first leaf, so that ties are near."""
    rng, spec = np.random.default_rng(seed), {**SPECS, **LINKED}[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    people = people_of_spec(spec, [2 if divided else 1 for feature in spec.features if feature.protected])
    leaves = random_leaves(people, rng, 4)
    rows = range(min(3, len(leaves.first)))
    spread = [spreads_of(net, with_claim(spec, 0.5, on), leaves, row) for row in rows]
    delta = float(np.clip(rng.choice(spread[0]), 1e-6, 0.999))
    prover = Prover(checked_model(net), checked_spec(with_claim(spec, delta, on)), people)
    everyone = np.ones(len(leaves.first), np.bool_)
    found = prover.prove(leaves, everyone)
    listed = prover.prove(leaves, ~everyone)
    if people.finite:
        list_people(prover, leaves, listed, np.arange(len(leaves.first)))
    for row in rows:
        beyond = spread[row] > delta
        for each in (found, listed):
            size = 1 if each.exact[row] else len(beyond)
            assert each.unfair[row] * size <= beyond.sum() + 1e-6
            assert each.fair[row] * size <= (~beyond).sum() + 1e-6


def test_what_two_cases_have_in_common_cancels():
    """The score changes a lot with hours, and by 0.4 with age for everyone."""
    net = linear([0.1, 50, 0, 0, 0, 0], 0)
    for delta, fair in ((0.41, 1), (0.39, 0)):
        people = people_of_spec(SMALL, [5])
        root = random_leaves(people, np.random.default_rng(0), 0)
        prover = Prover(checked_model(net), checked_spec(with_claim(SMALL, delta, "logit")), people)
        found = prover.prove(root, np.array([True]))
        assert (found.fair[0], found.unfair[0]) == (fair, 1 - fair)


@pytest.fixture(scope="module", params=["probability", "logit"])
def scored(request, tmp_path_factory):
    """A certificate of shares of a score claim, with people of all three kinds."""
    folder, spec = tmp_path_factory.mktemp("scored"), with_claim(MANY, 0.5, request.param)
    net = random_network(np.random.default_rng(6), spec.width, [6, 4])
    net.save(folder / "model.onnx")
    delta = float(np.median(spreads_of(net, spec)))
    found = fairmend.quantify(net, with_claim(MANY, delta, request.param), seconds=20, share=0.2, samples=0)
    assert found.fair > 0.1
    assert found.unfair > 0.1
    found.certificate.save(folder / "certificate.json", folder / "model.onnx")
    return folder, found


def test_a_certificate_of_scores_is_valid(scored):
    folder, found = scored
    checked = fairmend.check(folder / "certificate.json", folder / "model.onnx")
    assert checked.valid, (checked.reasons, found, checked.fair, checked.unfair)
    assert checked.fair <= 0.501
    assert checked.unfair <= 0.501


def test_a_file_without_a_closing_sigmoid_makes_it_a_condition(scored):
    folder, found = scored
    checked = fairmend.check(folder / "certificate.json", folder / "model.onnx")
    probability = found.evidence.spec.claim.on == "probability"
    assert ("the file does not compute probabilities" in checked.condition) == probability


def test_the_same_shares_of_another_delta_are_not_confirmed(scored):
    """All else is consistent: the spec, its digest and the sentence are those of half the delta."""
    folder, found = scored
    evidence = found.evidence
    claim = evidence.spec.claim
    stricter = with_claim(evidence.spec, claim.limit / 2, claim.on)
    forged = replace(evidence, spec=stricter).certificate()
    forged.save(folder / "stricter.json", folder / "model.onnx")
    checked = fairmend.check(folder / "stricter.json", folder / "model.onnx")
    assert not checked.valid
    assert "certificate.shares.fair" in checked.reasons[0]


@pytest.mark.parametrize("forgery", ["delta", "on", "fair", "leaf"])
def test_a_forged_certificate_of_scores_is_invalid(scored, forgery, tmp_path):
    content = read(scored[0] / "certificate.json")
    claim = content["spec"]["claim"]
    if forgery == "delta":
        claim["delta"] /= 2
    elif forgery == "on":
        claim["on"] = "logit" if claim["on"] == "probability" else "probability"
    elif forgery == "fair":
        content["shares"]["fair"] += 0.3
    else:
        content["shares"]["leaves"] -= 1
    assert not fairmend.check(write(tmp_path, content), scored[0] / "model.onnx").valid


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_steps_of_logits_are_safe_and_tight():
    """Compared with all steps on a grid of logits between the ends."""
    rng = np.random.default_rng(0)
    low = np.concatenate([rng.normal(size=200) * 6, [-np.inf, -800, 700, 0, -np.inf]])
    high = np.concatenate([low[:200] + rng.exponential(size=200) * 2, [np.inf, -790, 900, 0, 0]])
    delta = rng.choice([1e-6, 0.02, 0.3, 0.9], len(low))
    within, beyond = steps_within(delta, low, high), steps_beyond(delta, low, high)
    assert np.isfinite(within).mean() > 0.5
    assert np.isfinite(beyond[delta < 0.1]).mean() > 0.3
    for k in range(200):
        z = np.linspace(low[k], high[k], 50)
        if np.isfinite(within[k]):
            assert (sigmoid(z + within[k]) - sigmoid(z)).max() <= delta[k] + 1e-14
            assert (sigmoid(z + 1.001 * within[k] + 1e-9) - sigmoid(z)).max() > delta[k] * 0.99
        if np.isfinite(beyond[k]):
            assert (sigmoid(z + beyond[k]) - sigmoid(z)).min() >= delta[k] - 1e-14
