"""Elementwise functions in Keras files that fairmend writes: read back as they were, or refused."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.keras.functions import Style, major_version, named_activation, written_function

NEW = [
    Activation("celu", parameters=(1.0,)),
    Activation("clip", parameters=(-1.0, 1.0)),
    Activation("hardswish"),
    Activation("hardsigmoid", parameters=(1 / 6, 0.5)).astype(np.float32),
]
NAMED = [Activation(name) for name in ("relu", "tanh", "sigmoid", "selu", "softsign", "silu", "gelu", "mish", "exp")]


@pytest.mark.parametrize("activation", [*NAMED, Activation("softplus", parameters=(1.0,)), *NEW], ids=str)
def test_a_name_is_read_back(activation):
    found = named_activation(written_function(activation, Style.KERAS_3).name, 3)
    assert found is not None
    assert found.astype(np.float32) == activation


@pytest.mark.parametrize("activation", NEW, ids=str)
def test_what_keras_2_does_not_have_is_not_written_for_it(activation):
    with pytest.raises(FairmendError, match=r"cannot write .* in a \.h5 file, which Keras 2 can load as well"):
        written_function(activation, Style.KERAS_2)


@pytest.mark.parametrize(
    "activation",
    [
        Activation("gelu_tanh"),
        Activation("softplus", parameters=(2.0,)),
        Activation("clip", parameters=(-2.0, 1.0)),
        Activation("hardsigmoid", parameters=(0.2, 0.5)),
    ],
    ids=str,
)
def test_what_keras_does_not_have_is_refused(activation):
    with pytest.raises(FairmendError, match=r"cannot write .* in a Keras file; use another format such as \.onnx"):
        written_function(activation, Style.KERAS_3)


def test_the_version_of_keras_decides_what_a_hard_sigmoid_is():
    assert [major_version(text) for text in ("3.15.1", "2.2.4-tf", "1.2", None)] == [3, 2, None, None]
    assert named_activation("hard_sigmoid", 2) == Activation("hardsigmoid", parameters=(0.2, 0.5))
    with pytest.raises(FairmendError, match="compute differently"):
        named_activation("hard_sigmoid", None)
