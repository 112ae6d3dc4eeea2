"""Discovered instances are reported once, and only if they are confirmed."""

import numpy as np

from fairmend.searching.oracle import Oracle
from fairmend.searching.result import DiscoveredInstances, confirm
from support.search_cases import biased, people, spec


def discovered(rows=80):
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    V = oracle.space.values(people(case, rows))
    return oracle, V, oracle.find_partners(V)


def test_an_instance_that_was_added_twice_is_reported_once():
    oracle, V, found = discovered()
    assert 0 < found.unequal.sum() < len(V)
    collected = DiscoveredInstances(oracle)
    for _ in range(2):
        collected.add(V[found.unequal], found.partner[found.unequal])
    idis, others, keys = collected.confirmed()
    assert np.array_equal(keys, oracle.space.keys(oracle.space.values(idis)))
    assert len(idis) == len(np.unique(oracle.space.keys(V[found.unequal])))
    assert (oracle.net.predict(idis) != oracle.net.predict(others)).all()


def test_rows_that_are_treated_equally_are_not_confirmed():
    oracle, V, found = discovered()
    collected = DiscoveredInstances(oracle)
    collected.add(V[~found.unequal], found.partner[~found.unequal])
    assert [len(side) for side in collected.confirmed()] == [0, 0, 0]


def test_a_neighbour_outside_the_neighbourhood_confirms_nothing():
    oracle, V, found = discovered()
    X = oracle.space.encode(V[found.unequal])
    others = oracle.space.encode(oracle.neighbours(V, found.partner)[found.unequal])
    assert confirm(oracle.net, oracle.spec, X, others).all()
    far = others.copy()
    far[:, 0] = np.where(far[:, 0] > 0.5, 0.0, 1.0)  # another age, which is not protected
    assert not confirm(oracle.net, oracle.spec, X, far).any()
