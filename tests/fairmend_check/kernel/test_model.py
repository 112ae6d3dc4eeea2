"""Models: a chain of finite layers of one type, and the digest that identifies them."""

import hashlib

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.model import Activation, weights_digest
from fairmend_check.kernel.operations.affine import scaling
from support.checker_models import make_model

RELU = Activation("relu")


def layer(rows, columns, dtype=np.float32):
    return np.ones((rows, columns), dtype), np.zeros(rows, dtype)


def test_a_missing_bias_is_zero():
    model = make_model([(np.ones((2, 3), np.float32), None)], [])
    assert (model.inputs, model.outputs, model.dtype) == (3, 2, "float32")
    assert np.array_equal(model.layers[0].bias, [0, 0])


@pytest.mark.parametrize(
    ("layers", "activations", "why"),
    [
        ([layer(2, 3), layer(1, 2, np.float64)], [RELU], "all be float32 or all be float64, got float32, float64"),
        ([layer(2, 3, np.float16)], [], "got float16"),
        ([layer(2, 3), layer(1, 3)], [RELU], "layer of the model reads 3 of 2 values"),
        ([(np.ones((2, 3), np.float32), np.zeros(3, np.float32))], [], "layer has weights"),
        ([(np.ones(3, np.float32), None)], [], "weights of shape"),
        ([(np.ones((0, 3), np.float32), None)], [], "weights of shape"),
        ([(np.full((1, 1), np.inf, np.float32), None)], [], "not finite"),
        ([layer(2, 3), layer(1, 2)], [Activation("swish2")], "activation swish2 with slope 0.0 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("relu", 0.1)], "activation relu with slope 0.1 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("leaky_relu", -0.1)], "slope -0.1 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("leaky_relu", 0.01)], "slope 0.01 of an activation is not a float32"),
    ],
)
def test_layers_that_are_not_a_model_are_refused(layers, activations, why):
    with pytest.raises(CheckError, match=why):
        make_model(layers, activations)


def test_the_digest_changes_with_every_part():
    layers = [layer(2, 3), layer(1, 2)]
    nudged = layers[0][0].copy()
    nudged[1, 2] = np.nextafter(nudged[1, 2], np.float32(2))
    shifted = layers[0][1] + np.float32(1e-30)
    wide = [(weight.astype(np.float64), bias.astype(np.float64)) for weight, bias in layers]
    slopes = [float(np.float32(slope)) for slope in (0.01, 0.02)]
    models = [
        make_model(layers, [RELU]),
        make_model([(nudged, layers[0][1]), layers[1]], [RELU]),
        make_model([(layers[0][0], shifted), layers[1]], [RELU]),
        make_model(layers, [Activation("tanh")]),
        *(make_model(layers, [Activation("leaky_relu", slope)]) for slope in slopes),
        make_model(layers, [Activation("prelu", 0.0, (slopes[0], slopes[1]))]),
        make_model(layers, [Activation("prelu", 0.0, (-slopes[0], -slopes[0]))]),
        make_model(wide, [RELU]),
    ]
    assert len({weights_digest(each) for each in models}) == len(models)


def test_a_prelu_with_one_slope_has_the_digest_of_a_leaky_relu():
    layers = [layer(2, 3), layer(1, 2)]
    models = [
        make_model(layers, [kind]) for kind in (Activation("prelu", 0.0, (0.5, 0.5)), Activation("leaky_relu", 0.5))
    ]
    assert weights_digest(models[0]) == weights_digest(models[1])


def graph_of(weight, bias, table, head):
    """An embedding beside the other column, a layer, and a skip."""
    graph = Graph(2)
    rows = graph.lookup(graph.columns(graph.input, [0]), table)
    hidden = graph.affine(graph.norm(rows, scaling(0.5, 2.0, None)), weight, bias)
    return graph.finish(graph.affine(graph.concatenate(graph.function(hidden, RELU), graph.input), head))


def test_the_digest_of_a_graph_is_that_of_the_stored_arrays_in_no_order():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 2), (3,), (4, 2), (1, 5))]
    model = graph_of(*arrays)
    assert not model.is_chain
    lines = sorted(
        hashlib.sha256(f"{' '.join(map(str, array.shape))}\n".encode() + array.astype("<f8").tobytes()).hexdigest()
        for array in arrays
    )
    text = "".join(f"{line}\n" for line in ("fairmend weights 2", "float32", *lines))
    assert weights_digest(model) == hashlib.sha256(text.encode()).hexdigest()
    for place in range(4):
        changed = [array.copy() for array in arrays]
        changed[place].flat[0] = np.nextafter(changed[place].flat[0], np.float32(9))
        assert weights_digest(graph_of(*changed)) != weights_digest(model)
    without = graph_of(arrays[0], None, *arrays[2:])
    assert weights_digest(without) == weights_digest(graph_of(arrays[0], np.zeros(3, np.float32), *arrays[2:]))


def test_a_row_of_a_deep_model_needs_more_than_its_widest_node():
    """There is an interval for each node, so a thousand narrow layers need as much memory as one wide layer."""
    layer = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    shallow, deep = (make_model([layer] * n, [Activation("relu")] * (n - 1)) for n in (2, 500))
    assert (shallow.held, deep.held) == (1, 250)
