"""Layers to a Network: norms and scales are folded into the affine layer beside them, in float64."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.chain import Collapse, Linear, Nonlinear, Norm, Softmax, build_network, scaling

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
W, B = RNG.normal(size=(2, 3)), RNG.normal(size=2)
V = RNG.normal(size=(1, 2))
MEAN, VARIANCE, GAIN, SHIFT = RNG.normal(size=3), RNG.uniform(0.5, 2, 3), RNG.normal(size=3), RNG.normal(size=3)


def linear(weight=W, bias=B, name=None):
    return Linear("layer", weight, bias, name)


def relu():
    return Nonlinear("relu", Activation("relu"))


def test_norms_and_scales_are_folded_on_either_side():
    norm = Norm("norm", MEAN, VARIANCE, GAIN, SHIFT, 1e-3)
    scale = scaling("scale", 2.0, np.array([1.0, -1.0]))
    network = build_network([norm, linear(), scale, relu(), scale, linear(V, None)], "m")
    assert network.depth == 2
    normed = (X - MEAN) / np.sqrt(VARIANCE + 1e-3) * GAIN + SHIFT
    hidden = np.maximum((normed @ W.T + B) * 2 + [1, -1], 0) * 2 + [1, -1]
    assert np.allclose(network.logits(X), (hidden @ V.T)[:, 0], atol=1e-12)


def test_two_affine_layers_have_the_identity_between_them():
    network = build_network([linear(), linear(V, None)], "m")
    assert network.activations == (Activation("identity"),)


def test_names_that_repeat_are_replaced():
    assert build_network([linear(name="a"), relu(), linear(V, None, "b")], "m").names == ("a", "b")
    assert build_network([linear(name="a"), relu(), linear(V, None, "a")], "m").names == ("layers.0", "layers.1")


def test_the_closing_is_kept_aside():
    assert build_network([linear(), Softmax("s")], "m").closing == "softmax"
    sigmoid = Nonlinear("s", Activation("sigmoid"))
    assert build_network([linear(V, None), Collapse("squeeze", single=True), sigmoid], "m").closing == "sigmoid"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([relu()], "m: holds no affine layer"),
        ([linear(), scaling("s", np.ones(3), np.zeros(3))], "s is 3 wide, and the affine layer beside it 2"),
        ([linear(), Softmax("s"), Softmax("t")], "t follows the closing softmax"),
        ([linear(), Collapse("squeeze", single=True)], "would mix the 2 outputs"),
        ([linear(V, None), linear(V, None)], "m: .* takes 2 values, but the layer before it gives 1"),
    ],
)
def test_what_is_no_chain_is_refused_where_it_stands(steps, words):
    with pytest.raises(FairmendError, match=words):
        build_network(steps, "m")
