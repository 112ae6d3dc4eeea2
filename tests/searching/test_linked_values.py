"""Linked features follow the protected ones in the value space, exactly as in the neighbourhood."""

import numpy as np
from hypothesis import given, settings

from fairmend.searching.oracle import Oracle
from support.link_cases import family_spec, linked_specs_and_inputs, listed_values, small_network, values_of


@settings(deadline=None, max_examples=12)
@given(case=linked_specs_and_inputs())
def test_the_neighbours_of_a_row_are_those_of_the_definition(case):
    spec, X = case
    oracle = Oracle(small_network(spec.width), spec, np.random.default_rng(0))
    V = oracle.space.values(X)
    numbers = np.arange(len(oracle._table))
    everything = len(numbers) < 512
    for row, own in enumerate(values_of(spec, X)):
        others = oracle.space.encode(oracle.neighbours(np.repeat(V[row : row + 1], len(numbers), axis=0), numbers))
        found, expected = set(values_of(spec, others)), listed_values(spec, own)
        assert found == expected if everything else found <= expected


def test_the_most_different_neighbour_is_that_of_enumeration():
    spec = family_spec()
    net, X = small_network(spec.width, seed=1), spec.sample_inputs(40, np.random.default_rng(0))
    oracle = Oracle(net, spec, np.random.default_rng(0))
    found = oracle.find_partners(oracle.space.values(X))
    rows, points = next(spec.points(X))
    differs = net.predict(points) != net.predict(X)[rows]
    assert np.array_equal(found.unequal, np.bincount(rows[differs], minlength=len(X)) > 0)
    assert found.unequal.any()
