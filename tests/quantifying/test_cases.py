"""Counterfactuals of linked features: what is decided about a box is true for everyone in it, by enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.quantifying.cases import person_forms
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.listing import Listing
from fairmend.quantifying.space import make_space
from support.quantify_cases import LINKED, people_of, random_boxes, unequal_people
from support.strategies import random_network


@settings(deadline=None, max_examples=25)
@given(
    name=st.sampled_from(list(LINKED)),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    pieces=st.sampled_from([None, 64, 2]),
)
def test_decided_shares_are_lower_bounds(name, seed, outputs, pieces):
    rng, spec = np.random.default_rng(seed), LINKED[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    space = make_space(net, spec, pieces)
    decider, boxes = Decider(net, space), random_boxes(space, rng, 4)
    error, listing = np.full(4, decider.root_error()), Listing(decider)
    found = [decider.decide(boxes, error)] + ([listing.decide(boxes, error)] if space.finite else [])
    for row in range(4):
        unequal = unequal_people(net, space, boxes, row).mean()
        for each in found:
            assert each.fair[row] <= 1 - unequal + 1e-12
            assert each.unfair[row] <= unequal + 1e-12


@pytest.mark.parametrize("name", LINKED)
def test_hulls_contain_all_counterfactuals_and_forms_are_below_theirs(name):
    """Each counterfactual that the spec lists is in a case, where its form is at least that of the person."""
    rng, spec = np.random.default_rng(0), LINKED[name]
    space = make_space(random_network(rng, spec.width, [3]), spec)
    boxes = random_boxes(space, rng, 4)
    cases = space.cases(boxes)
    lower, upper = (each.reshape(4, space.pieces, -1) for each in space.hulls(boxes, cases))
    A, c = rng.normal(size=spec.width), 0.5
    G, below = person_forms(space, boxes, cases, np.tile(A, (len(cases.first), 1)), np.full(len(cases.first), c))
    for row in range(4):
        people = people_of(space, boxes, row, np.float32)
        cells = np.stack(
            np.meshgrid(*map(np.arange, boxes.first[row], boxes.last[row] + 1), indexing="ij"), -1
        ).reshape(len(people), -1)
        columns = np.hstack([axis.low[cells[:, k]] for k, axis in enumerate(space.axes)])
        places = np.concatenate([np.arange(axis.columns.start, axis.columns.stop) for axis in space.axes])
        for numbers, points in spec.points(people, dtype=np.float32):
            inside = ((lower[row][:, None] <= points) & (points <= upper[row][:, None])).all(axis=2)
            assert inside.any(axis=0).all()
            if not any(axis.reach for axis in space.axes):
                form = np.stack([columns[numbers] @ g[places] for g in G.reshape(4, space.pieces, -1)[row]])
                form += below.reshape(4, space.pieces)[row][:, None]
                free = points.astype(np.float64)
                free[:, space.columns] = 0
                least = np.where(inside, form, np.inf).min(axis=0)
                assert (least <= free @ A + c + 1e-9).all()
