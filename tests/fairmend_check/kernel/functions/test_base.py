"""How functions are written in messages."""

from fairmend_check.kernel.functions import Activation


def test_a_function_is_written_with_its_numbers():
    assert str(Activation("relu")) == "relu"
    assert str(Activation("leaky_relu", 0.25)) == "leaky_relu with slope 0.25"
    assert str(Activation("clip", 0.0, (0.0, 6.0))) == "clip with 0.0, 6.0"
    assert str(Activation("prelu", 0.0, (0.5,) * 9)).endswith("0.5, ...")
