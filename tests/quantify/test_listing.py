"""Listed people are decided as enumeration does."""

import numpy as np
import pytest

from fairmend.quantify.decide import Decider
from fairmend.quantify.listing import Listing
from fairmend.quantify.space import make_space
from support.quantify_cases import CONTINUOUS, SMALL, SPECS, TOLERANT, linear, random_boxes, unequal_people
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


def test_people_with_tolerances_or_continuous_features_cannot_be_listed():
    for spec, possible in ((SMALL, True), (TOLERANT, False), (CONTINUOUS, False), (SPECS["many"], False)):
        net = random_network(np.random.default_rng(0), spec.width, [3])
        assert Listing(Decider(net, make_space(net, spec))).possible == possible
