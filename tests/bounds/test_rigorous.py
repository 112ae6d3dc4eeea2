"""Rigorous bounds: no tolerance in any comparison with exact values."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend.bounds.pieces
import fairmend.bounds.rigorous
import fairmend.bounds.substitution
from fairmend.base.errors import FairmendError
from fairmend.bounds import (
    Boxes,
    Slopes,
    choose_slopes,
    propagate,
    rigorous_bounds,
    rigorous_differences,
    rigorous_point_logits,
    slopes_from,
)
from fairmend.bounds.rigorous import bounds_and_layers
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Input, Sum
from support.exact import CURVED, KINKED, boxes, exact_logits, exact_nodes, hard_networks
from support.graphs import ALL_FUNCTIONS, PIECEWISE_LINEAR, graph_boxes, hard_graphs, points_of
from support.strategies import ACTIVATIONS, random_network


def random_boxes(rng, pieces, inputs, radius=0.3):
    centre, radius = rng.normal(size=(pieces, inputs)), rng.uniform(0, radius, size=(pieces, inputs))
    return centre - radius, centre + radius


@mpmath.workdps(60)
def assert_sound(network, lower, upper, slopes=None) -> None:
    """All three functions, against exact values at corners and other points.

    Python compares a float with a Fraction or an mpf exactly, infinities included.
    """
    low, high = rigorous_bounds(network, lower, upper, slopes)
    differences = rigorous_differences(network, lower, upper, slopes)
    assert not any(np.isnan(array).any() for array in (low, high, differences))
    rng = np.random.default_rng(0)
    for piece in range(len(lower)):
        points = points_of(network, lower[piece], upper[piece], rng)
        point_low, point_high = rigorous_point_logits(network, np.array(points))
        for number, x in enumerate(points):
            logits = exact_logits(network, x)
            for k, logit in enumerate(logits):
                assert float(low[piece, k]) <= logit <= float(high[piece, k])
                assert float(point_low[number, k]) <= logit <= float(point_high[number, k])
                for j, other in enumerate(logits):
                    assert float(differences[piece, k, j]) <= logit - other


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_exact_values_of_kinked_networks_lie_within(data):
    network = data.draw(hard_networks(KINKED))
    assert_sound(network, *data.draw(boxes(network.inputs)))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_values_of_curved_networks_to_60_digits_lie_within(data):
    network = data.draw(hard_networks((*CURVED, *KINKED), spread=4))
    assert_sound(network, *data.draw(boxes(network.inputs)))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_slopes_are_sound(data):
    network = data.draw(hard_networks(data.draw(st.sampled_from((KINKED, CURVED))), spread=4))
    lower, upper = data.draw(boxes(network.inputs))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size = data.draw(st.sampled_from((1.0, 30.0, 1e200)))

    def garbage(shape):
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.0, -0.0, 5e-324, 1e308], size=shape)
        return np.where(rng.random(shape) < 0.15, special, rng.normal(size=shape) * size)

    shapes = [(len(lower), len(affine.bias)) for affine in network.affines[:-1]]
    assert_sound(network, lower, upper, [Slopes(garbage(shape), garbage(shape)) for shape in shapes])


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_exact_values_of_graphs_lie_within(data):
    network = data.draw(hard_graphs(PIECEWISE_LINEAR, spread=data.draw(st.sampled_from((3, 30)))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    assert_sound(network, *graph_boxes(network, rng, 2, data.draw(st.sampled_from((0.0, 1e-12, 0.3, 4.0)))))


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_values_of_curved_graphs_to_60_digits_lie_within(data):
    network = data.draw(hard_graphs(ALL_FUNCTIONS, spread=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    lower, upper = graph_boxes(network, rng, 2)
    assert_sound(network, lower, upper)
    shapes = [(len(lower), network.widths[i]) for i in network.functions]
    slopes = [Slopes(rng.normal(size=shape), rng.normal(size=shape)) for shape in shapes]
    assert_sound(network, lower, upper, slopes)


@settings(deadline=None, max_examples=30)
@given(hard_graphs(PIECEWISE_LINEAR, spread=4), st.integers(0, 2**32 - 1))
def test_inputs_of_functions_lie_within_their_intervals(network, seed):
    rng = np.random.default_rng(seed)
    lower, upper = graph_boxes(network, rng, 1)
    _, _, layers = bounds_and_layers(network, lower, upper)
    assert len(layers) == len(network.functions)
    for x in points_of(network, lower[0], upper[0], rng)[:6]:
        values = exact_nodes(network, x)
        for (low, high), function in zip(layers, network.functions, strict=True):
            z = values[network.nodes[function].sources[0]]
            assert all(float(a) <= value <= float(b) for a, value, b in zip(low[0], z, high[0], strict=True))


def test_a_residual_graph_is_as_tight_as_its_torch_bounds():
    """Coefficients are added where paths meet; intervals alone are far wider."""
    rng = np.random.default_rng(0)
    nodes, last = [Node(Input(6))], 0
    for block in range(3):
        inner = len(nodes)
        for number, source in enumerate((last, inner + 1)):
            weight = rng.normal(size=(6, 6)) / 3
            nodes.append(Node(Affine(weight, rng.normal(size=6) / 3), (source,), f"{block}.{number}"))
            if number == 0:
                nodes.append(Node(Activation("relu"), (inner,)))
        nodes.append(Node(Sum(), (last, inner + 2)))
        last = len(nodes) - 1
    nodes.append(Node(Affine(np.eye(6), np.zeros(6)), (last,), "head"))
    network = Network.from_nodes(nodes)
    lower, upper = random_boxes(rng, 20, 6)
    parameters = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
    found = propagate(network, parameters, Boxes.from_arrays(lower, upper, torch.float64)).features().concretise()
    low, high = rigorous_bounds(network, lower, upper)
    assert (low >= found[0].numpy() - 1e-9).all()
    assert (high <= found[1].numpy() + 1e-9).all()
    assert (high - low).sum() < 0.7 * sum(map(float, (upper - lower).sum(axis=1))) * 6


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-155, 1e155, 1e200, 1e307])
def test_overflow_and_underflow_lose_tightness_at_most(activation, scale):
    rng = np.random.default_rng(0)
    network = random_network(rng, 2, [3, 3], 2, activation, np.float64)
    with np.errstate(under="ignore"):
        network = Network([Affine(a.weight * scale, a.bias * scale) for a in network.affines], network.activations)
    for radius in (0.0, 1.0):
        lower = rng.normal(size=(2, 2))
        assert_sound(network, lower, lower + radius)
        assert_sound(network, lower * 1e-308, lower * 1e-308 + radius)
    small = Network([Affine(a.weight / scale, a.bias) for a in network.affines[:1]], [])
    assert_sound(small, np.full((1, 2), -1e300), np.full((1, 2), 1e300))


def test_opposite_scales_in_consecutive_layers():
    """What one layer loses to underflow, the next one magnifies."""
    rng = np.random.default_rng(0)
    for scale in (1e-160, 1e-300):
        network = random_network(rng, 2, [4, 4], 2, "relu", np.float64)
        factors = (scale, 1 / scale, 1.0)
        affines = [
            Affine(a.weight * f, a.bias * g)
            for a, f, g in zip(network.affines, factors, (scale, 1.0, 1.0), strict=True)
        ]
        lower, upper = random_boxes(rng, 3, 2)
        network = Network(affines, network.activations)
        assert_sound(network, lower, upper)
        assert_sound(network, lower * 1e-10, upper * 1e-10 + 1e-11)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1e-200, 1e200, 1e-150), (1e-100, 1e-100, 1e90)], ids=str)
def test_what_cancels_leaves_its_rounding_error(scales):
    """a w - a' w' is nearly 0, and what is computed for it is nothing but rounding."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        w, a, other_a = rng.uniform(0.5, 2, size=3)
        first = np.array([[w], [w * a / other_a]]) * scales[0]
        head = np.array([[a, -other_a], [-a, other_a]]) * scales[1]
        network = Network([Affine(first, np.zeros(2)), Affine(head, np.zeros(2))], [Activation("identity")])
        x = np.full((1, 1), rng.uniform(0.5, 2) * scales[2])
        assert_sound(network, x, x)


