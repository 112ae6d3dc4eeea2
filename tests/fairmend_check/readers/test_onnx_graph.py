"""Graphs of ONNX nodes: read as fairmend reads them and as ONNX Runtime runs them, or refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers import onnx_graph
from fairmend_check.readers.read_model import read_model
from support.onnx_files import A, B, W, X, node, runtime, save

GEMM, LAST = node("Gemm", "x w b", "p"), node("Gemm", "q v c")
REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
NORM = {
    "g": np.float32([1, -2, 3]),
    "s": np.float32([0, 1, 2]),
    "m": np.float32([5, 0, -1]),
    "r": np.float32([1, 2, 4]),
}
ROW = {"k": np.float32([0.5, -1, 2, 4])}
CHAINS = {
    "batch norm": ([GEMM, node("BatchNormalization", "p g s m r", "q", epsilon=0.5), LAST], NORM),
    "scaled input": ([node("Sub", "x k", "t"), node("Div", "t k", "u"), node("Gemm", "u w b", "q"), LAST], ROW),
    "constant first": ([node("Mul", "k x", "t"), node("Add", "k t", "u"), node("Gemm", "u w b", "q"), LAST], ROW),
    "one number": ([node("Mul", "x h", "t"), node("Gemm", "t w b", "q"), LAST], {"h": np.float32([0.5])}),
    "alpha and beta": ([node("Gemm", "x w b", "q", alpha=0.5, beta=-2.0), LAST], {}),
    "a bias that is one number": ([node("MatMul", "x w", "p"), node("Add", "p h", "q"), LAST], {"h": np.float32(2)}),
    "slopes that are all equal": ([GEMM, node("PRelu", "p h", "q"), LAST], {"h": np.full(3, 0.25, np.float32)}),
    "dropout": ([GEMM, node("Dropout", "p", "q"), LAST], {}),
    "dropout with a ratio": ([GEMM, node("Dropout", "p n", "q"), LAST], {"n": np.float32(0.3)}),
    "a transposed constant": ([node("Transpose", "n", "o", perm=[1, 0]), node("Gemm", "x o b", "q"), LAST], {"n": W}),
    "half of the weights": (
        [node("Split", "n", "o rest"), node("Gemm", "x o b", "q"), LAST],
        {"n": np.concatenate([W.T, 2 * W.T])},
    ),
    "half of the weights along the second axis": (
        [node("Split", "n", "o rest", axis=-1), node("Gemm", "x o b", "q"), LAST],
        {"n": np.concatenate([W.T, 2 * W.T], axis=1)},
    ),
    "every second row of the weights": (
        [node("Slice", "n h i j k", "o"), node("Gemm", "x o b", "q"), LAST],
        {
            "n": np.repeat(W.T, 2, axis=0),
            **{name: np.array([i]) for name, i in zip("hijk", (-1, -9, 0, -2), strict=True)},
        },
    ),
    "a shape that stays": ([GEMM, node("Reshape", "p n", "q"), LAST], {"n": np.array([0, -1])}),
}
SIX = {"v": np.float32([[1, -2, 0.5, 2, 1, -1]]).T}
GRAPHS = {
    "a skip": ([GEMM, node("Relu", "p", "r"), node("Add", "r p", "q"), LAST], {}),
    "side by side": ([GEMM, node("Relu", "p", "r"), node("Concat", "r p", "q", axis=1), LAST], SIX),
    "a slope each": ([GEMM, node("PRelu", "p h", "q"), LAST], {"h": np.float32([0.25, -0.5, 2])}),
    "clip": ([GEMM, node("Clip", "p lo hi", "q"), LAST], {"lo": np.float32(0), "hi": np.float32(6)}),
    "silu": ([GEMM, node("Sigmoid", "p", "g"), node("Mul", "p g", "q"), LAST], {}),
    "gelu": (
        [GEMM, node("Div", "p h", "d"), node("Erf", "d", "e"), node("Add", "e o", "f"), node("Mul", "p f", "g"),
         node("Mul", "g half", "q"), LAST],
        {"h": np.float32(2**0.5), "o": np.float32(1), "half": np.float32(0.5)},
    ),
    "softsign": ([GEMM, node("Abs", "p", "a"), node("Add", "a o", "d"), node("Div", "p d", "q"), LAST],
                 {"o": np.float32(1)}),
    "columns": ([node("Gather", "x i", "g", axis=1), node("Gemm", "g w b", "q"), LAST], {"i": np.array([3, 1, 0, 2])}),
    "a mean of two": (
        [GEMM, node("Relu", "p", "r"), node("Gemm", "r v c", "f"), node("Gemm", "p v c", "g"), node("Mean", "f g")], {}
    ),
    "a norm of a sum": (
        [GEMM, node("Relu", "p", "l"), node("Add", "p l", "t"), node("BatchNormalization", "t g s m r", "u"),
         node("Tanh", "u", "q"), LAST], NORM),
}  # fmt: skip
SINGLE = {
    "squeeze": ([GEMM, node("Gemm", "p v c", "q"), node("Squeeze", "q n")], {"n": np.array([-1])}),
    "reshape": ([GEMM, node("Gemm", "p v c", "q"), node("Reshape", "q n")], {"n": np.array([-1])}),
}


@pytest.mark.parametrize("name", [*CHAINS, *GRAPHS, *SINGLE])
def test_a_graph_is_read_as_fairmend_reads_it_and_as_onnx_runtime_runs_it(name, tmp_path):
    nodes, constants = (CHAINS | GRAPHS | SINGLE)[name]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, rank1=name in SINGLE, **(A | REST | constants))
    model, network = read_model(path)[0], load_network(path)
    assert weights_digest(model) == digest_of_network(network)
    assert np.allclose(runtime(path, X).reshape(-1), network.logits(X), rtol=1e-5, atol=1e-5)


REFUSED = {
    "training_mode = 1": ([GEMM, node("BatchNormalization", "p g s m r", "q", training_mode=1), LAST], NORM),
    "one number of each kind": ([GEMM, node("BatchNormalization", "p g s k r", "q"), LAST], NORM | ROW),
    "divides by 0": ([node("Div", "x k", "t"), node("Gemm", "t w b", "q"), LAST], {"k": np.zeros(4, np.float32)}),
    "of shape \\(3, 4\\) is combined": ([node("Mul", "x k", "t"), node("Gemm", "t w b", "q"), LAST], {"k": W}),
    "is float64, unlike the input": ([node("Mul", "x k", "t"), node("Gemm", "t w b", "q"), LAST], {"k": np.ones(4)}),
    "node Squeeze is along axis 0": ([GEMM, node("Squeeze", "p n", "q"), LAST], {"n": np.array([0])}),
    "Squeeze is over another axis than one": ([GEMM, node("Squeeze", "p n", "q"), LAST], {"n": np.array([1])}),
    "node Reshape changes": ([GEMM, node("Reshape", "p n", "q", allowzero=1), LAST], {"n": np.array([0, -1])}),
    "matrix of another size": ([node("Gemm", "x v c", "q"), LAST], {}),
    "whole numbers may have cut off": (
        [node("Cast", "x", "t", to=7), node("Cast", "t", "u", to=1), node("Gemm", "u w b", "q"), LAST],
        {},
    ),
    "a ratio that is not a constant": ([GEMM, node("Dropout", "p p", "q"), LAST], {}),
    "Concat is along axis 0": ([GEMM, node("Concat", "p p", "q", axis=0), LAST], {}),
}

STACK = [
    node("Gather", "x order", "g", axis=1),
    node("Unsqueeze", "x i", "t"),
    node("Unsqueeze", "g i", "u"),
    node("Concat", "t u", "s", axis=1),
]


@pytest.mark.parametrize("reason", REFUSED)
def test_other_chains_are_refused(reason, tmp_path):
    nodes, constants = REFUSED[reason]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST, **constants)
    with pytest.raises(CheckError, match=reason):
        read_model(path)


def test_a_bias_after_the_output_is_not_part_of_it(tmp_path):
    """ONNX Runtime leaves out the sum, which nothing reads."""
    path = save(tmp_path / "m.onnx", [node("Add", "y b", "z"), node("MatMul", "x w")][::-1], **A)
    model = onnx.load(path)
    model.graph.output[0].name = "y"
    onnx.save(model, path)
    assert not read_model(path)[0].layers[0].bias.any()
    assert np.allclose(runtime(path, X), X @ W.T, atol=1e-5)


def test_whole_numbers_that_were_cut_off_stay_so_beside_others(tmp_path):
    nodes = [
        node("Cast", "x", "t", to=7),
        node("Concat", "k t", "u", axis=1),
        node("Cast", "u", "f", to=1),
        node("Gemm", "f w b"),
    ]
    path = save(tmp_path / "m.onnx", nodes, axes=("n", 3), **A)
    model = onnx.load(path)
    model.graph.input.insert(0, helper.make_tensor_value_info("k", 7, ("n", 1)))
    onnx.save(model, path)
    with pytest.raises(CheckError, match="may have cut off"):
        read_model(path)


INTEGERS = {
    "a cast to 32 bits": (2**32, [node("Cast", "x", "t", to=6), node("Cast", "t", "f", to=1)], "may have cut off"),
    "a mean": (4, [*STACK, node("ReduceMean", "s i", "r", keepdims=0), node("Cast", "r", "f", to=1)], "whole numbers"),
    "a sum": (3, [*STACK, node("ReduceSum", "s i", "r", keepdims=0), node("Cast", "r", "f", to=1)], "whole numbers"),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_whole_numbers_are_not_computed_with(name, tmp_path):
    """A cast can make others of large numbers, and a mean is cut off: ONNX Runtime gives 2 for that of 4 and 1."""
    number, nodes, reason = INTEGERS[name]
    constants = A | {"i": np.array([1]), "order": np.array([3, 2, 1, 0])}
    path = save(tmp_path / "m.onnx", [*nodes, node("Gemm", "f w b")], opset=18, **constants)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = 7
    onnx.save(model, path)
    rows = np.array([[number, 2, 4, 1]])
    moved = rows if name == "a cast to 32 bits" else (rows + rows[:, ::-1]) / (2 if name == "a mean" else 1)
    plain = moved @ W.T + B
    assert np.allclose(runtime(path, rows), plain, atol=1e-3) == (name == "a sum")
    with pytest.raises(CheckError, match=reason):
        read_model(path)
    with pytest.raises(FairmendError, match=reason):
        load_network(path)


def test_digits_that_were_cut_off_are_not_added_up(tmp_path):
    cast = [node("Cast", "x", "t", to=7), node("Unsqueeze", "t i", "s"), node("ReduceSum", "s i", "r", keepdims=0)]
    nodes = [*cast, node("Cast", "r", "f", to=1), node("Gemm", "f w b")]
    path = save(tmp_path / "m.onnx", nodes, opset=18, **A, i=np.array([1]))
    assert not np.allclose(runtime(path, X), X @ W.T + B, atol=0.1)
    with pytest.raises(CheckError, match="adds up whole numbers"):
        read_model(path)
    with pytest.raises(FairmendError, match="adds up whole numbers"):
        load_network(path)


CAST = [node("Gemm", "x w b", "p"), node("Softmax", "p", "q"), node("Cast", "q", to=7)]
STACKED = [node("Gemm", "x w b", "p"), node("Gemm", "x w", "q"), node("Unsqueeze", "p i", "s"),
           node("Unsqueeze", "q i", "t"), node("Concat", "s t", axis=1)]  # fmt: skip


@pytest.mark.parametrize(("nodes", "element", "shape"), [(CAST, 7, ("n", 3)), (STACKED, 1, ("n", 2, 3))])
def test_an_output_that_is_not_rows_of_numbers_is_refused(nodes, element, shape, tmp_path):
    """A cast makes 0 of every probability below 1, and of stacked values only the first was read."""
    path = save(tmp_path / "m.onnx", nodes, i=np.array([1]), **A)
    model = onnx.load(path)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, shape))
    onnx.save(model, path)
    with pytest.raises(CheckError, match="the output is not rows of numbers"):
        read_model(path)
    with pytest.raises(FairmendError):
        load_network(path)


def test_the_order_of_several_inputs_is_a_condition(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Concat", "k x", "u", axis=1), node("Gemm", "u w b")], axes=("n", 3), **A)
    model = onnx.load(path)
    model.graph.input.insert(0, helper.make_tensor_value_info("k", 1, ("n", 1)))
    onnx.save(model, path)
    assert read_model(path)[0].condition == (
        "the columns of a row are those of the inputs of the model, in this order: k (1), x (3)."
    )


def test_a_hardswish_in_float64_is_refused(tmp_path):
    """Its definition has 1/6 in float32."""
    wide = {name: array.astype(np.float64) for name, array in (A | REST).items()}
    path = save(tmp_path / "m.onnx", [GEMM, node("HardSwish", "p", "q"), LAST], outputs=1, element=11, **wide)
    with pytest.raises(CheckError, match="HardSwish is defined by 1/6 in float32"):
        read_model(path)


def test_many_nodes_that_share_their_constants_are_refused(tmp_path, monkeypatch):
    """A file of 4 MB could become 80 GB of weights."""
    monkeypatch.setattr(onnx_graph, "_MAX_NUMBERS", 90)
    nodes = [node("MatMul", f"{'x' if i == 0 else f'h{i}'} e", "y" if i == 5 else f"h{i + 1}") for i in range(6)]
    path = save(tmp_path / "m.onnx", nodes, outputs=4, e=np.eye(4, dtype=np.float32))
    with pytest.raises(CheckError, match="use more than 90 numbers"):
        read_model(path)


OTHER_ORDERS = {
    "the order of its axes": ([node("Transpose", "w", "t", perm=[0, 1]), node("Gemm", "x t b")], {"w": W.T}),
    "of three axes": ([node("Transpose", "w", "t"), node("Gemm", "x t b")], {"w": W[None]}),
    "of a list": ([node("Transpose", "b", "t"), node("Gemm", "x w t")], {"w": W.T}),
}


@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_a_transpose_that_does_not_exchange_two_axes_is_refused(name, tmp_path):
    """ONNX Runtime up to 1.29 takes any Transpose before a Gemm for one that does."""
    nodes, constants = OTHER_ORDERS[name]
    path = save(tmp_path / "m.onnx", nodes, b=B, **constants)
    with pytest.raises(CheckError, match="does not exchange the two axes"):
        read_model(path)


def test_a_constant_that_is_transposed_twice_is_read_as_onnx_runtime_runs_it(tmp_path):
    nodes = [node("Transpose", "w", "s"), node("Transpose", "s", "t", perm=[1, 0]), node("Gemm", "x t b")]
    path = save(tmp_path / "m.onnx", nodes, **A)
    model, _ = read_model(path)
    assert np.array_equal(model.layers[0].weight, W)
    np.testing.assert_allclose(X @ W.T + B, runtime(path, X), atol=1e-5)


TINY = 2.0**-150
ADDED = {
    "added": [node("MatMul", "x w", "p"), node("Relu", "p", "q"), node("Add", "q k", "r"), node("MatMul", "r v")],
    "subtracted": [node("MatMul", "x w", "p"), node("Sub", "p k", "r"), node("MatMul", "r v")],
    "added as a bias": [node("MatMul", "x w", "p"), node("Add", "k p", "r"), node("MatMul", "r v")],
}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_number_that_is_0_in_float32_is_not_added(name, shape, tmp_path):
    """ONNX Runtime leaves out the node, whatever multiplies the number afterwards."""
    constants = {"w": np.zeros((4, 3)), "v": np.full((3, 1), 1e60)}
    options = {"outputs": 1, "element": TensorProto.DOUBLE}
    for number, refused in ((TINY, True), (-TINY, True), (5e-324, True), (2 * TINY, False), (0.0, False)):
        path = save(tmp_path / "m.onnx", ADDED[name], k=np.full(shape, number), **constants, **options)
        if not refused:
            model, _ = read_model(path)
            assert model.dtype == "float64"
            continue
        assert (runtime(path, X.astype(np.float64)) == 0).all()
        with pytest.raises(CheckError, match="ONNX Runtime takes it for 0"):
            read_model(path)
    path = save(tmp_path / "m.onnx", ADDED[name], k=np.full(3, TINY), **constants, **options)
    read_model(path)  # of several numbers, ONNX Runtime leaves out none
    assert (runtime(path, X.astype(np.float64)) != 0).all()


def test_the_bias_of_a_product_may_come_after_it(tmp_path):
    """As a Constant node between the product and the sum: fairmend reads it as the bias of the layer, too."""
    value = onnx.numpy_helper.from_array(B, "value")
    constant = helper.make_node("Constant", [], ["k"], value=value)
    nodes = [node("MatMul", "x w", "p"), constant, node("Add", "p k", "h"), node("Relu", "h", "r")]
    nodes += [node("Add", "r h", "q"), LAST]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, w=W.T, **REST)
    model, _ = read_model(path)
    assert np.array_equal(model.layers[0].bias, B)
    assert model.layers[0].fold is None
    assert weights_digest(model) == digest_of_network(load_network(path))


@pytest.mark.parametrize("name", ["transpose-in-the-order-of-its-axes", "number-that-is-0-in-float32"])
def test_both_readers_refuse_what_versions_of_onnx_runtime_run_as_another_network(name):
    path = Path(__file__).parents[2] / "corpus" / "findings" / f"onnx-{name}.onnx"
    with pytest.raises(CheckError):
        read_model(path)
    with pytest.raises(FairmendError):
        load_network(path)
