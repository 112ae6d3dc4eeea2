"""ONNX: the runtime agrees, both torch exporters load, and what is no chain is refused by operator."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from fairmend.errors import FairmendError
from fairmend.network import load_network
from support.strategies import networks, random_network

W = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)  # (out, in)
B = np.array([1, -2, 3], np.float32)
X = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)


def runtime(path, X: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0]


def save(path, nodes, outputs=3, opset=17, element=TensorProto.FLOAT, axes=("n", 4), rank1=False, **constants):
    """Write a graph from `x` to the last node's output; the constants are initialisers."""
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    shape = ["n"] if rank1 else ["n", outputs]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, axes)],
        [helper.make_tensor_value_info(nodes[-1].output[0], element, shape)],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks())
def test_the_runtime_computes_what_the_network_computes(network, tmp_path):
    network.save(tmp_path / "m.onnx")
    rows = np.random.default_rng(0).normal(size=(20, network.inputs)).astype(network.dtype)
    got = runtime(tmp_path / "m.onnx", rows)
    expected = network.logits(rows) if network.closing == "none" else network.probabilities(rows)
    assert got.dtype == network.dtype
    assert got.shape == (20, network.outputs)
    tight = 1e-5 if network.dtype == np.float32 else 1e-12
    assert np.allclose(got.reshape(expected.shape), expected, rtol=tight, atol=tight)


