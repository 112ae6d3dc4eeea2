"""Nodes that ONNX Runtime takes for another function are refused by both readers, and what exporters write is read."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from fairmend import FairmendError, load_network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.read_onnx import read_onnx
from fairmend_check.run.enclosure import enclose_outputs

WIDTH = 6


def model(tmp_path, nodes, constants, dtype):
    """Write the file of nodes from x (n, 6) to y (n, 1)."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", element, ["n", 1])],
        [numpy_helper.from_array(np.asarray(value, dtype), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def norm(less=("x", "m"), square="d", added=("v", "e"), root="q", quotient=("d", "q"), extra=()):
    """Return a layer normalisation as nodes, by what each of them reads."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "A"], ["z"]),
        node("Abs", ["z"], ["z+"]),
        node("ReduceMean", ["x"], ["m"], axes=[-1]),
        node("Sub", less, ["d"]),
        *extra,
        node("Pow", [square, "two"], ["s"]),
        node("ReduceMean", ["s"], ["v"], axes=[-1]),
        node("Add", added, ["v+"]),
        node("Sqrt", ["v+"], [root]),
        node("Div", quotient, ["n"]),
        node("Mul", ["n", "gain"], ["g"]),
        node("Add", ["g", "shift"], ["h"]),
        node("MatMul", ["h", "W"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    constants = {"A": rng.normal(size=(WIDTH, WIDTH)), "W": rng.normal(size=(WIDTH, 1)), "e": 0.37, "two": 2.0}
    constants |= {name: rng.normal(size=WIDTH) for name in ("gain", "shift")}
    read = {name for each in nodes for name in each.input}
    while unread := [each for each in nodes if each.output[0] not in read and each.output[0] != "y"]:
        nodes = [each for each in nodes if each not in unread]
        read = {name for each in nodes for name in each.input}
    return nodes, {name: value for name, value in constants.items() if name in read}


FACTOR = math.sqrt(2 / math.pi)


def gelu(cubic=0.044715, factor=FACTOR, one=1.0, half=0.5):
    node = helper.make_node
    nodes = [
        node("Pow", ["x", "3"], ["c"]),
        node("Mul", ["c", "cubic"], ["k"]),
        node("Add", ["x", "k"], ["i"]),
        node("Mul", ["i", "factor"], ["f"]),
        node("Tanh", ["f"], ["t"]),
        node("Add", ["t", "one"], ["u"]),
        node("Mul", ["x", "u"], ["p"]),
        node("Mul", ["p", "half"], ["h"]),
        node("MatMul", ["h", "W"], ["y"]),
    ]
    constants = {"3": 3.0, "cubic": cubic, "factor": factor, "one": one, "half": half}
    return nodes, {**constants, "W": np.random.default_rng(0).normal(size=(WIDTH, 1))}


def differs(path, dtype):
    """Return whether ONNX Runtime computes something else with its optimisations than without."""
    X = (np.random.default_rng(1).normal(size=(20, WIDTH)) * 0.3).astype(dtype)
    levels = onnxruntime.GraphOptimizationLevel
    found = []
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        found.append(session.run(None, {session.get_inputs()[0].name: X})[0])
    return not np.allclose(*found, rtol=1e-5 if dtype == "float32" else 1e-10, atol=1e-6)


def refusals(path):
    """Return why each of the readers refuses a file."""
    with pytest.raises(FairmendError) as loader:
        load_network(path)
    with pytest.raises(CheckError) as checker:
        read_onnx(path.read_bytes(), Path())
    return str(loader.value), str(checker.value)


IDENTITY = helper.make_node("Identity", ["d"], ["d'"])
OTHER = helper.make_node("Sub", ["m", "x"], ["d'"])
TAKEN_FOR_ANOTHER = {
    "mean less x": {"less": ("m", "x")},
    "mean less x, behind an identity": {
        "less": ("m", "x"),
        "extra": (IDENTITY,),
        "square": "d'",
        "quotient": ("d'", "q"),
    },
    "dividend from the mean less x": {"extra": (OTHER,), "quotient": ("d'", "q")},
    "root divided by x": {"quotient": ("q", "d")},
    "epsilon first": {"added": ("e", "v")},
    "epsilon that depends on the row": {"added": ("v", "z+")},
}


@pytest.mark.parametrize("case", TAKEN_FOR_ANOTHER)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_quotient_that_onnx_runtime_takes_for_another_normalisation_is_refused(tmp_path, case, dtype):
    path = model(tmp_path, *norm(**TAKEN_FOR_ANOTHER[case]), dtype)
    assert differs(path, dtype) or onnxruntime.__version__ != "1.31.1"
    assert all("ONNX Runtime takes for another one" in why for why in refusals(path))


def test_a_quotient_in_float64_is_refused_and_a_product_with_the_inverse_is_read(tmp_path):
    """ONNX Runtime rounds epsilon to float32, or takes its own, and leaves the product alone."""
    path = model(tmp_path, *norm(), "float64")
    assert all("ONNX Runtime takes for another one" in why for why in refusals(path))
    inverse = helper.make_node("Reciprocal", ["q"], ["r"])
    nodes, constants = norm()
    at = next(number for number, each in enumerate(nodes) if each.op_type == "Div")
    nodes[at : at + 1] = [inverse, helper.make_node("Mul", ["d", "r"], ["n"])]
    path = model(tmp_path, nodes, constants, "float64")
    assert not differs(path, "float64")
    assert_both_read(path, "float64")


@pytest.mark.parametrize("quotient", [("d", "q"), ("one", "q")])
def test_what_exporters_write_is_read(tmp_path, quotient):
    """Old exporters of PyTorch write the inverse of a root as 1 / q."""
    nodes, constants = norm(quotient=quotient)
    if quotient[0] == "one":
        at = next(number for number, each in enumerate(nodes) if each.op_type == "Div")
        nodes[at].output[0] = "r"
        nodes.insert(at + 1, helper.make_node("Mul", ["d", "r"], ["n"]))
        constants["one"] = 1.0
    assert_both_read(model(tmp_path, nodes, constants, "float32"), "float32")


def assert_both_read(path, dtype):
    checked, loaded = read_onnx(path.read_bytes(), Path()), kernel_model(load_network(path))
    assert network_digest(checked) == network_digest(loaded)
    X = (np.random.default_rng(1).normal(size=(20, WIDTH)) * 0.3).astype(dtype)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: X})[0]
    low, high = enclose_outputs(checked, X.astype(np.float64))
    assert ((outputs >= low) & (outputs <= high)).all()


@pytest.mark.parametrize("off", [{"cubic": 0.0447151}, {"factor": 0.79788}, {"one": 1.000005}, {"half": 0.5000025}])
def test_numbers_that_are_nearly_those_of_gelu_are_refused(tmp_path, off):
    assert all("in GELU" in why for why in refusals(model(tmp_path, *gelu(**off), "float32")))
    assert_both_read(model(tmp_path, *gelu(), "float32"), "float32")
    assert_both_read(model(tmp_path, *gelu(**{key: 3 * value for key, value in off.items()}), "float32"), "float32")


def test_a_network_in_float64_is_written_as_onnx_runtime_computes_it(tmp_path):
    """Its epsilon is no number of float32, so it is written as several nodes."""
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 1))
    with torch.no_grad():
        module[1].weight.uniform_(0.5, 2)
    network = load_network(module.double())
    network.save(tmp_path / "m.onnx")
    assert not differs(tmp_path / "m.onnx", "float64")
    assert_both_read(tmp_path / "m.onnx", "float64")
