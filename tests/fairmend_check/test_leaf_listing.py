"""Leaves whose people are listed: counted as an enumeration counts them."""

import numpy as np
import pytest

from fairmend.quantify.space import Boxes, make_space
from fairmend_check import leaf_listing
from fairmend_check.leaf_bounds import LeafProver
from fairmend_check.leaf_listing import count_inputs, list_people
from fairmend_check.tally import Counts
from support.quantify_cases import SMALL, TOLERANT, unequal_people
from support.share_cases import CONTINUOUS, checked_model, checked_spec, many_linked, people_of_spec, random_leaves
from support.strategies import random_network


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 300, 10**6])
def test_people_are_counted_one_by_one(outputs, at_once, monkeypatch):
    monkeypatch.setattr(leaf_listing, "_NUMBERS", at_once)
    rng = np.random.default_rng(3)
    net, people = random_network(rng, SMALL.width, [5], outputs), people_of_spec(SMALL)
    leaves = random_leaves(people, rng, 6)
    model, n = checked_model(net), len(leaves.first)
    found = Counts(np.zeros(n), np.zeros(n), np.zeros(n, bool))
    prover = LeafProver(model, checked_spec(SMALL), people)
    list_people(prover, leaves.first, leaves.last, found, np.arange(1, n))
    space, boxes = make_space(net, SMALL), Boxes(leaves.first, leaves.last)
    unequal = [unequal_people(net, space, boxes, row) for row in range(n)]
    assert found.unfair.tolist() == [0, *(each.sum() for each in unequal[1:])]
    assert found.fair.tolist() == [0, *((~each).sum() for each in unequal[1:])]
    assert found.exact.tolist() == [False] + [True] * (n - 1)


def test_only_single_people_are_listed():
    for spec, inputs in ((SMALL, 600), (TOLERANT, np.inf), (CONTINUOUS, np.inf)):
        people = people_of_spec(spec)
        root = random_leaves(people, np.random.default_rng(0), 0)
        assert count_inputs(people, root.first, root.last).tolist() == [inputs]


def test_a_linked_feature_of_many_categories_needs_memory_for_each(monkeypatch):
    """People of two leaves, each with two sexes, fit into what is evaluated at once, but not with all categories."""
    spec = many_linked(1, 100)
    people, net = people_of_spec(spec), random_network(np.random.default_rng(3), spec.width, [])
    prover, rows = LeafProver(checked_model(net), checked_spec(spec), people), []
    whole = people.inputs
    object.__setattr__(people, "inputs", lambda cells, values: [rows.append(len(cells)), whole(cells, values)][1])
    monkeypatch.setattr(leaf_listing, "_NUMBERS", 2 * 200 * 100)
    job = np.arange(4)[:, None] * [1, 0]
    list_people(prover, job, job, Counts(np.zeros(4), np.zeros(4), np.zeros(4, bool)), np.arange(4))
    assert rows == [1, 1, 1, 1]