def test_long_sums_of_equal_terms():
    """Rounding errors of equal sign add up to far more than one roundoff, and gamma covers them."""
    rng = np.random.default_rng(0)
    inputs = 20_000
    for _ in range(10):
        weight, x = np.full((1, inputs), rng.uniform()), np.full((1, inputs), rng.uniform())
        network = Network([Affine(weight, np.zeros(1))], [])
        exact = inputs * Fraction(weight[0, 0]) * Fraction(x[0, 0])
        for lower, upper in (rigorous_bounds(network, x, x), rigorous_point_logits(network, x)):
            assert float(lower[0, 0]) <= exact <= float(upper[0, 0])


def test_a_coefficient_that_underflows_is_not_forgotten():
    """1e-200 times 1e-200 is 0 in float64, but not when it multiplies 1e300."""
    layers = [Affine(np.full((1, 1), 1e-200), np.zeros(1))] * 2
    for activation in (Activation("relu"), Activation("identity")):
        assert_sound(Network(layers, [activation]), np.full((1, 1), 1e300), np.full((1, 1), 2e300))


def logit_bounds(network, lower, upper):
    """The same bounds from ``linear``, in float64: the logits as features."""
    parameters = [(torch.tensor(a.weight).double(), torch.tensor(a.bias).double()) for a in network.affines]
    last = Affine(np.ones((1, network.outputs), network.dtype), np.zeros(1, network.dtype))
    longer = Network([*network.affines, last], [*network.activations, Activation("identity")])
    found = propagate(longer, parameters, Boxes.from_arrays(lower, upper, torch.float64))
    return found, *(end.numpy() for end in found.features().concretise())


