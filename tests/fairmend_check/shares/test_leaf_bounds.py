"""Linear bounds of a leaf: whole leaves, and the people on the sure side."""

import numpy as np
import pytest

from fairmend_check.shares import leaf_bounds
from fairmend_check.shares.leaf_bounds import LeafProver
from support.quantify_cases import MANY, SMALL, linear
from support.share_cases import checked_model, checked_spec, people_of_spec, random_leaves
from support.strategies import random_network


def prover_of(net, spec, people):
    return LeafProver(checked_model(net), checked_spec(spec), people)


def prove_root(net, spec, parts=None):
    people = people_of_spec(spec, parts)
    root = random_leaves(people, np.random.default_rng(0), 0)
    found = prover_of(net, spec, people).prove(root.first, root.last, np.array([True]))
    return found.fair[0], found.unfair[0], bool(found.exact[0])


def test_whole_leaves_are_decided_without_counting():
    """Numbers that are not exact are shares: all of the leaf."""
    assert prove_root(linear([0.01, 0.01, 0, 0, 0, 0], 1), SMALL) == (1, 0, False)
    assert prove_root(linear([-0.01, 0.01, 0, 0, 0, 0], -1), SMALL) == (1, 0, False)
    assert prove_root(linear([1, 0.01, 0, 0, 0, 0], -22.1), SMALL, [5]) == (0, 1, False)


def test_people_on_the_sure_side_of_a_linear_network_are_all_counted():
    """The lead is age + hours - 28.5, so age decides if hours are 5 to 8."""
    net = linear([1, 3, 0, 0, 0, 0], -24.5)
    assert prove_root(net, SMALL, [5]) == (72, 48, True)
    assert prove_root(net, SMALL, [1]) == (72, 48, True)  # the ends of the only piece are enough


def test_two_values_of_wide_pieces_decide(monkeypatch):
    """The bounds over pieces of 21 ages prove nothing; those of two ages do."""
    net = random_network(np.random.default_rng(13), MANY.width, [6])
    assert 0 < prove_root(net, MANY, [2, 3])[1] <= 78
    none = np.empty(0, np.int64), np.empty((0, 2, MANY.width)), np.empty((0, 2), np.int64)
    monkeypatch.setattr(LeafProver, "_unequal_values", lambda self, boxes: none)
    assert prove_root(net, MANY, [2, 3])[1] == 0


@pytest.mark.parametrize("bias", [0.0, 1e-6, -1e-6])
def test_a_lead_within_the_error_of_inference_proves_nothing(bias):
    assert prove_root(linear([1e-9, 0, 0, 0, 0, 0], bias), SMALL) == (0, 0, True)


def test_classes_of_points_need_a_lead_beyond_the_error():
    people = people_of_spec(SMALL)
    prover = prover_of(linear([1, 0, 0, 0, 0, 0], 0), SMALL, people)
    low, high = np.array([[0.1], [-0.3], [0.1]]), np.array([[0.2], [-0.2], [0.2]])
    assert prover.sure_classes(low, high, np.array([0.05, 0.05, 0.11])).tolist() == [1, 0, -1]


def test_values_of_protected_features_are_evaluated_some_at_once(monkeypatch):
    net, people = random_network(np.random.default_rng(13), MANY.width, [6]), people_of_spec(MANY)
    prover, X = prover_of(net, MANY, people), np.random.default_rng(1).normal(size=(50, MANY.width))
    rows, whole, expected = [], leaf_bounds.interval_layers, prover._outputs(X)
    monkeypatch.setattr(leaf_bounds, "_EVALUATED", 20 * prover.model.held)
    monkeypatch.setattr(leaf_bounds, "interval_layers", lambda *given: [rows.append(len(given[1])), whole(*given)][1])
    assert np.allclose(prover._outputs(X), expected)
    assert rows == [20, 20, 10]
