"""Enumeration agrees with brute force."""

import numpy as np
import pytest
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines.findings import ScoreFindings, ScoreRanges
from fairmend.spec import Claim, Spec
from support.audit_cases import AGE, INCOME, SPEC, people
from support.certify_cases import balanced_network, check_agreement, check_witnesses, finite_cases
from support.score_cases import check_verdicts, largest_differences, score_spec
from support.spec_cases import refused
from support.strategies import ACTIVATIONS, random_network

# Engine enumerate on claims about scores: its verdicts are those of brute force.


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["probability", "logit"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_verdicts_on_scores_are_those_of_brute_force(outputs, on, activation):
    net, X = random_network(np.random.default_rng(1), SPEC.width, [6], outputs, activation), people(8)
    differences = largest_differences(net, score_spec(0.5, on), X)
    spec = score_spec(float(np.median(differences)), on)
    result = fairmend.certify(net, spec, X, "enumerate")
    check_verdicts(net, spec, X, result, differences)
    assert 0 < result.counts["unfair"] < 8
    shown = next(witness for witness in result.witnesses if witness)
    assert "instead of" in shown.describe(spec)
    assert shown.as_dict(spec)["scores"] == list(shown.scores)


def slope(weight, dtype=np.float32):
    """A network whose output is the weight times the age, from 0 to 1."""
    return Network([Affine(np.full((1, 1), weight, dtype), np.zeros(1, dtype))], [])


def test_a_difference_within_rounding_of_delta_is_unknown():
    spec = Spec([AGE], claim=Claim("score", 1.0, "output"))
    X = np.zeros((1, 1), np.float32)
    result = fairmend.certify(slope(1.0), spec, X, "enumerate")
    assert result.reasons == (ScoreFindings.within_rounding,)
    assert fairmend.certify(slope(1.001), spec, X, "enumerate").counts["unfair"] == 1
    assert fairmend.certify(slope(0.999), spec, X, "enumerate").counts["fair"] == 1
    barely = fairmend.certify(slope(1 + 2**-23), spec, X, "enumerate").witnesses[0]
    assert barely.tie
    assert (barely.answer, barely.other_answer) == (None, None)


def test_infinite_neighbourhoods_are_refused_and_milp_too():
    income = INCOME.__class__("income", "continuous", range=(0, 1), protected=True)
    spec = Spec([income], claim=Claim("score", 1.0, "output"))
    with refused("engine enumerate", "income", "use engine branch"):
        fairmend.certify(slope(1.0), spec, [[0.5]], "enumerate")
    with refused("engine milp compares classes"):
        fairmend.certify(slope(1.0), spec, [[0.5]], "milp")


def test_the_time_limit_leaves_the_rest_unknown():
    net, X = random_network(np.random.default_rng(1), SPEC.width, [6], 1), people(8)
    result = fairmend.certify(net, score_spec(0.5, "logit"), X, "enumerate", time_limit=1e-9)
    assert set(result.reasons) == {"time limit"}


def test_no_bounds_prove_nothing():
    bounds = ScoreRanges(2, 1)
    bounds.add(np.array([1]), np.full((1, 1), -0.1), np.full((1, 1), 0.6))
    assert bounds.within(0.8).tolist() == [False, True]
    assert bounds.within(0.6).tolist() == [False, False]
    bounds.forget(np.array([1]))
    assert bounds.within(0.8).tolist() == [False, False]


@finite_cases
def test_enumeration_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = balanced_network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    report = certify(net, spec, X, "enumerate")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)
