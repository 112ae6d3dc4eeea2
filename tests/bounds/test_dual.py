"""Bounds from multipliers: no tolerance in any comparison with exact values, whatever the multipliers are."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.bounds.dual import dual_bound, knots_of, tightened
from fairmend.bounds.rigorous import bounds_and_layers
from fairmend.network import Activation, Affine, Network
from support.exact import KINKED, boxes, exact_logits, exact_nodes, hard_networks
from support.graphs import PIECEWISE_LINEAR, graph_boxes, hard_graphs, points_of


def root_intervals(network, lower, upper):
    """Rigorous intervals of the inputs of every function over the box (inputs,)."""
    return [(low[0], high[0]) for low, high in bounds_and_layers(network, lower[None], upper[None])[2]]


def exact_units(network, x):
    """The exact inputs of every function."""
    values = exact_nodes(network, x)
    return [values[network.nodes[i].sources[0]] for i in network.functions]


def inside(units, values):
    return all(
        float(low[j]) <= value <= float(high[j])
        for (low, high), layer in zip(units, values, strict=True)
        for j, value in enumerate(layer)
    )


def cut(rng, units):
    """Cut some intervals at the kink."""
    parts = []
    for low, high in units:
        crosses = (low < 0) & (high > 0)
        side = rng.integers(0, 3, size=len(low))
        parts.append((np.where(crosses & (side == 1), 0.0, low), np.where(crosses & (side == 2), 0.0, high)))
    return parts


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_multipliers_are_sound_and_no_point_is_lost(data):
    network = data.draw(hard_networks(KINKED, spread=data.draw(st.sampled_from((4, 30)))))
    check(data, network, *(ends[0] for ends in data.draw(boxes(network.inputs))))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_any_multipliers_are_sound_over_graphs(data):
    network = data.draw(hard_graphs(PIECEWISE_LINEAR, spread=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    check(data, network, *(ends[0] for ends in graph_boxes(network, rng, 1)))


def check(data, network, lower, upper):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size = data.draw(st.sampled_from((1.0, 1e8, 1e200)))
    units = cut(rng, root_intervals(network, lower, upper))
    points = points_of(network, lower, upper, rng)
    remaining = [x for x in points if inside(units, exact_units(network, x))]
    smaller = tightened(network, (lower, upper), units)
    assert not (remaining and smaller is None)
    for known in filter(None, (units, smaller)):
        for x in remaining:
            assert inside(known, exact_units(network, x))
        d = rng.choice([-1.0, 0.0, 1.0, 1e-3], size=network.outputs)
        given = [np.where(rng.random(len(low)) < 0.3, np.nan, size * rng.normal(size=len(low))) for low, _ in units]
        for multipliers in (None, given):
            bound = dual_bound(network, d, (lower, upper), known, multipliers).bound
            assert not np.isnan(bound)
            for x in remaining:
                exact = sum(Fraction(float(w)) * logit for w, logit in zip(d, exact_logits(network, x), strict=True))
                assert bound <= exact


def test_the_bound_is_tight_on_a_linear_piece():
    # f = |x - 0.3|: on either side of the kink the bound is exact but for rounding.
    first = Affine(np.array([[1.0], [-1.0]]), np.array([-0.3, 0.3]))
    network = Network([first, Affine(np.array([[1.0, 1.0]]), np.zeros(1))], [Activation("relu")])
    above = [(np.array([0.0, -0.7]), np.array([0.7, 0.0]))]
    found = dual_bound(network, np.ones(1), (np.array([0.5]), np.array([1.0])), above)
    assert 0.2 - 1e-12 < found.bound <= 0.2
    assert found.coefficients[0].tolist() == [1.0, 1.0]


def test_multipliers_of_a_contradiction_prove_that_there_is_no_point():
    # Two units x - 0.6 and 0.4 - x cannot both be positive.
    first = Affine(np.array([[1.0], [-1.0]]), np.array([-0.6, 0.4]))
    network = Network([first, Affine(np.array([[1.0, 1.0]]), np.zeros(1))], [Activation("relu")])
    units = [(np.zeros(2), np.full(2, 0.4))]
    box = (np.zeros(1), np.ones(1))
    assert dual_bound(network, np.zeros(1), box, units).bound <= 0
    assert dual_bound(network, np.zeros(1), box, units, [np.full(2, -1.0)]).bound > 0.1
    assert dual_bound(network, np.zeros(1), box, units, [np.full(2, 1.0)]).bound <= 0


def test_numbers_that_overflow_are_no_bound():
    huge = np.array([[1e308]])
    network = Network([Affine(huge, np.zeros(1)), Affine(huge, np.zeros(1))], [Activation("relu")])
    units = [(np.array([-np.inf]), np.array([np.inf]))]
    assert dual_bound(network, np.ones(1), (np.array([-1e5]), np.array([1e5])), units).bound == -np.inf


def test_knots_are_where_the_slope_changes():
    assert knots_of(Activation("relu"), 2).tolist() == [[0, 0]]
    assert np.isinf(knots_of(Activation("identity"), 2)).all()
    assert knots_of(Activation("prelu", parameters=(0.5, 1.0)), 2).tolist() == [[0, np.inf]]
    assert knots_of(Activation("clip", parameters=(-1.0, 6.0)), 1).tolist() == [[-1], [6]]
