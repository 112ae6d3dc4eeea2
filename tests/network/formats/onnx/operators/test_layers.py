"""Sums, differences and means of several values."""

import numpy as np
import pytest

from fairmend import load_network
from support.onnx_files import A, X, node, runtime, save

H, R, LAST = node("Gemm", "x w b", "h"), node("Relu", "h", "r"), node("Gemm", "q v c")
REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
ONE = [node("Gemm", "r v c", "f"), node("Gemm", "h v c", "g")]
SUMS = {
    "add": [H, R, node("Add", "h r", "q"), LAST],
    "sub": [H, R, node("Sub", "h r", "q"), LAST],
    "constant minus data": [H, R, node("Sub", "b r", "q"), LAST],
    "negative": [H, node("Neg", "h", "q"), LAST],
    "sum of three": [H, R, node("Sum", "h r h", "q"), LAST],
    "mean of two heads": [H, R, *ONE, node("Mean", "f g")],
    "difference of two heads": [H, R, *ONE, node("Sub", "f g")],
    "mean of columns": [H, R, *ONE, node("Concat", "f g", "k", axis=1), node("ReduceMean", "k", axes=[1])],
    "sum of a stack": [
        H, R, *ONE, node("Unsqueeze", "f z", "f1"), node("Unsqueeze", "g z", "g1"),
        node("Concat", "f1 g1", "k", axis=0), node("ReduceSum", "k z", keepdims=0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_what_onnx_runtime_computes(name, tmp_path):
    constants = A | REST | ({"z": np.array([0])} if "stack" in name else {})
    path = save(tmp_path / "m.onnx", SUMS[name], outputs=1, **constants)
    np.testing.assert_allclose(load_network(path).logits(X), runtime(path, X)[:, 0], atol=1e-4)


def test_layers_keep_their_names_when_a_weight_is_used_twice(tmp_path):
    path = save(tmp_path / "m.onnx", SUMS["difference of two heads"], outputs=1, **A, **REST)
    names = [layer.name for layer in load_network(path).stored_layers]
    assert len(set(names)) == 3
