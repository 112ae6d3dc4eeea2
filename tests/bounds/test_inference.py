"""Inference is never further from real arithmetic than its error bound says."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.bounds.inference import inference_error
from fairmend.bounds.rigorous import bounds_and_layers
from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Fold, Part
from fairmend.network.graph import Node
from fairmend.network.operations import Input, Scale, Sum
from support.exact import KINKED, exact_logits
from support.graphs import PIECEWISE_LINEAR, graph_boxes, graphs, hard_graphs, points_of
from support.repair_cases import random_regions, sampled
from support.strategies import networks, random_network


@settings(max_examples=60, deadline=None)
@given(networks(KINKED), st.integers(0, 2**32 - 1), st.integers(-12, 12), st.booleans())
def test_inference_is_never_further_from_the_truth_than_the_error_says(network, seed, magnitude, mixed):
    rng = np.random.default_rng(seed)
    if mixed:  # columns of very different sizes
        first = network.affines[0]
        sizes = (2.0 ** rng.integers(-20, 20, size=network.inputs)).astype(network.dtype)
        network = network.with_affines([Affine(first.weight * sizes, first.bias), *network.affines[1:]])
    x = (rng.normal(size=(1, network.inputs)) * 2.0**magnitude).astype(network.dtype)
    error = inference_error(network, x, x)[0]
    truth = exact_logits(network, x[0])
    order = rng.permutation(network.inputs)
    first = network.affines[0]
    permuted = Network(
        [Affine(first.weight[:, order], first.bias), *network.affines[1:]], network.activations, network.closing
    )
    for net, row in ((network, x), (permuted, x[:, order])):
        for computed, real, bound in zip(np.atleast_1d(net.logits(row)[0]), truth, error, strict=True):
            assert abs(Fraction(float(computed)) - real) <= Fraction(float(bound))


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_inference_of_curved_units_stays_within_the_error(activation):
    rng = np.random.default_rng(7)
    for size in (1e-3, 1.0, 30.0):
        network = random_network(rng, 5, [6, 4], 2, activation)
        X = (rng.normal(size=(50, 5)) * size).astype(np.float32)
        wide = network.astype(np.float64).logits(X)  # off by 1e-15, far less than the bound
        assert (np.abs(network.logits(X) - wide) <= inference_error(network, X, X) + 1e-13).all()


def test_the_error_over_a_box_covers_every_point_in_it():
    rng = np.random.default_rng(8)
    network = random_network(rng, 4, [5, 5], 2, "leaky_relu")
    regions = random_regions(rng, 4, 4, 5, width=4.0, dtype=np.float32)
    error = inference_error(network, regions.lower, regions.upper)
    points, owner = sampled(regions, rng)
    points = points.astype(np.float32)
    off = np.abs(network.logits(points) - network.astype(np.float64).logits(points))
    assert (off <= error[owner]).all()


def test_an_intermediate_overflow_that_cancels_is_an_infinite_error():
    first = Affine(np.array([[3e38, 3e38, -3e38, -3e38]], np.float32), np.ones(1, np.float32))
    network = Network([first, Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [Activation("relu")])
    x = np.ones((1, 4), np.float32)
    assert np.isinf(inference_error(network, x, x)).all()


def float32_logits(network, x, rng, flush=False, merge=False):
    """The logits at x (inputs,) as a program may compute them: sums in any order, norms as steps of their own.

    With ``merge``, the terms of affine layers in a sum are added up together with its other parts, in any order.
    """
    tiny = np.finfo(np.float32).tiny

    def kept(values):
        values = np.asarray(values, np.float32)
        return np.where(np.abs(values) < tiny, np.float32(0), values) if flush else values

    def total(terms):
        sum_ = np.zeros(terms.shape[1:], np.float32)
        for number in rng.permutation(len(terms)):
            sum_ = kept(sum_ + terms[number])
        return sum_

    def terms(operation, values):
        return np.vstack([kept(kept(operation.weight) * values).T, kept(operation.bias)[None]])

    def parts(source):
        node = network.nodes[source]
        merged = merge and isinstance(node.operation, Affine)
        return terms(node.operation, found[node.sources[0]]) if merged else found[source][None]

    found = [kept(x)]
    for node in network.nodes[1:]:
        operation, values = node.operation, [found[source] for source in node.sources]
        if isinstance(operation, Affine):
            result = total(terms(operation, values[0]))
        elif isinstance(operation, Sum):
            result = total(np.vstack([parts(source) for source in node.sources]))
        elif isinstance(operation, Scale):
            result = values[0]
            for norm in operation.norms:
                result = kept(kept(result - norm.mean) / np.sqrt(norm.variance + np.float32(norm.epsilon)))
                result = kept(kept(result * norm.gain) + norm.shift)
        else:
            result = np.empty((1, operation.width([len(value) for value in values])), np.float32)
            operation.compute([value[None].astype(np.float32) for value in values], result)
            result = kept(result[0])
        found.append(result)
    return found[-1]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_inference_of_graphs_is_never_further_from_the_truth_than_the_error_says(data):
    network = data.draw(hard_graphs(PIECEWISE_LINEAR, spread=data.draw(st.sampled_from((1, 8, 20)))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    lower, upper = (ends.astype(np.float32) for ends in graph_boxes(network, rng, 1))
    upper = np.maximum(lower, upper)
    layers = bounds_and_layers(network, lower, upper)[2]
    thorough = inference_error(network, lower, upper, layers, thorough=True)[0]
    for x in points_of(network, lower[0], upper[0], rng)[:5]:
        x = np.clip(x.astype(np.float32), lower[0], upper[0])
        truth = exact_logits(network, x)
        error = inference_error(network, x[None], x[None])[0]
        with np.errstate(all="ignore"):
            runs = [float32_logits(network, x, rng, *how) for how in product((False, True), repeat=2)]
            runs.append(network._run(x[None], len(network.nodes) - 1)[0] if np.isfinite(error).all() else runs[0])
        for computed in runs:
            for value, real, *bounds in zip(computed, truth, error, thorough, strict=True):
                for bound in bounds:
                    assert np.isinf(bound) or abs(Fraction(float(value)) - real) <= Fraction(float(bound))


@settings(max_examples=30, deadline=None)
@given(graphs(dtypes=(np.float32,)), st.integers(0, 2**32 - 1))
def test_inference_of_curved_graphs_stays_within_the_error(network, seed):
    rng = np.random.default_rng(seed)
    lower, upper = (ends.astype(np.float32) for ends in graph_boxes(network, rng, 1))
    upper = np.maximum(lower, upper)
    error = inference_error(network, lower, upper)[0]
    wide = network.astype(np.float64)
    for x in points_of(network, lower[0], upper[0], rng):
        x = np.clip(x.astype(np.float32), lower[0], upper[0])
        off = np.abs(float32_logits(network, x, rng) - np.atleast_1d(wide.logits(x[None])[0]))
        assert (off <= error + 1e-12 * (1 + np.abs(off))).all()


def test_the_error_of_a_skip_is_not_counted_by_layer():
    """x + W2 relu(W1 x) with a unit that is surely off: no more than the error of reading x and of one addition."""
    off = Affine(np.ones((2, 2), np.float32), np.full(2, -100, np.float32))
    nodes = [
        Node(Input(2)),
        Node(off, (0,), "first"),
        Node(Activation("relu"), (1,)),
        Node(Affine(np.full((2, 2), 1e6, np.float32), np.zeros(2, np.float32)), (2,), "second"),
        Node(Sum(), (0, 3)),
        Node(Affine(np.eye(2, dtype=np.float32)[:1], np.zeros(1, np.float32)), (4,), "head"),
    ]
    x = np.ones((1, 2), np.float32)
    assert inference_error(Network.from_nodes(nodes), x, x)[0, 0] < 1e-6


def test_a_layer_in_parts_adds_up_biases_that_cancel():
    """(x + 1e6) + (y - 1e6): the biases of the joined layer are 0, and what is lost beside them is not."""
    parts = tuple(Part(f"part {b:g}", np.ones((1, 1), np.float32), np.array([b], np.float32), 1.0) for b in (1e6, -1e6))
    x = np.full((1, 2), 0.3, np.float32)
    error = inference_error(Network([Affine.from_fold(Fold.join(parts, "a file"))], []), x, x)[0, 0]
    terms = [np.float32(0.3) + np.float32(b) for b in (1e6, -1e6)]
    assert abs(float(terms[0] + terms[1]) - 2 * float(np.float32(0.3))) <= error < 10