def test_what_is_written_is_plain_and_old_enough(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5], 2, closing="softmax")
    network.save(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10
    assert [n.op_type for n in model.graph.node] == ["Gemm", "Relu", "Gemm", "Softmax"]
    assert [t.name for t in model.graph.initializer][:2] == ["layers.0.weight", "layers.0.bias"]
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("input", "output")
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def mlp() -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Flatten(),
        nn.Linear(4, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(8, 6, bias=False),
        nn.LeakyReLU(0.1),
        nn.Linear(6, 5),
        nn.Tanh(),
        nn.Linear(5, 4),
        nn.Sigmoid(),
    )
    module[2].running_mean.normal_()
    return module


class Squeezed(nn.Sequential):
    def forward(self, x):
        return super().forward(x).squeeze(-1)


MODELS = {
    "sigmoid": lambda: nn.Sequential(mlp(), nn.Linear(4, 1), nn.Sigmoid()),
    "softmax": lambda: nn.Sequential(mlp(), nn.Linear(4, 3), nn.Softmax(-1)),
    "logits": lambda: nn.Sequential(mlp(), nn.Linear(4, 2)),
    "squeezed": lambda: Squeezed(mlp(), nn.Linear(4, 1), nn.Sigmoid()),
    "double": lambda: nn.Sequential(mlp(), nn.Linear(4, 1)).double(),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("batch", ["fixed", "dynamic"])
def test_what_torch_exports_loads(model, dynamo, batch, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript")
    module = MODELS[model]().eval()
    dtype = next(module.parameters()).dtype
    options = {"external_data": False, "verbose": False} if dynamo else {"input_names": ["x"]}
    if batch == "dynamic" and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif batch == "dynamic":
        options["dynamic_axes"] = {"x": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own deprecations
        torch.onnx.export(module, (torch.zeros(3, 4, dtype=dtype),), tmp_path / "m.onnx", dynamo=dynamo, **options)
    network = load_network(tmp_path / "m.onnx")
    assert network.depth == 5
    with torch.no_grad():
        expected = module(torch.tensor(X).to(dtype)).numpy()
    got = network.logits(X) if network.closing == "none" else network.probabilities(X)
    assert np.allclose(got.reshape(expected.shape), expected, atol=1e-5)


def test_weights_in_another_file_are_refused_with_what_would_work(tmp_path):
    save(tmp_path / "m.onnx", [node("Gemm", "x w b", transB=1)], w=W, b=B)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(FairmendError, match=r"'w'\) lie in another file.*external_data=False"):
        load_network(tmp_path / "e.onnx")


A = {"w": W.T, "b": B}
AFFINE = {
    "gemm": ([node("Gemm", "x w b")], A),
    "gemm scaled": ([node("Gemm", "x w b", alpha=0.5, beta=2.0)], A),
    "gemm transposed": ([node("Gemm", "x w b", transB=1)], {"w": W, "b": B}),
    "gemm without bias": ([node("Gemm", "x w")], {"w": W.T}),
    "gemm scalar bias": ([node("Gemm", "x w b")], {"w": W.T, "b": np.float32(2)}),
    "gemm row bias": ([node("Gemm", "x w b")], {"w": W.T, "b": B[None]}),
    "matmul": ([node("MatMul", "x w")], {"w": W.T}),
    "matmul add": ([node("MatMul", "x w", "h"), node("Add", "h b")], A),
    "add matmul": ([node("MatMul", "x w", "h"), node("Add", "b h")], A),
    "second add": ([node("Gemm", "x w b", "h"), node("Add", "h b")], A),
    "scaled input": (
        [
            node("Sub", "x o", "x1"),
            node("Div", "x1 d", "x2"),
            node("Mul", "m x2", "x3"),
            node("Add", "x3 o", "x4"),
            node("Gemm", "x4 w b"),
        ],
        A | {"o": W[0], "d": np.arange(1, 5).astype(np.float32), "m": np.array([0.5], np.float32)},
    ),
    "constant node": (
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W.T.copy())),
            helper.make_node("Constant", [], ["b"], value_floats=[1.0, 2.0, 3.0]),
            node("MatMul", "x w", "h"),
            node("Add", "b h"),
        ],
        {},
    ),
    "hidden constants": (
        [node("Transpose", "w", "t", perm=[1, 0]), node("Identity", "b", "c"), node("Gemm", "x t c")],
        {"w": W, "b": B},
    ),
    "passed through": (
        [
            node("Reshape", "x s", "x1"),
            node("Flatten", "x1", "x2"),
            node("Cast", "x2", "x3", to=TensorProto.FLOAT),
            node("Dropout", "x3", "x4"),
            node("Identity", "x4", "x5"),
            node("Gemm", "x5 w b", "h"),
            node("Reshape", "h t"),
        ],
        A | {"s": np.array([-1, 4]), "t": np.array([0, -1])},
    ),
    "norm": (
        [node("BatchNormalization", "x g c m v", "h", epsilon=0.1), node("Gemm", "h w b")],
        A | {k: np.arange(1, 5).astype(np.float32) for k in "gcmv"},
    ),
    "prelu": ([node("Gemm", "x w b", "h"), node("PRelu", "h s", "r"), node("Gemm", "r v")],
              A | {"s": np.full(3, 0.5, np.float32), "v": np.eye(3, dtype=np.float32)}),
    "leaky default": ([node("Gemm", "x w b", "h"), node("LeakyRelu", "h", "r"), node("Gemm", "r v")],
                      A | {"v": np.eye(3, dtype=np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("case", AFFINE)
def test_every_way_to_write_a_layer_is_read(case, tmp_path):
    nodes, constants = AFFINE[case]
    path = save(tmp_path / "m.onnx", nodes, **constants)
    assert np.allclose(load_network(path).logits(X), runtime(path, X), atol=1e-5)


ONE = {"w": W[:1].T, "b": B[:1]}
CLOSED = {
    "squeeze": ([node("Gemm", "x w b", "h"), node("Squeeze", "h a")], {"a": np.array([1])}),
    "squeeze all": ([node("Gemm", "x w b", "h"), node("Squeeze", "h")], {}),
    "reshape": ([node("Gemm", "x w b", "h"), node("Reshape", "h a")], {"a": np.array([-1])}),
    "sigmoid squeeze": (
        [node("Gemm", "x w b", "h"), node("Sigmoid", "h", "p"), node("Squeeze", "p a")],
        {"a": np.array([-1])},
    ),
    "reshape sigmoid": (
        [node("Gemm", "x w b", "h"), node("Reshape", "h a", "p"), node("Sigmoid", "p")],
        {"a": np.array([-1])},
    ),
}


@pytest.mark.parametrize("case", CLOSED)
def test_giving_up_the_axis_of_one_output_is_read(case, tmp_path):
    nodes, constants = CLOSED[case]
    path = save(tmp_path / "m.onnx", nodes, rank1=True, **ONE, **constants)
    network = load_network(path)
    got = network.probabilities(X) if network.closing == "sigmoid" else network.logits(X)
    assert np.allclose(got, runtime(path, X), atol=1e-6)


def test_a_column_of_one_output_and_old_squeezes_are_read(tmp_path):
    nodes = [node("Gemm", "x w b", "h"), node("Reshape", "h a")]
    assert load_network(save(tmp_path / "m.onnx", nodes, outputs=1, a=np.array([-1, 1]), **ONE)).outputs == 1
    nodes = [node("Gemm", "x w b", "h"), node("Squeeze", "h", axes=[1])]
    assert load_network(save(tmp_path / "n.onnx", nodes, rank1=True, opset=11, **ONE)).outputs == 1


def after(*nodes):
    return [node("Gemm", "x w b", "h"), *nodes]


VECTOR = np.ones(3, np.float32)
REFUSED = {
    "elu": (after(node("Elu", "h")), {}, r"\(Elu\) is not supported"),
    "conv": ([node("Conv", "x k")], {"k": np.ones((1, 4, 1), np.float32)}, r"\(Conv\) is not supported"),
    "residual": (after(node("Relu", "h", "r"), node("Add", "h r")), {}, r"\(Add\) is not a layer"),
    "concat": (after(node("Concat", "h h", axis=1)), {}, r"\(Concat\)"),
    "late add": (after(node("Relu", "h", "r"), node("Add", "r b")), {}, r"\(Relu\) closes the network"),
    "constant minus data": (after(node("Sub", "b h")), {}, r"\(Sub\)"),
    "constant over data": (after(node("Div", "b h")), {}, r"\(Div\)"),
    "division by 0": (after(node("Div", "h z")), {"z": np.zeros(3, np.float32)}, r"\(Div\) divides by 0"),
    "left matmul": ([node("MatMul", "q x")], {"q": np.ones((3, 3), np.float32)}, r"\(MatMul\)"),
    "transA": ([node("Gemm", "x w b", transA=1)], {}, "transA=1"),
    "closing relu": (after(node("Relu", "h")), {}, r"\(Relu\) closes"),
    "sigmoids": (after(node("Sigmoid", "h")), {}, r"\(Sigmoid\) closes a network of 3"),
    "softmax of rows": (after(node("Softmax", "h", axis=0)), {}, r"\(Softmax\) is not over the last axis"),
    "cast": (after(node("Cast", "h", to=TensorProto.DOUBLE)), {}, r"\(Cast\) casts"),
    "flatten": (after(node("Flatten", "h", axis=0)), {}, r"\(Flatten\) is not from axis 1"),
    "mixing reshape": (after(node("Reshape", "h s")), {"s": np.array([-1, 1])}, r"\(Reshape\).*mixes rows"),
    "flat reshape": (after(node("Reshape", "h s")), {"s": np.array([-1])}, "mix the 3 outputs"),
    "deep reshape": (after(node("Reshape", "h s")), {"s": np.array([-1, 3, 1])}, r"to \[-1, 3, 1\]"),
    "opening reshape": (
        [node("Reshape", "x s", "h"), node("Gemm", "h w b")],
        {"s": np.array([-1, 2])},
        "input is 2 wide, its first layer takes 4",
    ),
    "squeeze rows": (after(node("Squeeze", "h s")), {"s": np.array([0])}, r"\(Squeeze\).*axes \[0\]"),
    "slopes": (after(node("PRelu", "h s")), {"s": np.array([1, 2, 3], np.float32) / 4}, "different slopes"),
    "steep": (after(node("LeakyRelu", "h", alpha=2.0)), {}, r"\(LeakyRelu\).*slope 2"),
    "learning norm": (
        after(helper.make_node("BatchNormalization", ["h", *"cccc"], ["y", "m", "v"], training_mode=1)),
        {"c": VECTOR},
        "training mode",
    ),
    "learning dropout": (
        after(node("Dropout", "h r t")),
        {"r": np.float32(0.5), "t": np.array(True)},
        r"\(Dropout\) is in training mode",
    ),
    "mask": (
        after(helper.make_node("Dropout", ["h"], ["d", "m"]), node("Cast", "m", to=TensorProto.FLOAT)),
        {},
        r"\(Dropout\)",
    ),
    "computed weight": (after(node("MatMul", "h h")), {}, r"\(MatMul\)"),
    "column bias": ([node("Gemm", "x w c")], {"c": VECTOR[:, None]}, r"shape \(3, 1\)"),
    "tensor weight": ([node("MatMul", "x t")], {"t": np.ones((2, 4, 3), np.float32)}, "not a matrix"),
    "constant output": ([node("Identity", "b")], {}, "does not depend on its input"),
    "other domain": ([helper.make_node("Relu", ["x"], ["y"], domain="mine")], {}, "mine|not supported"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_chain_is_refused_by_operator(case, tmp_path):
    nodes, constants, words = REFUSED[case]
    path = save(tmp_path / "m.onnx", nodes, **A, **constants)
    with pytest.raises(FairmendError, match=words):
        load_network(path)


def test_inputs_that_are_no_rows_of_floats_are_refused(tmp_path):
    gemm = [node("Gemm", "x w b")]
    half = {"w": W.T.astype(np.float16), "b": B.astype(np.float16)}
    cases = [
        ({"element": TensorProto.FLOAT16, **half}, "input is FLOAT16.*float32 or float64"),
        ({"element": TensorProto.DOUBLE, **A}, "input is float64, the weights are float32"),
        ({"axes": ["n", 2, 2], **A}, "3 axes"),
        ({"axes": ["n", 5], **A}, "input is 5 wide, its first layer takes 4"),
    ]
    for options, words in cases:
        with pytest.raises(FairmendError, match=words):
            load_network(save(tmp_path / "m.onnx", gemm, **options))
    assert load_network(save(tmp_path / "m.onnx", gemm, axes=["n", "features"], **A)).inputs == 4


def test_several_inputs_or_outputs_are_refused_and_listed_initialisers_are_not_inputs(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Gemm", "x w b")], **A)
    model = onnx.load(path)
    for name in ("w", "b"):
        shape = A[name].shape
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    onnx.save(model, path)
    assert load_network(path).outputs == 3
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    onnx.save(model, path)
    with pytest.raises(FairmendError, match="2 inputs and 1 outputs"):
        load_network(path)


def test_a_model_the_checker_refuses_is_refused(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Gemm", "x w nowhere")], **A)
    with pytest.raises(FairmendError, match="not a valid ONNX model"):
        load_network(path)


def test_a_checker_that_says_nothing_still_gives_a_reason(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    random_network(np.random.default_rng(0), 3, [2]).save(path)

    def silent(_):
        raise onnx.checker.ValidationError("")

    monkeypatch.setattr(onnx.checker, "check_model", silent)
    with pytest.raises(FairmendError, match="is not a valid ONNX model: ValidationError"):
        load_network(path)
