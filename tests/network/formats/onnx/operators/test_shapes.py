"""Columns are chosen, joined, split and looked up as ONNX Runtime does."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from fairmend import FairmendError, load_network
from support.onnx_files import A, X, node, runtime, save

H, LAST = node("Gemm", "x w b", "h"), node("Gemm", "q v c")
REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
SHAPES = {
    "gather": ([H, node("Gather", "h i", "q", axis=1), LAST], {"i": np.array([2, -3, 1])}),
    "concat of columns": (
        [
            H,
            node("Gather", "h i", "k", axis=1),
            node("Slice", "h lo hi ax", "m"),
            node("Concat", "k m", "q", axis=-1),
            LAST,
        ],
        {"i": np.array([2]), "lo": np.array([0]), "hi": np.array([2]), "ax": np.array([1])},
    ),
    "split": (
        [H, helper.make_node("Split", ["h", "n"], ["s1", "s2"], axis=1), node("Concat", "s2 s1", "q", axis=1), LAST],
        {"n": np.array([1, 2])},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_columns_are_those_that_onnx_runtime_takes(name, tmp_path):
    nodes, constants = SHAPES[name]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST, **constants)
    np.testing.assert_allclose(load_network(path).logits(X), runtime(path, X)[:, 0], atol=1e-4)


CODES = [node("Gather", "x first", "k", axis=1), node("Cast", "k", "i", to=TensorProto.INT64)]
TABLE = {"first": np.array(0), "t": np.arange(15, dtype=np.float32).reshape(5, 3)}


def test_a_column_is_looked_up_in_a_table(tmp_path):
    nodes = [*CODES, node("Gather", "t i", "q"), LAST]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **REST, **TABLE)
    rows = np.abs(X).round() % 5
    np.testing.assert_allclose(load_network(path).logits(rows), runtime(path, rows)[:, 0], atol=1e-4)


def test_a_one_hot_code_is_a_look_up(tmp_path):
    nodes = [*CODES, node("OneHot", "i depth values", "q", axis=-1), LAST]
    constants = {"first": np.array(0), "depth": np.array(3), "values": np.float32([0, 1])}
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **REST, **constants)
    rows = np.abs(X).round() % 3
    np.testing.assert_allclose(load_network(path).logits(rows), runtime(path, rows)[:, 0], atol=1e-4)


def test_what_a_cast_to_whole_numbers_cut_off_is_not_computed_with(tmp_path):
    nodes = [node("Cast", "x", "i", to=TensorProto.INT64), node("Cast", "i", "y1", to=TensorProto.FLOAT),
             node("Gemm", "y1 w b", "q"), LAST]  # fmt: skip
    with pytest.raises(FairmendError, match=r"\(Cast\) makes numbers of what a cast to whole numbers may have cut off"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST))