def magnitudes(network, lower, upper):
    scale = np.maximum(np.abs(lower), np.abs(upper))
    for affine in network.affines:
        scale = scale @ np.abs(affine.weight).astype(np.float64).T + np.abs(affine.bias)
    return scale


@pytest.mark.parametrize("hidden", [(), (16,), (16, 8), (64, 32, 16), (24, 24, 24, 24)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_nothing_is_given_away_with_the_slopes_of_the_torch_bounds(activation, hidden):
    """Intervals help here and there, so these bounds may be tighter; they are never looser than by rounding."""
    rng = np.random.default_rng(0)
    network = random_network(rng, 12, hidden, 3, activation)
    lower, upper = random_boxes(rng, 50, 12)
    found, torch_lower, torch_upper = logit_bounds(network, lower, upper)
    slopes = slopes_from(found.relaxations[:-1])
    low, high = rigorous_bounds(network, lower, upper, slopes)
    slack = 1e-12 * (1 + np.abs(torch_lower) + np.abs(torch_upper)) + 1e-15 * magnitudes(network, lower, upper)
    assert (low >= torch_lower - slack).all()
    assert (high <= torch_upper + slack).all()
    if activation.name == "identity" or len(hidden) == 0:
        assert np.allclose(low, torch_lower, rtol=0, atol=slack)
    again = rigorous_bounds(network, lower, upper)
    assert np.allclose(again, (low, high), rtol=1e-9, atol=1e-9)


def test_intervals_that_do_not_help_leave_the_torch_bounds():
    """A narrow box: linear bounds win everywhere, and both agree in both directions."""
    rng = np.random.default_rng(0)
    network = random_network(rng, 12, [32, 16], 3)
    lower, upper = random_boxes(rng, 200, 12, radius=0.02)
    found, torch_lower, torch_upper = logit_bounds(network, lower, upper)
    low, high = rigorous_bounds(network, lower, upper, slopes_from(found.relaxations[:-1]))
    close = np.isclose(low, torch_lower, rtol=1e-12, atol=1e-12) & np.isclose(high, torch_upper, rtol=1e-12, atol=1e-12)
    assert close.mean() > 0.9


def test_point_logits_are_tight():
    network = random_network(np.random.default_rng(0), 8, [32, 16], 3)
    X = np.random.default_rng(1).normal(size=(100, 8))
    lower, upper = rigorous_point_logits(network, X)
    logits = network.astype(np.float64).logits(X)
    assert (lower <= logits).all()
    assert (logits <= upper).all()
    assert (upper - lower).max() < 1e-11


def test_differences_are_tighter_than_differences_of_bounds():
    rng = np.random.default_rng(0)
    network = random_network(rng, 5, [16, 16], 4)
    lower, upper = random_boxes(rng, 30, 5)
    low, high = rigorous_bounds(network, lower, upper)
    differences = rigorous_differences(network, lower, upper)
    assert differences.shape == (30, 4, 4)
    assert (np.diagonal(differences, axis1=1, axis2=2) == 0).all()
    subtracted = low[:, :, None] - high[:, None, :]
    apart = ~np.eye(4, dtype=bool)
    gained = (differences - subtracted)[:, apart]  # not everywhere: intervals may help one logit and not the other
    assert (gained > 0).mean() > 0.95
    assert gained.mean() > 0.1


def test_the_papers_example_1():
    weight, head = np.array([[1.0, 6.0], [1.0, -6.0]]), np.array([[-0.1, -0.1]])
    network = Network([Affine(weight, np.zeros(2)), Affine(head, np.ones(1))], [Activation("relu")])
    lower, upper = rigorous_bounds(network, np.array([[0.0, -1.0]]), np.array([[8.0, 1.0]]))
    assert lower == pytest.approx(-0.96, abs=1e-13)
    assert upper == pytest.approx(1, abs=1e-13)


def test_groups_of_pieces_and_rows_do_not_change_the_bounds(monkeypatch):
    rng = np.random.default_rng(0)
    network = random_network(rng, 5, [9, 7], 3)
    lower, upper = random_boxes(rng, 20, 5)
    slopes = choose_slopes(network, lower, upper)
    whole = [*rigorous_bounds(network, lower, upper, slopes), rigorous_differences(network, lower, upper, slopes)]
    points = rigorous_point_logits(network, lower)
    for entries in (1, 50, 700):
        monkeypatch.setattr(fairmend.bounds.pieces, "MAX_ENTRIES", entries)
        monkeypatch.setattr(fairmend.bounds.rigorous, "MAX_ENTRIES", entries)
        split = [*rigorous_bounds(network, lower, upper, slopes), rigorous_differences(network, lower, upper, slopes)]
        for a, b in zip(whole, split, strict=True):
            assert np.allclose(a, b, rtol=0, atol=1e-12)
        assert np.allclose(points, rigorous_point_logits(network, lower), rtol=0, atol=1e-12)
        assert_sound(network, lower[:3], upper[:3])


def test_no_pieces_no_bounds():
    network = random_network(np.random.default_rng(0), 4, [3], 2)
    none = np.zeros((0, 4))
    assert rigorous_bounds(network, none, none)[0].shape == (0, 2)
    assert rigorous_differences(network, none, none).shape == (0, 2, 2)
    assert rigorous_point_logits(network, none)[1].shape == (0, 2)
    assert [slopes.lower.shape for slopes in choose_slopes(network, none, none)] == [(0, 3)]


def test_slopes_of_other_boxes_are_refused():
    network = random_network(np.random.default_rng(0), 2, [3], 2)
    lower, upper = np.zeros((2, 2)), np.ones((2, 2))
    slopes = choose_slopes(network, lower, upper)
    for wrong in ([], [*slopes, *slopes], [Slopes(slopes[0].lower, slopes[0].upper[:1])]):
        with pytest.raises(FairmendError, match="the slopes have shapes"):
            rigorous_bounds(network, lower, upper, wrong)


@pytest.mark.parametrize("width", [8, 200])
def test_a_layer_of_units_that_are_all_off_is_a_constant(width):
    """No column of a wide layer is used then."""
    first = Affine(np.ones((width, 3), np.float32), np.full(width, -100, np.float32))
    middle = Affine(np.ones((width, width), np.float32), np.full(width, -1, np.float32))
    net = Network(
        [first, middle, Affine(np.ones((1, width), np.float32), np.ones(1, np.float32))], [Activation("relu")] * 2
    )
    low, high = rigorous_bounds(net, np.zeros((2, 3)), np.ones((2, 3)))
    assert (low <= 1).all()
    assert (high >= 1).all()
    assert high - low == pytest.approx(0, abs=1e-12)
