"""What is decided about a box is true for everyone in it, by enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.quantifying.decide import Decider
from fairmend.quantifying.space import Boxes, make_space
from support.quantify_cases import SMALL, SPECS, linear, random_boxes, unequal_people
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import unhurried


@unhurried
@given(
    name=st.sampled_from(list(SPECS)),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 4),
    activation=st.sampled_from(ACTIVATIONS),
    dtype=st.sampled_from([np.float32, np.float64]),
    threshold=st.sampled_from([0.5, 0.3]),
    pieces=st.sampled_from([None, 8, 2]),
    counting=st.booleans(),
)
def test_decided_shares_are_lower_bounds(name, seed, outputs, activation, dtype, threshold, pieces, counting):
    rng, spec = np.random.default_rng(seed), SPECS[name]
    net = random_network(rng, spec.width, rng.integers(2, 6, rng.integers(1, 3)).tolist(), outputs, activation, dtype)
    net = net if outputs > 2 else net.at_threshold(threshold)
    space = make_space(net, spec, pieces)
    boxes = random_boxes(space, rng, 4)
    decider = Decider(net, space, counting=counting)
    found = decider.decide(boxes, np.full(4, decider.root_error()))
    for row in range(4):
        unequal = unequal_people(net, space, boxes, row).mean()
        assert found.fair[row] <= 1 - unequal + 1e-12
        assert found.unfair[row] <= unequal + 1e-12


def test_a_linear_network_is_decided_but_for_the_slab_of_rounding():
    """Class 1 if hours + age is large: everyone near the boundary is treated unequally, and counted as such."""
    net = linear([1, 3, 0, 0, 0, 0], -22.5)
    space = make_space(net, SMALL)
    decider = Decider(net, space)
    found = decider.decide(space.root(), np.array([decider.root_error()]))
    unequal = unequal_people(net, space, space.root(), 0).mean()
    assert 0.1 < unequal < 0.9
    assert found.unfair[0] == pytest.approx(unequal, abs=1e-6)
    assert found.fair[0] == pytest.approx(1 - unequal, abs=1e-6)


@pytest.mark.parametrize(("beyond", "decided"), [(2e-7, False), (1e-4, True)])
def test_a_logit_that_a_probability_may_round_to_the_threshold_is_not_decided(beyond, decided):
    """The file has no sigmoid; a program that computes one in float32 and compares with 0.7 rounds such a logit."""
    net = linear([0, 1e-9, 0, 0, 0, 0], np.log(0.7 / 0.3) + beyond).at_threshold(0.7)
    space = make_space(net, SMALL)
    decider = Decider(net, space)
    found = decider.decide(space.root(), np.zeros(1))
    assert (found.fair[0] == 1) == decided


def planted(spec, seed=0):
    """Return a network with three classes in which the protected column decides for many people."""
    rng = np.random.default_rng(seed)
    return random_network(rng, spec.width, [4], 3)


def test_some_of_three_classes_are_proven_to_be_unequal_for_part_of_a_box():
    proven = []
    for seed in range(20):
        net = planted(SMALL, seed)
        space = make_space(net, SMALL, 2)
        assert not space.single
        boxes = random_boxes(space, np.random.default_rng(seed), 20)
        decider = Decider(net, space)
        found = decider.decide(boxes, np.full(20, decider.root_error()))
        truth = [unequal_people(net, space, boxes, row).mean() for row in range(20)]
        assert (found.unfair <= np.array(truth) + 1e-12).all()
        proven += [share for share, true in zip(found.unfair, truth, strict=True) if 0 < share < 1 and true < 1]
    assert proven


def test_a_box_of_one_cell_is_not_split():
    net = linear([1, 3, 0, 0, 0, 0], -22.5)
    space = make_space(net, SMALL)
    cell = space.root().first
    found = Decider(net, space).decide(Boxes(cell, cell), np.zeros(1))
    assert found.axis[0] == -1


def test_a_single_cell_is_decided_with_the_error_of_inference_at_that_cell():
    net = linear([0.01, 3, 0, 0, 0, 0], 0.1)
    space = make_space(net, SMALL)
    cell = space.root().last
    found = Decider(net, space, counting=False).decide(Boxes(cell, cell), np.array([1e6]))
    assert found.fair[0] == 1
    assert found.error[0] < 1e-3
