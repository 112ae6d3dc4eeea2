"""What operators may read: values of rows and columns, and constants."""

import numpy as np
import pytest

from fairmend import FairmendError, load_network
from support.onnx_files import A, node, save

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


def test_a_look_up_must_be_flattened_before_a_layer_reads_it(tmp_path):
    nodes = [node("Cast", "x", "i", to=7), node("Gather", "t i", "h"), node("Gemm", "h v c")]
    table = np.ones((2, 3), np.float32)
    with pytest.raises(FairmendError, match=r"axes are not \(rows, columns\)"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, t=table, **REST))


def test_the_first_node_that_is_not_supported_is_named(tmp_path):
    nodes = [node("Sin", "x", "s"), node("Gemm", "s w b", "h"), node("Cos", "h", "q"), node("Gemm", "q v c")]
    with pytest.raises(FairmendError, match=r"\(Sin\) is not supported"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST))
