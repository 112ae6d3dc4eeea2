"""The oracle finds the neighbour that enumeration finds, and counts what it evaluates."""

import numpy as np
import pytest

from fairmend.searching.oracle import Oracle
from support.search_cases import SPECS, biased, people


@pytest.fixture(params=SPECS.values(), ids=SPECS)
def case(request):
    return request.param


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_most_different_neighbour_is_that_of_enumeration(case, outputs):
    net = biased(case, outputs)
    oracle = Oracle(net, case, np.random.default_rng(0))
    V = oracle.space.values(people(case, rows=40))
    X = oracle.space.encode(V)
    found = oracle.find_partners(V)
    others = oracle.space.encode(oracle.neighbours(V, found.partner))
    assert np.array_equal(found.unequal, net.predict(others) != net.predict(X))
    rows, points = zip(*case.points(X), strict=True)
    rows, points = np.concatenate(rows), np.concatenate(points)
    logits, own = net.logits(points).reshape(len(points), -1), net.predict(X)
    for i in range(len(X)):
        mine = logits[rows == i]
        k = own[i]
        leads = mine[:, 0] * (2 * k - 1) if outputs == 1 else mine[:, k] - np.delete(mine, k, axis=1).max(axis=1)
        assert found.unequal[i] == (net.predict(points[rows == i]) != k).any()
        deepest = leads.min() if found.unequal[i] else leads[np.abs(leads - found.own[i]).argmax()]
        assert found.theirs[i] == pytest.approx(deepest, abs=1e-4)
