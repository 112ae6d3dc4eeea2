"""What operators may read: values of rows and columns, and constants."""

import numpy as np
import pytest
from onnx import TensorProto

from fairmend import FairmendError, load_network
from support.onnx_files import A, node, save

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


def test_a_look_up_must_be_flattened_before_a_layer_reads_it(tmp_path):
    nodes = [node("Cast", "x", "i", to=7), node("Gather", "t i", "h"), node("Gemm", "h v c")]
    table = np.ones((2, 3), np.float32)
    with pytest.raises(FairmendError, match=r"axes are not \(rows, columns\)"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, t=table, **REST))


def test_the_first_node_that_is_not_supported_is_named(tmp_path):
    nodes = [node("Sinh", "x", "s"), node("Gemm", "s w b", "h"), node("Cosh", "h", "q"), node("Gemm", "q v c")]
    with pytest.raises(FairmendError, match=r"\(Sinh\) is not supported"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST))


ADDED = {
    "added": [node("MatMul", "x w", "p"), node("Relu", "p", "q"), node("Add", "q k", "r"), node("MatMul", "r v")],
    "subtracted": [node("MatMul", "x w", "p"), node("Sub", "p k", "r"), node("MatMul", "r v")],
    "added as a bias": [node("MatMul", "x w", "p"), node("Add", "k p", "r"), node("MatMul", "r v")],
}


@pytest.mark.parametrize("name", ADDED)
def test_a_number_that_is_0_in_float32_is_not_added(name, tmp_path):
    """ONNX Runtime leaves out the node, whatever multiplies the number afterwards."""
    constants = {"w": np.zeros((4, 3)), "v": np.full((3, 1), 1e60)}
    options = {"outputs": 1, "element": TensorProto.DOUBLE}
    with pytest.raises(FairmendError, match="which ONNX Runtime takes for 0"):
        load_network(save(tmp_path / "m.onnx", ADDED[name], k=np.array([2.0**-150]), **constants, **options))
    for k in (np.array([2.0**-149]), np.zeros(1), np.full(3, 2.0**-150)):
        assert load_network(save(tmp_path / "m.onnx", ADDED[name], k=k, **constants, **options)).dtype == np.float64
