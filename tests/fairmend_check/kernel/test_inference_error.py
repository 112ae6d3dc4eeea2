"""The error of inference: float32 arithmetic in any order stays within it."""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network import Activation as NetworkActivation
from fairmend.network import Affine, Network
from fairmend_check.kernel import inference_error as module
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.claim import HALF, Threshold
from fairmend_check.kernel.functions import function_of
from fairmend_check.kernel.inference_error import _forward, inference_error, output_errors
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.operations.affine import scaling
from fairmend_check.kernel.rounding import Precision
from fairmend_check.readers.read_model import read_model
from support.checker_models import PIECEWISE, checked_model, exact_outputs, make_model, random_model
from support.examples import examples
from support.onnx_files import node, runtime, save
from support.strategies import ACTIVATIONS, networks, random_network


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_inference_in_float32_stays_within_its_error(activation, outputs):
    rng = np.random.default_rng(7)
    activation = Activation(activation.name, float(np.float32(activation.slope)))
    model = random_model(rng, [4, 30, 20, outputs], activation, np.float32)
    lower = rng.normal(size=(30, 4)).astype(np.float32)
    upper = lower + rng.choice([0.0, 0.5], size=(30, 4)).astype(np.float32)
    lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    forms = np.broadcast_to(np.eye(outputs), (30, outputs, outputs))
    allowed = output_errors(model, lower, upper, interval_layers(model, lower, upper), forms)
    for box in range(30):
        share = rng.random(4).astype(np.float32)
        x = np.clip(lower[box] + share * (upper[box] - lower[box]), lower[box], upper[box]).astype(np.float32)
        exact, h = exact_outputs(model, x), x
        for number, (weight, bias) in enumerate((each.weight, each.bias) for each in model.layers):
            order = rng.permutation(len(h))  # one sum after the other, in any order
            total = np.zeros(len(bias), dtype=np.float32)
            for column in order:
                total = total + weight[:, column].astype(np.float32) * h[column]
            h = total + bias.astype(np.float32)
            if number < len(model.activations):
                slope = np.float32({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
                h = np.where(h >= 0, h, slope * h)
        for computed, truth, error in zip(h, exact, allowed[box], strict=True):
            assert abs(Fraction(float(computed)) - truth) <= Fraction(error)


def checker_error(model, classes, lower, upper, *, thorough=True):
    lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    with np.errstate(all="ignore"):
        layers = interval_layers(model, lower, upper)
    margins = np.full(len(lower), 1e-300 if thorough else -1)
    closing = Threshold.of(HALF, model.dtype).closing(classes)
    return inference_error(model, classes, lower, upper, layers, margins, closing)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("normed", [False, True])
def test_the_terms_of_a_layer_may_be_added_to_the_other_parts_of_a_sum(readers, normed):
    """As in ONNX Runtime, which makes one Gemm of MatMul and Add: 2^24 + 0.25 + 0.25 + … stays 2^24."""
    graph = Graph(101)
    weight = np.full((1, 100), 0.25, np.float32)
    layer = graph.affine(graph.columns(graph.input, range(100)), weight)
    if normed:
        layer = graph.norm(layer, scaling(0.0, 1.0, 0.0))
    total = graph.sum(layer, graph.columns(graph.input, [100]))
    if readers == 2:  # what the layer rounds itself cancels
        total = graph.sum(total, graph.norm(layer, scaling(0.0, -1.0, 0.0)))
    model = graph.finish(graph.affine(total, np.ones((1, 1), np.float32)))
    x = np.array([[1.0] * 100 + [2.0**24]])
    for thorough in (False, True):
        intervals = interval_layers(model, x, x)
        error = output_errors(model, x, x, intervals, np.ones((1, 1, 1)), thorough=thorough)[0, 0]
        assert 25 <= error < 450  # the last layer adds one number up, and may take over its terms


def test_sums_of_sums_may_be_added_in_any_order():
    """As TensorFlow does: (1 + 1 + … + 1) + 2^25 becomes 2^25 + 1 + 1 + …, which stays 2^25."""
    graph = Graph(2)
    small, large = graph.columns(graph.input, [0]), graph.columns(graph.input, [1])
    inner = small
    for _ in range(9):
        inner = graph.sum(inner, small)
    model = graph.finish(graph.affine(graph.sum(inner, large), np.ones((1, 1), np.float32)))
    x = np.array([[1.0, 2.0**25]])
    error = output_errors(model, x, x, interval_layers(model, x, x), np.ones((1, 1, 1)))[0, 0]
    assert 20 <= error < 50


@pytest.mark.parametrize("chained", [False, True])
def test_a_node_may_be_computed_once_for_each_of_its_readers(chained):
    """A compiler that fuses a product and a sum gives one reader the product, and the other one the rounded product."""
    graph = Graph(2)
    third = graph.norm(graph.columns(graph.input, [0]), scaling(0.0, float(np.float32(1 / 3)), 0.0))
    if chained:
        third = graph.sum(third, graph.columns(graph.input, [1]))
    opposite = graph.function(graph.norm(third, scaling(0.0, -1.0, 0.0)), Activation("relu"))
    other = graph.norm(graph.function(third, Activation("relu")), scaling(0.0, -1.0, 0.0))
    model = graph.finish(graph.affine(graph.sum(third, other, opposite), np.ones((1, 1), np.float32)))
    x = np.array([[5.0, 0.0]])
    for thorough in (False, True):
        intervals = interval_layers(model, x, x)
        error = output_errors(model, x, x, intervals, np.ones((1, 1, 1)), thorough=thorough)[0, 0]
        assert error >= 2 * 12 * 5 / 3 * 2.0**-24


def test_a_norm_has_the_same_error_however_many_nodes_a_file_makes_of_it():
    """A repair proves the network in memory, and its file may have a Mul and an Add for one norm."""
    x, errors = np.array([[5.0]]), []
    for norms in ([scaling(0.0, 3.0, -2.0)], [scaling(0.0, 3.0, None), scaling(0.0, 1.0, -2.0)]):
        graph = Graph(1)
        value = graph.input
        for norm in norms:
            value = graph.norm(value, norm)
        model = graph.finish(graph.affine(graph.function(value, Activation("relu")), np.ones((1, 1), np.float32)))
        errors.append(output_errors(model, x, x, interval_layers(model, x, x), np.ones((1, 1, 1)))[0, 0])
    assert errors[0] == errors[1]


@pytest.mark.parametrize(("count", "covered"), [(2, True), (3, False)])
@pytest.mark.parametrize("folded", [False, True])
def test_scalings_in_a_row_must_fit_into_one_number_of_float32(count, covered, folded):
    """ONNX Runtime makes one factor of them, also if others read what is between them: 2^-150 is 0 in float32."""
    graph = Graph(1)
    small = scaling(0.0, 2.0**-50, None)
    values = [graph.input]
    for _ in range(count):
        values.append(graph.norm(values[-1], small))
    layer = graph.affine(values[-1 - folded], np.full((1, 1), 2.0**50))
    layer = graph.norm(layer, small) if folded else layer
    joined = graph.concatenate(layer, *(graph.function(value, Activation("tanh")) for value in values))
    model = graph.finish(graph.affine(joined, np.ones((1, count + 2))))
    x = np.array([[1.0]])
    error = output_errors(model, x, x, interval_layers(model, x, x), np.ones((1, 1, 1)))[0, 0]
    assert np.isfinite(error) == covered


TWO_READERS = [node("MatMul", "x a", "h"), node("Relu", "h", "r"), node("Mul", "r k", "s"), node("MatMul", "s w", "p")]
TWO_READERS += [node("MatMul", "s v", "q"), node("Add", "p q", "t"), node("MatMul", "t i")]
HARDSWISH = [node("MatMul", "x a", "h"), node("Add", "h three", "p"), node("Clip", "p zero six", "c")]
HARDSWISH += [node("Mul", "h c", "m"), node("Div", "m six", "s"), node("MatMul", "s w")]
SCALED_LATER = {
    "a sum that overflows": (TWO_READERS, {"a": 1e15, "k": 2.0**-20, "w": 1e20, "v": 2e20}),
    "a product that underflows": (TWO_READERS, {"a": 1e-34, "k": 2.0**59, "w": 1.23456e-13, "v": 2e-13}),
    "hardswish": (HARDSWISH, {"a": 1e10, "w": 1e24, "three": 3, "zero": 0, "six": 6}),
}


@pytest.mark.parametrize("name", SCALED_LATER)
def test_scalings_before_a_product_may_be_computed_after_it(name, tmp_path):
    """ONNX Runtime makes a factor of the product of them, although another node reads them too."""
    nodes, numbers = SCALED_LATER[name]
    unit = np.eye(2, dtype=np.float32)
    constants = {key: unit * np.float32(value) if key in "awv" else np.float32(value) for key, value in numbers.items()}
    used = {name for each in nodes for name in each.input}
    constants |= {"i": unit} if "i" in used else {}
    path = save(tmp_path / "m.onnx", nodes, outputs=2, axes=("n", 2), **constants)
    x = np.float32([[1e4, 0]])
    found, model = runtime(path, x).astype(np.float64), read_model(path)[0]
    wide = x.astype(np.float64)
    intervals = interval_layers(model, wide, wide)
    beyond = np.maximum(intervals[-1][0] - found, found - intervals[-1][1])
    assert not (beyond <= 1e-6 * np.abs(intervals[-1][0])).all()  # far more than the roundings of single steps
    for thorough in (False, True):
        error = output_errors(model, wide, wide, intervals, np.eye(2)[None], thorough=thorough)
        assert np.isinf(error).all() or (beyond <= error).all()


def test_a_sum_of_too_many_terms_has_no_bound(monkeypatch):
    monkeypatch.setattr(Precision, "of", lambda dtype: Precision(2.0**-8, 2.0**127, 2.0**-126))
    graph = Graph(200)
    layer = graph.affine(graph.input, np.ones((200, 200), np.float32))
    model = graph.finish(graph.affine(graph.sum(layer, graph.input), np.ones((1, 200), np.float32)))
    x = np.ones((1, 200))
    assert output_errors(model, x, x, interval_layers(model, x, x), np.ones((1, 1, 1)))[0, 0] == np.inf


def test_a_unit_that_is_surely_off_carries_no_error():
    """Its input is off by far more than the output, which is exact: the sums after it are of zeros."""
    off = np.full((1, 5), -1e6, np.float32)
    layers = [(off, np.zeros(1, np.float32)), (np.ones((1, 1), np.float32), np.full(1, 0.5, np.float32))]
    model = make_model(layers, [Activation("relu")])
    lower, upper = np.ones((1, 5)), np.full((1, 5), 2.0)
    intervals = interval_layers(model, lower, upper)
    assert output_errors(model, lower, upper, intervals, np.ones((1, 1, 1)))[0, 0] <= 0.5 * 2.0**-24 * 1.001


def test_errors_of_weights_with_opposite_signs_cancel():
    """Two units compute the same, and the output is their difference: only what they round themselves counts."""
    wide = np.full((1, 50), 1.0, np.float32)
    same, apart = np.array([[1.0], [1.0]], np.float32), np.array([[1.0, -1.0]], np.float32)
    zero = np.zeros(1, np.float32)
    model = make_model([(wide, zero), (same, np.zeros(2, np.float32)), (apart, zero)], [Activation("relu")] * 2)
    x = np.full((1, 50), 0.1)
    error = output_errors(model, x, x, interval_layers(model, x, x), np.ones((1, 1, 1)))[0, 0]
    assert error < 50 * 2.0**-24  # the first sum alone: 50 additions, each off by up to half a unit of 4, are 200


@pytest.mark.parametrize("thorough", [False, True])
def test_no_perturbation_of_the_size_of_the_roundings_changes_an_output_by_more(thorough):
    """Every step is off by as much as it may be, with the signs that add up: the bound is reached, and not exceeded."""
    rng = np.random.default_rng(3)
    reached = []
    for activation in ("relu", "leaky_relu", "tanh", "sigmoid"):
        network = random_network(rng, 4, [6, 5, 6, 4], 1, activation)
        model = checked_model(network)
        x = rng.normal(size=(20, 4)) * 3
        layers = interval_layers(model, x, x)
        bound = output_errors(model, x, x, layers, np.ones((20, 1, 1)), thorough=thorough)[:, 0]
        roundings, last, _ = _forward(model, x, x, layers, Precision.of(model.dtype), thorough=thorough)
        owns = [*(rounding.own for rounding in roundings), last]  # of the input, the first layer, its function, ...
        wide = network.astype(np.float64)
        gradient, steps = np.ones((20, 1)), []
        for number in range(len(wide.affines) - 1, -1, -1):
            entering = gradient @ wide.affines[number].weight
            steps.append((np.sign(gradient) * owns[2 * number + 1], np.sign(entering) * owns[2 * number]))
            if number:
                function = function_of(model.activations[number - 1])
                gradient = entering * function.slope_range(*layers[2 * number - 1])[1]
        h = x
        kinds = [*wide.activations, NetworkActivation("identity")]
        for (own, entering), affine, kind in zip(reversed(steps), wide.affines, kinds, strict=True):
            h = (h + entering) @ affine.weight.T + affine.bias + own
            kind.apply(h)
        off = np.abs(h[:, 0] - wide.logits(x))
        assert (off <= bound + 1e-12).all()
        reached.append((off / bound).max())
    assert max(reached) > 0.99


FLUSHED = {  # networks and inputs for which a subnormal number that is taken as 0 changes the sign of the score
    "a weight": ([([[1e-39]], [-0.05])], [], [1e38]),
    "an input": ([([[1e38]], [-0.05])], [], [1e-39]),
    "a bias": ([([[0.0]], [1e-39]), ([[1e38]], [-0.05])], ["identity"], [1.0]),
    "a product": ([([[1e-20]], [0.0]), ([[1e38]], [-0.05])], ["identity"], [1e-19]),
    "a sum": ([([[1.0, -1.0]], [0.0]), ([[1e38]], [-0.05])], ["relu"], [1.4e-38, 1.2e-38]),
    "the output of ReLU": ([([[1e-30]], [0.0]), ([[1e38]], [-0.05])], ["relu"], [1e-9]),
    "the output of sigmoid": ([([[1.0]], [0.0]), ([[1e38]], [-0.05])], ["sigmoid"], [-89.0]),
    "a slope": ([([[1e38]], [0.0]), ([[-1.0]], [-0.05])], ["leaky_relu"], [-1.0]),
}

FLUSHING = """
import json, sys, torch
assert torch.set_flush_denormal(True)
torch.set_num_threads(1)
found = []
for layers, kinds, x in json.load(sys.stdin):
    h = torch.tensor([x])
    for layer, (weight, bias) in enumerate(layers):
        h = torch.nn.functional.linear(h, torch.tensor(weight), torch.tensor(bias))
        if layer < len(kinds):
            kind = kinds[layer]
            slope = {"identity": 1.0, "relu": 0.0}.get(kind, 1e-39)
            h = torch.sigmoid(h) if kind == "sigmoid" else torch.where(h >= 0, h, h * torch.tensor(slope))
    found.append(h.item())
print(json.dumps(found))
"""


def test_subnormal_numbers_that_are_taken_as_0_stay_within_the_error():
    """As with torch.set_flush_denormal, an option of ONNX Runtime, and GPUs; each network here changes its answer."""
    cases = list(FLUSHED.values())
    done = subprocess.run(
        [sys.executable, "-c", FLUSHING], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    for what, (layers, kinds, x), flushed in zip(FLUSHED, cases, json.loads(done.stdout), strict=True):
        affines = [Affine(np.array(weight, np.float32), np.array(bias, np.float32)) for weight, bias in layers]
        slopes = {"leaky_relu": float(np.float32(1e-39))}
        network = Network(affines, [NetworkActivation(kind, slopes.get(kind, 0.0)) for kind in kinds])
        point = np.array([x], np.float32)
        wide = network.astype(np.float64).logits(point.astype(np.float64)).item()
        assert (wide > 0) != (flushed > 0), what
        for bound in [checker_error(checked_model(network), np.zeros(len(point), np.int64), point, point)]:
            assert abs(wide - flushed) <= bound[0], what


def test_a_slope_that_overflows_is_an_infinite_error():
    """The product is infinite, and times the next weight, which is 0, not a number."""
    layers = [
        (np.ones((1, 1), np.float32), np.zeros(1, np.float32)),
        (np.zeros((1, 1), np.float32), np.ones(1, np.float32)),
    ]
    model = make_model(layers, [Activation("leaky_relu", 2.0**100)])
    assert np.isinf(checker_error(model, np.zeros(1, int), np.full((1, 1), -1e20), np.full((1, 1), -1e20))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_probability_is_on_the_side_of_its_score_beyond_the_closing_error(dtype):
    """A sigmoid rounds a score just below 0 to 0.5; a softmax rounds two scores to equal probabilities."""
    import torch

    margin = 64 * float(np.finfo(dtype).eps) / 2
    score = np.geomspace(margin, 80, 2001).astype(dtype)
    by_numpy = 1 / (1 + np.exp(-score)), 1 / (1 + np.exp(score))
    by_torch = (torch.sigmoid(torch.from_numpy(part)).numpy() for part in (score, -score))
    for above, below in (by_numpy, by_torch):
        assert (above > 0.5).all()
        assert (below < 0.5).all()
    for base in (0.0, 0.25):
        pairs = torch.from_numpy(np.stack([np.full_like(score, base), base - score], axis=1))
        first, second = torch.softmax(pairs, dim=1).numpy().T
        assert (first > second)[pairs.numpy()[:, 0] - pairs.numpy()[:, 1] >= margin].all()


@pytest.mark.parametrize("outputs", [3, 10, 1000])
def test_a_softmax_is_accurate_relative_to_each_probability(outputs, tmp_path):
    """Of many outputs, two errors of 16 u of 1 could exchange the largest two; libraries are far more accurate."""
    import torch

    rng = np.random.default_rng(outputs)
    z = (rng.normal(size=(500, outputs)) * rng.choice([0.01, 1, 20], size=(500, 1))).astype(np.float32)
    z[:250, 1] = z[:250, 0] + np.float32(2.0**-18) * rng.choice([-1, 1], size=250)
    by_runtime = runtime(save(tmp_path / "m.onnx", [node("Softmax", "x")], outputs, axes=("n", outputs)), z)
    below = z.max(axis=1, keepdims=True).astype(np.float64) - z
    exact = np.exp(-below) / np.exp(-below).sum(axis=1, keepdims=True)
    unit, tiny = 2.0**-24, float(np.finfo(np.float32).tiny)
    for computed in (torch.softmax(torch.from_numpy(z), dim=1).numpy(), by_runtime):
        assert (np.abs(computed - exact) <= (16 + 2 * below) * unit * exact + tiny).all()


def flushed(values):
    """Subnormal numbers become 0."""
    values = np.asarray(values, np.float32)
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(0), values)


def flushing_outputs(network, x):
    """Inference in float32, one operation after the other, with every operand and every result flushed."""
    h = flushed(x)
    for layer, affine in enumerate(network.affines):
        total = flushed(affine.bias)
        for column in range(affine.weight.shape[1]):
            total = flushed(total + flushed(flushed(affine.weight[:, column]) * h[column]))
        h = total
        if layer < len(network.activations):
            kind = network.activations[layer]
            slope = flushed({"relu": 0.0, "identity": 1.0}.get(kind.name, kind.slope))
            h = np.where(h >= 0, h, flushed(slope * h))
    return h


@examples(200)
@given(
    networks([kind for kind in ACTIVATIONS if kind.piecewise_linear], dtypes=[np.float32]),
    st.integers(0, 2**32 - 1),
)
def test_random_networks_of_subnormal_and_huge_numbers_stay_within_the_error(network, seed):
    rng = np.random.default_rng(seed)

    def spread(values):
        with np.errstate(over="ignore"):
            scaled = (values * 2.0 ** rng.choice([-140, -127, -60, 0, 60, 100], values.shape)).astype(np.float32)
        return np.where(np.isfinite(scaled), scaled, 1).astype(np.float32)

    network = network.with_affines([Affine(spread(a.weight), spread(a.bias)) for a in network.affines])
    x = spread(rng.normal(size=network.inputs))
    bound = checker_error(checked_model(network), np.zeros(1, np.int64), x[None], x[None])[0]
    if np.isfinite(bound):
        truth, computed = (
            exact_outputs(checked_model(network), x),
            map(Fraction, map(float, flushing_outputs(network, x))),
        )
        off = [a - b for a, b in zip(computed, truth, strict=True)]
        worst = abs(off[0]) if len(off) == 1 else max(abs(off[0] - other) for other in off[1:])
        assert worst <= Fraction(bound)


def test_memory_does_not_grow_with_the_number_of_layers(monkeypatch):
    """Of many boxes, some are bounded after the others."""
    layer = np.ones((1, 1), np.float32), np.ones(1, np.float32)
    deep = make_model([layer] * 40, [Activation("relu")] * 39)
    rows, forward = [], module._forward

    def some(model, lower, *others, **settings):
        rows.append(len(lower))
        return forward(model, lower, *others, **settings)

    monkeypatch.setattr(module, "_forward", some)
    monkeypatch.setattr(module, "_ROOM", 2000)
    x = np.zeros((300, 1))
    output_errors(deep, x, x, interval_layers(deep, x, x)[:-1], np.ones((300, 1, 1)))
    assert rows == [100, 100, 100]


def test_errors_of_groups_are_no_smaller_than_those_of_single_points_and_decide_the_same():
    """Margins between the two errors of a point: tracing many points together must not lose or invent a proof."""
    rng = np.random.default_rng(3)
    model = checked_model(random_network(rng, 3, [12] * 6))
    points = np.repeat(rng.normal(size=(4, 3)), 10, axis=0) + rng.integers(0, 3, (40, 3))
    layers, classes, closing = interval_layers(model, points, points), np.ones(40, np.int64), np.zeros(40)
    forms = np.ones((40, 1, 1))
    single = output_errors(model, points, points, layers[:-1], forms, thorough=True)[:, 0]
    groups = np.repeat(np.arange(4), 10)
    for factor, proven in ((1.001, True), (0.999, False)):
        margins = single * factor
        each = inference_error(model, classes, points, points, layers[:-1], margins, closing)
        grouped = inference_error(model, classes, points, points, layers[:-1], margins, closing, groups)
        assert (grouped >= single * (1 - 1e-9)).all()
        assert ((margins > each) == proven).all()
        assert np.array_equal([(margins > grouped)[groups == group].all() for group in range(4)], [proven] * 4)
