"""Every elementwise operator is read as the function that ONNX Runtime computes."""

import numpy as np
import pytest

from fairmend import FairmendError, load_network
from support.onnx_files import A, X, node, runtime, save

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
LIMITS = {"lo": np.float32(-0.5), "hi": np.float32(1)}
FUNCTIONS = {
    "relu": (node("Relu", "h", "q"), {}),
    "tanh": (node("Tanh", "h", "q"), {}),
    "sigmoid": (node("Sigmoid", "h", "q"), {}),
    "softsign": (node("Softsign", "h", "q"), {}),
    "softplus": (node("Softplus", "h", "q"), {}),
    "hardswish": (node("HardSwish", "h", "q"), {}),
    "hardsigmoid": (node("HardSigmoid", "h", "q", alpha=0.3), {}),
    "elu": (node("Elu", "h", "q", alpha=0.7), {}),
    "celu": (node("Celu", "h", "q", alpha=2.0), {}),
    "selu": (node("Selu", "h", "q"), {}),
    "leaky_relu": (node("LeakyRelu", "h", "q", alpha=2.0), {}),
    "prelu": (node("PRelu", "h s", "q"), {"s": np.float32([0.5, -0.25, 2])}),
    "abs": (node("Abs", "h", "q"), {}),
    "exp": (node("Exp", "h", "q"), {}),
    "sin": (node("Sin", "h", "q"), {}),
    "cos": (node("Cos", "h", "q"), {}),
    "square": (node("Pow", "h two", "q"), {"two": np.float32(2)}),
    "square of a product": (node("Mul", "h h", "q"), {}),
    "square by a whole number": (node("Pow", "h two", "q"), {"two": np.int64([2])}),
    "clip": (node("Clip", "h lo hi", "q"), LIMITS),
    "clip above": (node("Clip", "h lo", "q"), {"lo": LIMITS["lo"]}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_what_onnx_runtime_computes(name, tmp_path):
    function, constants = FUNCTIONS[name]
    nodes = [node("Gemm", "x w b", "h"), function, node("Gemm", "q v c")]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST, **constants)
    network = load_network(path)
    assert [activation.name for activation in network.activations] == [name.split()[0]]
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-4)


def test_a_clip_from_0_on_is_relu(tmp_path):
    nodes = [node("Gemm", "x w b", "h"), node("Clip", "h z", "q"), node("Gemm", "q v c")]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, z=np.float32(0), **A, **REST)
    assert [activation.name for activation in load_network(path).activations] == ["relu"]


def test_another_selu_is_refused(tmp_path):
    nodes = [node("Gemm", "x w b", "h"), node("Selu", "h", "q", alpha=1.0), node("Gemm", "q v c")]
    with pytest.raises(FairmendError, match=r"\(Selu\) has other numbers than SELU's own"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST))
