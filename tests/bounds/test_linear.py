"""Interval and linear bounds: no point of a box escapes them, and step 1 can train through them."""

import gc
import weakref
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.bounds import METHODS, Boxes, feature_bounds, propagate
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Operation, Sum
from fairmend.prove.kernel_bounds import is_piecewise_linear
from support.examples import examples
from support.graphs import graph_boxes, graphs
from support.graphs import points_of as points_in_box
from support.strategies import ACTIVATIONS, random_network

RADII = (0.0, 1e-7, 0.05, 1.0, 20.0)


@dataclass
class Problem:
    """A network's extractor and boxes (pieces, inputs) of its inputs."""

    network: Network
    lower: np.ndarray
    upper: np.ndarray

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.network.dtype == np.float32 else torch.float64

    @property
    def boxes(self) -> Boxes:
        return Boxes.from_arrays(self.lower, self.upper, self.dtype)

    @property
    def parameters(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in self.network.affines[:-1]]

    def feature_bounds(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        bounds = feature_bounds(self.network, self.parameters, self.boxes, method)
        return bounds[0].double().numpy(), bounds[1].double().numpy()

    def slack(self) -> np.ndarray:
        """(pieces, units): what rounding may do, a multiple of eps of the absolute values that are added up."""
        scale = np.maximum(np.abs(self.lower), np.abs(self.upper))
        for affine in self.network.affines[:-1]:
            scale = scale @ np.abs(affine.weight.astype(np.float64)).T + np.abs(affine.bias) + 1
        return 100 * np.finfo(self.network.dtype).eps * scale


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """1 to 4 hidden layers; any activations; one box or several, each of any radius; any columns varying."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hidden = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    inputs, dtype = draw(st.integers(1, 4)), draw(st.sampled_from((np.float32, np.float64)))
    network = random_network(rng, inputs, hidden, 1, "relu", dtype)
    network = Network(network.affines, [draw(st.sampled_from(ACTIVATIONS)) for _ in hidden])
    pieces = draw(st.integers(1, 4))
    varies = np.array(draw(st.lists(st.booleans(), min_size=inputs, max_size=inputs)))
    radius = np.array([draw(st.sampled_from(RADII)) for _ in range(pieces)])[:, None] * varies
    radius = radius * rng.uniform(0.5, 1, size=radius.shape)
    centre = rng.normal(size=(pieces, inputs)) * draw(st.sampled_from((0.0, 1.0, 5.0)))
    return Problem(network, centre - radius, centre + radius)


def points_of(problem: Problem, count: int = 20) -> np.ndarray:
    """The position t (points, inputs) in [-1, 1] of the centre, all corners and some others."""
    inputs = problem.network.inputs
    corners = list(product((-1.0, 1.0), repeat=inputs))
    inside = np.random.default_rng(0).uniform(-1, 1, size=(count, inputs))
    return np.concatenate([np.zeros((1, inputs)), corners, inside])


def exact_features(network: Network, X: np.ndarray) -> np.ndarray:
    return network.astype(np.float64).features(X)


@examples(150)
@given(problems(), st.sampled_from(METHODS))
def test_no_point_has_features_outside_the_concrete_bounds(problem, method):
    lower, upper = problem.feature_bounds(method)
    slack = problem.slack()
    centre, radius = (problem.lower + problem.upper) / 2, (problem.upper - problem.lower) / 2
    for t in points_of(problem):
        h = exact_features(problem.network, centre + t * radius)
        assert (lower <= h + slack).all()
        assert (h <= upper + slack).all()


@examples(150)
@given(problems())
def test_no_point_has_features_outside_the_linear_forms(problem):
    boxes = problem.boxes
    found = propagate(problem.network, problem.parameters, boxes)
    lower, upper = (form.double().numpy() for form in found.features())
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()
    slack = problem.slack()
    centre, radius = (problem.lower + problem.upper) / 2, (problem.upper - problem.lower) / 2
    columns = boxes.columns.numpy()
    for t in points_of(problem):
        h = exact_features(problem.network, centre + t * radius)
        weights = np.concatenate([[1.0], t[columns]])
        assert (np.tensordot(weights, lower, 1) <= h + slack).all()
        assert (h <= np.tensordot(weights, upper, 1) + slack).all()


@pytest.mark.parametrize("read_twice", [False, True])
def test_look_ups_side_by_side_keep_what_cancels(read_twice):
    """The first of two look-ups is added, and subtracted again if another node reads it: the second one is left."""
    table = np.array([[0.0], [1.0]], np.float32)
    one, minus = (Affine(np.array([[sign]], np.float32), np.zeros(1, np.float32)) for sign in (1.0, -1.0))
    both = Affine(np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    nodes = [
        Node(Input(2)), Node(Columns((0,)), (0,)), Node(Lookup(table), (1,), "a"),
        Node(Columns((1,)), (0,)), Node(Lookup(table), (3,), "b"), Node(Concatenate(), (2, 4)), Node(both, (5,), "c"),
    ]  # fmt: skip
    if read_twice:
        nodes += [Node(minus, (2,), "d"), Node(Sum(), (6, 7))]
    nodes += [Node(Activation("relu"), (len(nodes) - 1,)), Node(one, (len(nodes),), "e")]
    network = Network.from_nodes(nodes)
    parameters = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
    boxes = Boxes.from_arrays(np.zeros((1, 2)), np.ones((1, 2)), torch.float32)
    lower, upper = feature_bounds(network, parameters, boxes)
    assert (float(lower), float(upper)) == (0.0, 1.0 if read_twice else 2.0)


@pytest.mark.parametrize("width", [4, 200])
def test_the_tensors_of_the_bounds_are_freed_at_once(width):
    """A reference cycle would keep the tensors of many steps until the garbage collector runs."""
    network = random_network(np.random.default_rng(0), 2, [width, 3])
    parameters = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
    boxes = Boxes.from_arrays(np.zeros((1, 2)), np.ones((1, 2)), torch.float32)
    gc.disable()
    try:
        found = propagate(network, parameters, boxes)
        slope = weakref.ref(found.relaxations[0].upper_slope)
        del found
        assert slope() is None
    finally:
        gc.enable()


@given(problems())
def test_concrete_bounds_span_the_forms(problem):
    boxes = problem.boxes
    found = propagate(problem.network, problem.parameters, boxes)
    lower, upper = found.features().concretise()
    concrete = problem.feature_bounds("linear")
    assert np.allclose(concrete[0], lower, rtol=0, atol=problem.slack())
    assert np.allclose(concrete[1], upper, rtol=0, atol=problem.slack())


@given(problems(), st.sampled_from(METHODS))
def test_a_box_of_one_point_has_bounds_of_one_point(problem, method):
    at = Problem(problem.network, problem.lower, problem.lower)
    lower, upper = at.feature_bounds(method)
    h = exact_features(problem.network, problem.lower)
    # Where a kink lies within rounding, the lines may part by as much; the slack grows with the weights.
    assert np.allclose(lower, h, rtol=0, atol=2 * at.slack())
    assert np.allclose(upper, h, rtol=0, atol=2 * at.slack())


@given(problems(), st.sampled_from(METHODS))
def test_boxes_do_not_influence_one_another_beyond_what_is_proven(problem, method):
    """A unit keeps the interval only if it is stable in every box, so alone a box may be bounded differently."""
    lower, upper = problem.feature_bounds(method)
    alone = Problem(problem.network, problem.lower[:1], problem.upper[:1])
    alone_lower, alone_upper = alone.feature_bounds(method)
    if method == "interval":
        assert np.allclose(lower[:1], alone_lower, rtol=0, atol=alone.slack())
        assert np.allclose(upper[:1], alone_upper, rtol=0, atol=alone.slack())
    assert (alone_lower <= upper[:1] + alone.slack()).all()
    assert (lower[:1] <= alone_upper + alone.slack()).all()


@given(problems(), st.sampled_from(METHODS), st.sampled_from(("as it is", "zero", "dead", "point")))
def test_gradients_are_finite(problem, method, what):
    """Also with all weights 0, dead units, boxes without width, and exact zeros everywhere."""
    parameters = problem.parameters
    if what != "as it is":
        parameters = [(0 * w if what == "zero" else w, 0 * b) for w, b in parameters]
    if what == "dead":
        parameters = [(w, b - 1e3) for w, b in parameters]
    for weight, bias in parameters:
        weight.requires_grad_()
        bias.requires_grad_()
    upper = problem.lower if what == "point" else problem.upper
    boxes = Boxes.from_arrays(problem.lower, upper, problem.dtype)
    low, high = feature_bounds(problem.network, parameters, boxes, method)
    (high - low).sum().backward()
    for tensor in (tensor for layer in parameters for tensor in layer):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hidden", [(4,), (4, 3), (3, 3, 2)], ids=len)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_gradients_agree_with_finite_differences(activation, hidden, method):
    rng = np.random.default_rng(1)
    network = random_network(rng, 3, hidden, 1, activation, np.float64)
    centre = rng.normal(size=(2, 3))
    radius = rng.uniform(0.1, 0.5, size=(2, 3)) * [1, 1, 0]
    problem = Problem(network, centre - radius, centre + radius)
    flat = [tensor.requires_grad_() for layer in problem.parameters for tensor in layer]

    def bounds(*flat):
        layers = list(zip(flat[::2], flat[1::2], strict=True))
        return feature_bounds(network, layers, problem.boxes, method)

    assert torch.autograd.gradcheck(bounds, flat, atol=1e-6)


def test_a_sigmoid_unit_of_one_sign_keeps_its_own_bounds():
    """Stable means nothing to a curved unit; the interval would be looser there, by a factor of 2.5 in the end."""
    rng = np.random.default_rng(0)
    network = random_network(rng, 6, [32, 32, 32], 1, "sigmoid", np.float64)
    first, second, third, head = network.affines
    shifted = [Affine(layer.weight, layer.bias + 8) for layer in (second, third)]  # far from 0 in every box
    network = Network([first, *shifted, head], network.activations)
    centre, radius = rng.normal(size=(10, 6)), np.full((10, 6), 0.3)
    problem = Problem(network, centre - radius, centre + radius)
    linear, interval = problem.feature_bounds("linear"), problem.feature_bounds("interval")
    assert (linear[1] - linear[0]).sum() < 0.2 * (interval[1] - interval[0]).sum()


def test_unknown_bounds_are_refused():
    problem = Problem(random_network(np.random.default_rng(0), 2, [2]), np.zeros((1, 2)), np.ones((1, 2)))
    with pytest.raises(FairmendError, match="unknown bounds 'triangle'; use linear, interval"):
        problem.feature_bounds("triangle")


class TestExample1:
    """h1 = ReLU(x1 + 6 x2), h2 = ReLU(x1 - 6 x2), y = -0.1 h1 - 0.1 h2 + 1 on [0, 8] x [-1, 1]; the paper's numbers."""

    weight = torch.tensor([[1.0, 6.0], [1.0, -6.0]], dtype=torch.float64)
    bias = torch.zeros(2, dtype=torch.float64)
    head = torch.tensor([[-0.1, -0.1]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    boxes = Boxes.from_arrays(np.array([[0.0, -1.0]]), np.array([[8.0, 1.0]]), torch.float64)

    def network(self, *names):
        """The layers and functions of these names, and a head that reads them."""
        layers = [(self.weight, self.bias), (self.head, self.one)][: len(names)]
        affines = [Affine(w.numpy(), b.numpy()) for w, b in layers]
        last = Affine(np.ones((1, len(affines[-1].bias))), np.zeros(1))
        return Network([*affines, last], [Activation(name) for name in names]), layers

    def test_preactivations(self):
        lower, upper = propagate(*self.network("identity"), self.boxes).features().concretise()
        assert lower.tolist() == [[-6, -6]]
        assert upper.tolist() == [[14, 14]]

    def test_upper_lines_and_features(self):
        found = propagate(*self.network("relu"), self.boxes)
        assert found.relaxations[0].upper_slope.numpy() == pytest.approx(0.7)
        assert found.relaxations[0].upper_intercept.numpy() == pytest.approx(4.2)
        # h1 <= 0.7 (x1 + 6 x2) + 4.2, with x1 = 4 + 4 t1 and x2 = t2.
        upper = found.features().upper[:, 0, 0].numpy()
        assert upper == pytest.approx([0.7 * 4 + 4.2, 0.7 * 4, 0.7 * 6])
        assert found.feature_bounds()[1].numpy() == pytest.approx(14)

    def test_interval_features_and_output(self):
        lower, upper = feature_bounds(*self.network("relu"), self.boxes, "interval")
        assert lower.tolist() == [[0, 0]]
        assert upper.tolist() == [[14, 14]]
        y = feature_bounds(*self.network("relu", "identity"), self.boxes, "interval")
        assert [float(end) for end in y] == pytest.approx([-1.8, 1])

    def test_the_forms_see_that_both_features_cannot_be_large_at_once(self):
        """-0.1 (h1 + h2) + 1 >= -0.14 x1 + 0.16 >= -0.96, where intervals say -1.8."""
        found = propagate(*self.network("relu", "identity"), self.boxes)
        assert float(found.features().concretise()[0]) == pytest.approx(-0.96)


def parameters_of(network: Network, dtype=torch.float64) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.tensor(a.weight, dtype=dtype), torch.tensor(a.bias, dtype=dtype)) for a in network.affines[:-1]]


@examples(80)
@given(graphs(dtypes=(np.float64,)), st.integers(0, 2**32 - 1))
def test_no_point_of_a_graph_has_features_outside(network, seed):
    """Skips, concatenations, choices of columns, scalings, look-ups and functions of any of these."""
    rng = np.random.default_rng(seed)
    lower, upper = graph_boxes(network, rng)
    boxes = Boxes.from_arrays(lower, upper, torch.float64)
    found = propagate(network, parameters_of(network), boxes)
    assert len(found.relaxations) == len(network.activations)
    forms = [form.numpy() for form in found.features()]
    concrete = [end.numpy() for end in found.feature_bounds()]
    intervals = [end.numpy() for end in feature_bounds(network, parameters_of(network), boxes, "interval")]
    for piece in range(len(lower)):
        points = points_in_box(network, lower[piece], upper[piece], rng)
        h = network.features(points)
        centre, radius = (lower[piece] + upper[piece]) / 2, (upper[piece] - lower[piece]) / 2
        t = (points - centre) / np.where(radius > 0, radius, 1.0)
        weights = np.concatenate([np.ones((len(t), 1)), t[:, boxes.columns.numpy()]], axis=1)
        slack = 1e-9 * (1 + np.abs(h))
        assert (weights @ forms[0][:, piece] <= h + slack).all()
        assert (h <= weights @ forms[1][:, piece] + slack).all()
        for low, high in (concrete, intervals):
            assert (low[piece] <= h + slack).all()
            assert (h <= high[piece] + slack).all()


def test_what_cancels_where_paths_meet_is_gone():
    """x - relu(W x) + relu(W x): the coefficients of relu(W x) add up to 0, so the features are exact."""
    rng = np.random.default_rng(0)
    first = Affine(rng.normal(size=(3, 3)), np.zeros(3))
    copies = Affine(np.vstack([np.eye(3), -np.eye(3)]), np.zeros(6))
    nodes = [
        Node(Input(3)),
        Node(first, (0,), "first"),
        Node(Activation("relu"), (1,)),
        Node(copies, (2,), "copies"),
        Node(Columns((0, 1, 2)), (3,)),
        Node(Columns((3, 4, 5)), (3,)),
        Node(Sum(), (0, 4, 5)),
        Node(Affine(np.ones((1, 3)), np.zeros(1)), (6,), "head"),
    ]
    network = Network.from_nodes(nodes)
    lower = rng.normal(size=(4, 3))
    boxes = Boxes.from_arrays(lower, lower + 1, torch.float64)
    low, high = propagate(network, parameters_of(network), boxes).feature_bounds()
    np.testing.assert_allclose(low, lower, atol=1e-12)
    np.testing.assert_allclose(high, lower + 1, atol=1e-12)


def test_a_table_row_that_is_fixed_is_exact_and_one_that_varies_is_in_the_hull():
    table = np.array([[1.0, -2.0], [3.0, 0.0], [-5.0, 1.0]])
    head = Affine(np.ones((1, 2)), np.zeros(1))
    network = Network.from_nodes([Node(Input(1)), Node(Lookup(table), (0,)), Node(head, (1,), "head")])
    lower, upper = np.array([[1.0], [0.0], [1.0]]), np.array([[1.0], [1.0], [2.0]])
    low, high = feature_bounds(network, [], Boxes.from_arrays(lower, upper, torch.float64))
    assert low.tolist() == [[3, 0], [1, -2], [-5, 0]]
    assert high.tolist() == [[3, 0], [3, 0], [3, 1]]


@examples(40)
@given(graphs((Activation("tanh"), Activation("sigmoid")), (np.float64,)), st.sampled_from(METHODS))
def test_gradients_of_graphs_are_those_of_finite_differences(network, method):
    boxes = Boxes.from_arrays(*graph_boxes(network, np.random.default_rng(0), 2), torch.float64)
    flat = [tensor.requires_grad_() for layer in parameters_of(network) for tensor in layer]
    step = [1e-6 * torch.randn(tensor.shape, dtype=torch.float64) * (tensor != 0) for tensor in flat]  # |0| has a kink

    def total(sign):
        moved = [tensor + sign * change for tensor, change in zip(flat, step, strict=True)]
        low, high = feature_bounds(network, list(zip(moved[::2], moved[1::2], strict=True)), boxes, method)
        return high.sum() - 0.5 * low.sum()

    value = total(0.0)
    if value.requires_grad:
        gradients = torch.autograd.grad(value, flat, allow_unused=True)
        expected = sum(float((g * s).sum()) for g, s in zip(gradients, step, strict=True) if g is not None)
        found = [(total(1.0) - value).item(), (value - total(-1.0)).item()]
        # A kink in between changes the slope; one of the two sides is then the gradient's.
        scale = 1e-8 * (1 + abs(value.item())) + 1e-4 * max(map(abs, found))
        assert min(abs(each - expected) for each in found) <= scale


class Larger(Operation):
    """Not linear, and no function of one number: the larger of two nodes."""

    kind, linear = "larger", False

    def width(self, widths):
        return widths[0]

    def compute(self, values, out, part=None):
        np.maximum(values[0], values[1], out=out)

    def torch(self, values):
        return values[0].maximum(values[1])

    def interval(self, lower, upper, numbers):
        return lower[0].maximum(lower[1]), upper[0].maximum(upper[1])

    def reached(self, reached):
        return reached[0] | reached[1]

    def describe(self, into, name, sources):
        return into.add("larger", sources)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_and_gradients_go_through_an_operation_that_is_not_linear(method):
    rng = np.random.default_rng(0)
    layers = [Affine(rng.normal(size=(4, 3)), rng.normal(size=4)) for _ in range(2)]
    layers += [Affine(rng.normal(size=(5, 4)), rng.normal(size=5)), Affine(rng.normal(size=(1, 5)), np.zeros(1))]
    nodes = [Node(Input(3)), Node(layers[0], (0,), "a"), Node(layers[1], (0,), "b"), Node(Larger(), (1, 2))]
    nodes += [Node(layers[2], (3,), "c"), Node(Activation("relu"), (4,)), Node(layers[3], (5,), "head")]
    network = Network.from_nodes(nodes)
    parameters = [tuple(torch.tensor(part, requires_grad=True) for part in (a.weight, a.bias)) for a in layers[:3]]
    X = rng.normal(size=(50, 3))
    low, high = feature_bounds(network, parameters, Boxes.from_arrays(X - 0.3, X + 0.3, torch.float64), method)
    for step in rng.uniform(-0.3, 0.3, (20, 1, 3)):
        features = torch.tensor(network.features(X + step))
        assert ((low <= features + 1e-12) & (features <= high + 1e-12)).all()
    (high - low).sum().backward()
    assert all(part.grad is not None and part.grad.abs().sum() > 0 for pair in parameters[:1] for part in pair[:1])


def test_exact_arithmetic_does_not_know_it():
    rng = np.random.default_rng(1)
    layers = [Affine(rng.normal(size=(2, 2)), rng.normal(size=2)) for _ in range(2)]
    head = Affine(rng.normal(size=(1, 2)), np.zeros(1))
    nodes = [Node(Input(2)), *(Node(layer, (0,), name) for layer, name in zip(layers, "ab", strict=True))]
    network = Network.from_nodes([*nodes, Node(Larger(), (1, 2)), Node(head, (3,), "head")])
    assert not is_piecewise_linear(network)
