"""Activations: what each computes, in place, and how they are written and read."""

import numpy as np
import pytest

from fairmend.errors import FairmendError
from fairmend.network.activations import ACTIVATIONS, Activation, parse_activation

FORMULAS = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.25 * x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_activation_follows_its_definition(name, dtype):
    values = np.linspace(-30, 30, 101).astype(dtype)
    expected = FORMULAS[name](values.astype(np.float64))
    Activation(name, 0.25 if name == "leaky_relu" else 0.0).apply(values)
    assert values.dtype == dtype
    assert np.allclose(values, expected, atol=1e-6)


def test_a_sigmoid_of_extreme_values_does_not_overflow():
    values = np.array([-1e4, 1e4], np.float32)
    Activation("sigmoid").apply(values)
    assert values.tolist() == [0, 1]


def test_activations_are_read_as_they_are_shown():
    for act in (Activation("relu"), Activation("leaky_relu", 0.2), Activation("tanh")):
        assert parse_activation(str(act)) == act
        assert parse_activation(act) is act
    assert parse_activation("leaky_relu") == Activation("leaky_relu", 0.01)
    for bad in ("elu", "leaky_relu(x)", "leaky_relu(2)", "relu(1)", ""):
        with pytest.raises(FairmendError, match=r"unknown activation|no number in its brackets|has slope 2\.0"):
            parse_activation(bad)


def test_an_activation_without_bounds_is_refused_everywhere_and_never_taken_for_another(monkeypatch):
    """Adding an activation fails in every place that must handle it; none treats it as the identity."""
    import torch

    from fairmend.bounds.enclosure import enclose_value
    from fairmend.bounds.inference import inference_error
    from fairmend.bounds.relaxation import apply_activation, relax
    from fairmend.network import Affine, Network, activations
    from fairmend.prove.rational import exact_classes, is_piecewise_linear
    from fairmend.search.gradients import _derivative

    monkeypatch.setitem(activations._FUNCTIONS, "square", lambda values, slope: np.square(values, out=values))
    monkeypatch.setattr(activations, "ACTIVATIONS", tuple(activations._FUNCTIONS))
    square = activations.Activation("square")
    one = Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    net, point, ends = Network([one, one], [square]), np.ones((1, 1), np.float32), torch.ones(1, 1)
    assert not is_piecewise_linear(net)
    for place in (
        lambda: exact_classes(net, point),
        lambda: inference_error(net, point, point),
        lambda: enclose_value(square, point.astype(np.float64)),
        lambda: apply_activation(square, ends),
        lambda: relax(square, ends, ends),
        lambda: _derivative(square, point.astype(np.float64)),
    ):
        with pytest.raises((NotImplementedError, KeyError), match="square"):
            place()
