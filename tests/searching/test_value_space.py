"""Values and encoded inputs are two views of the same people, and every move ends at a valid input."""

import numpy as np
import pytest
from hypothesis import given

from fairmend.searching.oracle import Oracle, ValueSpace
from support.examples import examples
from support.link_cases import family_spec, linked_specs_and_inputs, listed_values, small_network, values_of
from support.search_cases import SPECS, people, spec


@examples(12)
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


@pytest.mark.parametrize("case", SPECS.values(), ids=SPECS)
def test_values_and_encoding_are_inverse_and_every_move_is_valid(case):
    space, rng = ValueSpace(case, np.float32), np.random.default_rng(0)
    V = space.values(people(case))
    assert space.values(space.encode(V)) == pytest.approx(V, abs=1e-5)
    free = np.flatnonzero(space.free)
    for moved in (
        space.take_random_step(V, rng.choice(free, len(V)), rng),
        space.redraw(V, np.broadcast_to(space.free, V.shape), rng),
        space.clip(V + space.ascent(V, rng.normal(size=(len(V), case.width)))),
    ):
        case.as_inputs(space.encode(moved))
        assert np.array_equal(moved[:, ~space.free], V[:, ~space.free])
        assert (moved != V).any()
    steps = np.abs(space.take_random_step(V, rng.choice(free, len(V)), rng) - V)
    plain = [i for i in free if case.features[i].kind == "integer"]
    assert set(np.unique(steps[:, plain])) <= {0.0, 1.0}


def test_a_one_hot_group_moves_to_the_category_with_the_largest_derivative():
    case = spec()
    space = ValueSpace(case, np.float32)
    V = np.zeros((2, 6))
    V[1, 2] = 2
    G = np.zeros((2, case.width))
    G[:, case.columns("job")] = [0.1, 0.3, 0.2]
    assert (V + space.ascent(V, G))[:, 2].tolist() == [1.0, 1.0]
    assert space.influence(V, G)[:, 2] == pytest.approx([0.2, 0.1])


def test_keys_tell_apart_what_is_not_protected_and_nothing_else():
    case = spec()
    space = ValueSpace(case, np.float32)
    V = space.values(people(case, rows=3000))
    kept = np.delete(V, 1, axis=1)
    assert len(np.unique(space.keys(V))) == len(np.unique(kept, axis=0))
    flipped = V.copy()
    flipped[:, 1] = 1 - flipped[:, 1]
    assert np.array_equal(space.keys(V), space.keys(flipped))


def test_whole_numbers_have_keys_of_their_own():
    case = spec(one_hot=False)
    space = ValueSpace(case, np.float32)
    grid = np.array(np.meshgrid(*[np.arange(20.0)] * 3)).reshape(3, -1).T
    V = np.zeros((len(grid), 6))
    V[:, [0, 2, 3]] = grid
    assert len(np.unique(space.keys(V))) == len(V)
