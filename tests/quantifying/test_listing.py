"""Listed people are decided as enumeration does."""

import numpy as np
import pytest

from fairmend.quantifying.decide import Decider
from fairmend.quantifying.listing import Listing, count_inputs
from fairmend.quantifying.space import Boxes, make_space
from fairmend.spec import Feature, Spec
from support.quantify_cases import CONTINUOUS, LINKED, SMALL, SPECS, TOLERANT, linear, random_boxes, unequal_people
from support.strategies import random_network


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_everyone_in_a_box_is_decided(outputs, dtype):
    rng = np.random.default_rng(outputs)
    net = random_network(rng, SMALL.width, [4, 3], outputs, dtype=dtype)
    space = make_space(net, SMALL)
    listing, boxes = Listing(Decider(net, space)), random_boxes(space, rng, 6)
    found = listing.decide(boxes, np.full(6, np.inf))
    assert listing.inputs(boxes).tolist() == (np.prod(boxes.last - boxes.first + 1, axis=1) * 5).tolist()
    for row in range(6):
        assert found.unfair[row] == unequal_people(net, space, boxes, row).mean()
    assert (found.fair + found.unfair == 1).all()
    assert (found.axis == -1).all()


def test_a_lead_within_rounding_is_not_proven():
    """At the highest level the lead is 0 but for rounding."""
    net = linear([1e-30, 0, 0, 0, 0, 0.1], -0.3)
    space = make_space(net, SMALL)
    found = Listing(Decider(net, space)).decide(space.root(), np.array([np.inf]))
    assert (found.fair[0], found.unfair[0]) == (0.75, 0)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", ["tolerant", "many", "offsets", "dropped"])
def test_similar_people_within_tolerances_and_many_protected_values_are_listed(name, outputs):
    rng, spec = np.random.default_rng(outputs), {**SPECS, **LINKED}[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    space = make_space(net, spec)
    boxes = random_boxes(space, rng, 6)
    found = Listing(Decider(net, space)).decide(boxes, np.full(6, np.inf))
    for row in range(6):
        assert found.unfair[row] == unequal_people(net, space, boxes, row).mean()
    assert found.fair + found.unfair == pytest.approx(1)


def test_the_inputs_of_a_box_are_all_similar_people():
    """Three races; hours within 1 and grades within 2, up to the ends of their ranges."""
    space = make_space(random_network(np.random.default_rng(0), TOLERANT.width, [3]), TOLERANT)
    boxes = Boxes(np.array([[0, 0, 0], [3, 2, 1]]), np.array([[0, 0, 0], [4, 3, 1]]))
    assert count_inputs(space, boxes).tolist() == [3 * 2 * 3 * 1, 3 * 4 * 6 * 1]


def test_continuous_features_and_too_many_protected_values_cannot_be_listed():
    many = [Feature(name=name, kind="integer", range=(1, 30), protected=True) for name in "abc"]
    for spec in (CONTINUOUS, Spec([*many, SMALL.features[1]])):
        space = make_space(random_network(np.random.default_rng(0), spec.width, [3]), spec)
        assert np.isinf(count_inputs(space, space.root())).all()
