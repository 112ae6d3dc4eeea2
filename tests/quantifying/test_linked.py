"""Links in the space of people: who has which linked values."""

import numpy as np
import pytest

import fairmend
from fairmend.quantifying.space import make_space
from fairmend.spec import Feature, Spec
from support.quantify_cases import LINKED, linear, people_of, unequal_people
from support.strategies import random_network


@pytest.mark.parametrize("name", LINKED)
def test_listed_counterfactuals_are_those_of_the_spec(name):
    """Without tolerances, a person and all variants are exactly the points of the neighbourhood."""
    rng, spec = np.random.default_rng(1), LINKED[name]
    space = make_space(random_network(rng, spec.width, [3]), spec)
    if any(axis.reach for axis in space.axes):
        return
    assert space.all_values
    sizes = [axis.cells for axis in space.axes]
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    found = space.people(cells, space.values, np.float32).reshape(len(cells), len(space.values), -1)
    neighbourhoods = [set() for _ in cells]
    for rows, points in spec.points(people_of(space, space.root(), 0, np.float32), dtype=np.float32):
        for row, point in zip(rows, points, strict=True):
            neighbourhoods[row].add(tuple(point.tolist()))
    assert neighbourhoods == [{tuple(point) for point in each.tolist()} for each in found]


def test_own_values_count_where_links_depend_on_them():
    """A wife's male counterfactual is a husband, but a man stays what he is."""
    spec = LINKED["ordinal"]
    net = linear([0, 0, 0, 1], -0.5)  # class 1 but for husbands
    found = fairmend.quantify(net, spec, seconds=5)
    space = make_space(net, spec)
    assert [axis.feature.name for axis in space.axes] == ["relation", "sex"]
    # Husbands who are men, and wives who are women, change; so does any other woman who may become a husband.
    assert found.unfair == pytest.approx(unequal_people(net, space, space.root(), 0).mean())
    assert found.unfair == pytest.approx(3 / 6)
    assert found.undecided < 1e-9


def test_a_network_blind_to_all_that_links_change_is_fair_at_once():
    assert fairmend.quantify(linear([0, 0, 0, 1], -0.5), LINKED["offset"], seconds=5).unfair > 0
    assert fairmend.quantify(linear([0, 0, 0, 0], 1), LINKED["offset"], seconds=5).fair == 1


def test_continuous_features_are_linked_too():
    """Being older than 30 means one more year: unequal are those whose year crosses the threshold."""
    spec = Spec(
        [
            Feature(name="age", kind="continuous", range=(20, 40), protected=True),
            Feature(name="year", kind="continuous", range=(0, 4)),
        ],
        links=[{"when": {"age": [30.3, 40]}, "then": {"year": {"offset": 1}}}],
    )
    net = linear([0, 1], -2.5)
    found = fairmend.quantify(net, spec, seconds=20, share=0.02, samples=100)
    assert found.unfair == pytest.approx(0.25, abs=0.02)
    assert found.fair == pytest.approx(0.75, abs=0.02)
    assert found.unfair <= 0.25 <= 1 - found.fair
