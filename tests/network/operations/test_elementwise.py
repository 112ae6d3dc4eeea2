"""Activations: their names, numbers and text; what each computes is tested beside its function."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network.functions import FUNCTIONS, Function, find_function
from fairmend.network.operations.elementwise import Activation, parse_activation


def test_a_sigmoid_of_extreme_values_does_not_overflow():
    values = np.array([-1e4, 1e4], np.float32)
    Activation("sigmoid").apply(values)
    assert values.tolist() == [0, 1]


def test_activations_are_read_as_they_are_shown():
    for act in (
        Activation("relu"),
        Activation("leaky_relu", 0.2),
        Activation("leaky_relu", 2.0),
        Activation("tanh"),
        Activation("prelu", parameters=(0.25, -0.5)),
    ):
        assert parse_activation(str(act)) == act
        assert parse_activation(act) is act
    assert parse_activation("leaky_relu") == Activation("leaky_relu", 0.01)
    for bad in ("swish", "leaky_relu(x)", "leaky_relu(-1)", "leaky_relu(1, 2)", "relu(1)", "prelu", "prelu(nan)", ""):
        with pytest.raises(FairmendError):
            parse_activation(bad)


def test_many_parameters_are_shown_as_their_number():
    assert str(Activation("prelu", parameters=(0.25,) * 100)).endswith("… 100 in all)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cube",), "unknown activation 'cube'; supported: relu"),
        (("relu", 0.1), "relu takes no slope"),
        (("relu", 0.0, (1.0,)), "relu takes no parameters"),
        (("leaky_relu", -0.1), "leaky_relu has slope -0.1"),
        (("leaky_relu", float("nan")), "leaky_relu has slope nan"),
    ],
)
def test_numbers_that_a_function_does_not_have_are_refused(arguments, message):
    with pytest.raises(FairmendError, match=message):
        Activation(*arguments)


def test_numbers_are_rounded_with_the_network():
    assert Activation("leaky_relu", 0.1).astype(np.float32).slope == float(np.float32(0.1))
    rounded = Activation("prelu", parameters=(0.1, 0.5)).astype(np.float32)
    assert rounded.parameters == (float(np.float32(0.1)), 0.5)


def test_prelu_has_a_slope_for_each_unit():
    assert Activation("prelu", parameters=(0.1, 0.2)).width([2]) == 2
    with pytest.raises(FairmendError, match="has 2 slopes, but the layer before it gives 3 values"):
        Activation("prelu", parameters=(0.1, 0.2)).width([3])


def test_a_function_without_all_its_mathematics_cannot_be_used():
    class Square(Function):
        def apply(self, values):
            np.square(values, out=values)

    with pytest.raises(TypeError, match="abstract"):
        Square()


def test_every_name_has_a_function():
    assert all(issubclass(find_function(name), Function) for name in FUNCTIONS)
