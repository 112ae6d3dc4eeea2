"""Models: a chain of finite layers of one type, and the digest that identifies them."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, make_model, weights_digest

RELU = Activation("relu")


def layer(rows, columns, dtype=np.float32):
    return np.ones((rows, columns), dtype), np.zeros(rows, dtype)


def test_a_missing_bias_is_zero():
    model = make_model([(np.ones((2, 3), np.float32), None)], [])
    assert (model.inputs, model.outputs, model.dtype) == (3, 2, "float32")
    assert np.array_equal(model.biases[0], [0, 0])


@pytest.mark.parametrize(
    ("layers", "activations", "why"),
    [
        ([], [], "no layers"),
        ([layer(2, 3), layer(1, 2, np.float64)], [RELU], "all be float32 or all be float64, got float32, float64"),
        ([layer(2, 3, np.float16)], [], "got float16"),
        ([layer(2, 3), layer(1, 3)], [RELU], "layer 1 reads 3 of 2 values"),
        ([(np.ones((2, 3), np.float32), np.zeros(3, np.float32))], [], "layer 0 has weights"),
        ([(np.ones(3, np.float32), None)], [], "weights of shape"),
        ([(np.ones((0, 3), np.float32), None)], [], "weights of shape"),
        ([(np.full((1, 1), np.inf, np.float32), None)], [], "not finite"),
        ([layer(2, 3), layer(1, 2)], [], "2 layers and 0 activations"),
        ([layer(2, 3), layer(1, 2)], [Activation("gelu")], "activation gelu with slope 0.0 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("relu", 0.1)], "activation relu with slope 0.1 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("leaky_relu", -0.1)], "slope -0.1 is unknown"),
        ([layer(2, 3), layer(1, 2)], [Activation("leaky_relu", 0.01)], "slope 0.01 of an activation is not a float32"),
    ],
)
def test_layers_that_are_not_a_model_are_refused(layers, activations, why):
    with pytest.raises(CheckError, match=why):
        make_model(layers, activations)


def test_the_digest_changes_with_every_part():
    model = make_model([layer(2, 3), layer(1, 2)], [RELU])
    nudged = model.weights[0].copy()
    nudged[1, 2] = np.nextafter(nudged[1, 2], 2)
    others = [
        replace(model, weights=(nudged, model.weights[1])),
        replace(model, biases=(model.biases[0] + 1e-300, model.biases[1])),
        replace(model, activations=(Activation("tanh"),)),
        replace(model, activations=(Activation("leaky_relu", 0.01),)),
        replace(model, activations=(Activation("leaky_relu", 0.02),)),
        replace(model, dtype="float64"),
    ]
    assert len({weights_digest(each) for each in [model, *others]}) == 7
