"""Branch and bound decides what random neighbours leave open, and agrees with enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.auditing.neighbours import find_unequal
from fairmend.auditing.plan import BranchScan, can_branch
from fairmend.spec import Claim, Spec
from support.audit_cases import SPEC, network, people
from support.huge_cases import SPECS as HUGE
from support.score_cases import largest_differences, score_spec
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs, unhurried


@unhurried
@given(
    case=specs_and_inputs(finite=True, rows=8),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    activation=st.sampled_from(ACTIVATIONS),
)
def test_what_it_decides_is_what_enumeration_finds(case, seed, outputs, activation):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], outputs, activation, dtype=X.dtype)
    found, expected = BranchScan(net, spec, per_row=1, seed=0).scan(X), find_unequal(net, spec, X).rows
    decided = ~found.unknown
    assert np.array_equal(found.unequal[decided], expected[decided])
    assert not (found.unequal & found.unknown).any()
    shown = found.unequal
    assert (net.predict(found.other[shown]) != net.predict(X[shown])).all()
    assert (found.gap[shown] > 0).all()
    assert spec.are_similar(X[shown], found.other[shown]).all()


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_pairs_of_a_score_claim_differ_by_more_than_delta(outputs):
    spec, net, X = score_spec(0.2, "probability"), network(outputs), people(30)
    scanner = BranchScan(net, spec, per_row=1, seed=0)
    found, expected = scanner.scan(X), largest_differences(net, spec, X) > 0.2
    assert not found.unknown.any()
    assert np.array_equal(found.unequal, expected)
    assert (found.gap[expected] > 0.2).all()
    assert np.array_equal(scanner.worst(X).unequal, expected)


def test_a_neighbour_that_random_ones_miss_is_found():
    """Only one of 58 ages gets another prediction, inside the range."""
    spec = Spec(SPEC.features[:2])
    net, X = needle(spec), people(5, spec=spec)
    seen = BranchScan(net, spec, per_row=1, seed=0)._random.scan(X)
    found = BranchScan(net, spec, per_row=1, seed=0).scan(X)
    assert not seen.unequal.any()
    assert found.unequal.all()
    assert BranchScan(net, spec, per_row=1, seed=0).worst(X).unequal.all()


def needle(spec):
    """Return a network that is positive at age 40 alone, whoever the person is."""
    from fairmend.network import Activation, Affine, Network

    at = (40 - 18) / 57
    first = np.zeros((2, spec.width), np.float32)
    first[:, 0] = 1, -1
    hidden = Affine(first, np.array([-at, at], np.float32))
    return Network([hidden, Affine(-np.ones((1, 2), np.float32), np.array([0.005], np.float32))], [Activation("relu")])


def test_one_hot_features_that_multiply_too_often_cannot_be_branched():
    net = needle(SPEC)
    assert can_branch(net, SPEC)
    assert not can_branch(net, HUGE["three hundred one-hot features"])


def test_a_claim_with_a_large_delta_is_proven():
    spec = Spec(SPEC.features, claim=Claim("score", 0.999, "probability"))
    found = BranchScan(network(), spec, per_row=1, seed=0).scan(people(20))
    assert not found.unequal.any()
    assert not found.unknown.any()
