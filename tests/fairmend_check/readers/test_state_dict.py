"""State dicts: the certificate names the layers, and the condition says what the module must compute."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Activation, Layer
from fairmend_check.readers.state_dict import model_of_tensors

SQUARE = {f"{name}.{part}": np.full(shape, number, np.float32)
          for number, name in enumerate("ab") for part, shape in (("weight", (2, 2)), ("bias", 2))}  # fmt: skip
NONE = Activation("none")


def test_the_certificate_decides_order_and_activations():
    slope = float(np.float32(0.01))
    for names, activation in (("ab", Activation("relu")), ("ba", Activation("leaky_relu", slope))):
        model = model_of_tensors(SQUARE, [Layer(names[0], activation), Layer(names[1], NONE)])
        assert [weight[0, 0] for weight in model.weights] == [float(name == "b") for name in names]
        assert model.activations == (activation,)
        shown = "relu" if names == "ab" else "leaky_relu with slope 0.01"
        steps = f'"{names[0]}" (2 to 2), {shown}, "{names[1]}" (2 to 2)'
        assert f"computes in float32, in this order: {steps}. Each layer computes W x + b" in model.condition


def test_a_single_layer_without_a_name_or_a_bias():
    model = model_of_tensors({"weight": np.ones((1, 3))}, [Layer("", NONE)])
    assert '"" (3 to 1)' in model.condition
    assert model.condition.endswith("A module in float32 would round the weights, which the claim does not cover.")
    assert not model.biases[0].any()


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (None, r"does not name the layers of the module \(model\.layers is null\)"),
        ([], "belongs to no layer"),
        ([Layer("a", NONE)], 'the tensor "b.weight", which belongs to no layer'),
        ([Layer("a", Activation("relu")), Layer("c", NONE)], 'no tensor "c.weight"'),
        ([Layer("a", Activation("relu")), Layer("a", NONE)], 'no tensor "a.weight", or the certificate names it twice'),
        ([Layer("a", Activation("sine")), Layer("b", NONE)], "sine"),
        ([Layer("a", Activation("leaky_relu", 1e40)), Layer("b", NONE)], "slope inf is unknown"),
    ],
)
def test_layers_that_do_not_fit(layers, reason):
    with pytest.raises(CheckError, match=reason):
        model_of_tensors(SQUARE, layers)


def test_the_condition_says_whatever_a_module_could_do_otherwise():
    """A slope of 0 is not PyTorch's default, a layer may have no bias, and a sigmoid is not a softmax."""
    tensors = {
        "a.weight": np.eye(2, dtype=np.float32),
        "b.weight": np.eye(2, dtype=np.float32),
        "b.bias": np.ones(2, np.float32),
    }
    layers = [Layer("a", Activation("leaky_relu", 0.0)), Layer("b", Activation("identity"))]
    condition = model_of_tensors(tensors, layers).condition
    assert "leaky_relu with slope 0.0" in condition
    assert 'Without a bias: "a".' in condition
    assert "W = weight (out, in)" in condition
    assert "only a softmax after them" in condition
