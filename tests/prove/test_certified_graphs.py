"""The steps of a graph in its certificate: as they are stored, with norms and the parts of a head apart."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
from onnx import TensorProto

import fairmend
from fairmend.network import Activation, Affine, Concatenate, Input, Lookup, Network, Node, Sum, load_network
from fairmend.network.description import stored_steps, unused_tensors
from fairmend.network.folding import Fold, Norm, Part
from fairmend.network.operations import Columns
from fairmend.prove import certificate as writer
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Feature, Spec
from support.checker_cases import lines_of, read, write
from support.graph_cases import SPEC, graph_case, graph_content
from support.graph_files import save_tensors
from support.onnx_files import node, runtime, save
from support.torch_graphs import GRAPHS, SKIPS

# Steps that a certificate names for a PyTorch model: the checker must build the same network from them.


def spec_of(network):
    """Whole numbers in ranges that every table has; the last column is protected."""
    tables = [len(node.operation.table) for node in network.nodes if isinstance(node.operation, Lookup)]
    most = min([3, *(rows - 1 for rows in tables)])
    features = [{"name": f"f{i}", "kind": "integer", "range": [0, most]} for i in range(network.inputs)]
    return Spec.from_dict({"feature": [*features[:-1], {**features[-1], "range": [0, 1], "protected": True}]})


@pytest.mark.parametrize("suffix", ["pth", "ckpt", "safetensors"])
@pytest.mark.parametrize(
    "graph",
    [
        *("two inputs", "one-hot", "matrix", "buffers", "unused layer", "stacked", "PReLU(6)", "ELU(0.7)"),
        *(f"skip, {text}" for text in SKIPS),
    ],
)
def test_the_certificate_of_a_saved_graph_is_valid(graph, suffix, tmp_path):
    torch.manual_seed(0)
    network = load_network(GRAPHS[graph]())
    spec = spec_of(network)
    X = np.random.default_rng(0).integers(0, 2, (25, network.inputs)).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec, X)
    path = tmp_path / f"m.{suffix}"
    network.save(path)
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid, result.reasons
    assert "The claim is about a module that computes in float32" in result.condition


@pytest.mark.parametrize("text", SKIPS)
def test_the_certificate_of_an_exported_graph_is_valid(text, tmp_path):
    """PyTorch rounds the slope 0.1 to float32, and so do the network and the checker."""
    torch.manual_seed(0)
    program = torch.export.export(GRAPHS[f"skip, {text}"]().eval(), (torch.zeros(2, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    X = np.random.default_rng(0).integers(0, 2, (25, 4)).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec_of(network), X)
    certificate.save(tmp_path / "c.json", tmp_path / "m.pt2")
    result = fairmend.check(tmp_path / "c.json", tmp_path / "m.pt2")
    assert result.valid, result.reasons


def test_tensors_that_no_step_names_are_listed_as_unused():
    network = load_network(GRAPHS["unused layer"]())
    steps, tensors = stored_steps(network)
    assert unused_tensors(steps, tensors) == ["unused.weight", "unused.bias"]
    assert [step["kind"] for step in steps] == ["input", "affine", "function", "affine"]


def test_what_closes_a_network_is_left_out():
    network = load_network(GRAPHS["softmax of class 1"]())
    kinds = [entry["kind"] for entry in network.form.description]
    assert kinds[-2:] == ["softmax", "columns"]
    assert [step["kind"] for step in stored_steps(network)[0]] == kinds[:-2]


def numbers(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def ensemble(rng) -> Network:
    """The mean of two branches, of which the second has batch normalisation, with a joined head."""
    parts = tuple(Part(name, numbers(rng, 1, 3), numbers(rng, 1), 0.5) for name in ("left", "right"))
    norm = Norm("bn", numbers(rng, 3), np.ones(3, np.float32), None, None, 1e-3, "bn")
    normed = Affine.from_fold(Fold(numbers(rng, 3, 2), numbers(rng, 3), (), (norm,), "a test"))
    return Network.from_nodes(
        [
            Node(Input(2)),
            Node(Affine(numbers(rng, 3, 2), numbers(rng, 3)), (0,), "first"),
            Node(Activation("relu"), (1,)),
            Node(normed, (0,), "second"),
            Node(Activation("elu", parameters=(1.0,)), (3,)),
            Node(Concatenate(), (2, 4)),
            Node(Affine.from_fold(Fold.join(parts, "a test")), (5,), "left+right"),
        ]
    )


def test_norms_and_the_parts_of_a_head_are_steps_of_their_own():
    steps, _ = stored_steps(ensemble(np.random.default_rng(0)))
    assert [step["kind"] for step in steps] == [
        *("input", "affine", "function", "affine", "batch_norm", "function"),
        *("affine", "affine", "scale", "scale", "sum"),
    ]
    assert [step["sources"] for step in steps] == [[], [0], [1], [0], [3], [4], [2], [5], [6], [7], [8, 9]]
    names = [step["weight"] for step in steps if step["kind"] == "affine"]
    assert names == [f"{name}.weight" for name in ("first", "second", "left", "right")]
    assert (steps[4]["mean"], steps[4]["epsilon"]) == ("bn.running_mean", 1e-3)
    assert steps[5] == {"kind": "function", "sources": [4], "name": "elu", "parameters": [1.0]}
    assert steps[8]["gain"] == [0.5]


@pytest.mark.parametrize("suffix", [".onnx", ".pth", ".safetensors"])
def test_a_file_of_another_format_has_the_norms_folded_and_its_certificate_is_valid(tmp_path, suffix):
    rng = np.random.default_rng(2)
    network = ensemble(rng)
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True), Feature("debt", "continuous", range=(-2, 2))])
    certificate, _ = certificate_of_fair(network, spec, spec.sample_inputs(20, rng, np.float32))
    model = tmp_path / f"model{suffix}"
    network.save(model)
    certificate.save(tmp_path / "certificate.json", model)
    assert fairmend.check(tmp_path / "certificate.json", model).reasons == ()


def test_the_certificate_of_an_ensemble_is_valid(tmp_path):
    rng = np.random.default_rng(2)
    network = ensemble(rng)
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True), Feature("debt", "continuous", range=(-2, 2))])
    certificate, covered = certificate_of_fair(network, spec, spec.sample_inputs(20, rng, np.float32))
    assert covered.any()
    second = network.affines[1].fold
    extra = {"bn.running_mean": second.after[0].mean, "bn.running_var": second.after[0].variance}
    tensors = {f"{layer.name}.weight": layer.weight for layer in network.stored_layers}
    tensors |= {f"{layer.name}.bias": layer.bias for layer in network.stored_layers}
    path = save_tensors(network, tmp_path / "model.safetensors", tensors | extra)
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid, result.reasons
    assert "v10 = v8 + v9" in result.condition


def test_a_skip_that_onnx_runtime_adds_together_with_a_layer_is_not_covered_in_inference(tmp_path):
    """ONNX Runtime adds 8,192 terms in blocks to a large number, and may round it up after each block."""
    nodes = [node("MatMul", "x wide", "a"), node("Relu", "a", "h"), node("MatMul", "x large", "s")]
    nodes += [node("MatMul", "h small", "d"), node("Add", "d s", "t"), node("Gemm", "t one limit")]
    wide, small = np.zeros((2, 8192), np.float32), np.full((8192, 1), 0.55 / 256, np.float32)
    wide[1], large = 1, np.array([[8_389_608], [0]], np.float32)
    one, limit = np.ones((1, 1), np.float32), np.array([-8_389_633], np.float32)
    path = save(tmp_path / "m.onnx", nodes, 1, axes=("n", 2), wide=wide, small=small, large=large, one=one, limit=limit)
    spec = Spec([Feature("b", "integer", range=(0, 1)), Feature("sex", "integer", range=(0, 1), protected=True)])
    X = np.array([[1, 1], [1, 0]], np.float32)
    assert 0 <= runtime(path, X)[0, 0] + 8 < 20  # -7.4 is exact, and releases for other processors add in other blocks
    certificate, _ = certificate_of_fair(fairmend.load_network(path), spec, X)
    certificate.save(tmp_path / "c.json", path)
    plain = read(tmp_path / "c.json")
    assert plain["arithmetic"] == "real"
    assert fairmend.check(tmp_path / "c.json", path, real=True).valid  # in exact arithmetic, nobody is above the limit
    forged = write(tmp_path, plain | {"arithmetic": "float32"})
    assert "rounding errors of float32" in fairmend.check(forged, path).reasons[0]


@pytest.mark.parametrize(("divisor", "arithmetic"), [(3.0, "real"), (4.0, "float64")])
def test_a_number_that_onnx_runtime_rounds_to_float32_is_not_covered_in_float64(tmp_path, divisor, arithmetic):
    """ONNX Runtime makes one operator of MatMul and Div, with 1 / 3 as an attribute in float32."""
    nodes = [node("MatMul", "x weight", "d"), node("Div", "d divisor", "s"), node("Add", "s limit")]
    weight, limit = np.array([[divisor], [1e-12]]), np.array([-1.0 - 1e-9])
    constants = {"weight": weight, "divisor": np.array(divisor), "limit": limit}
    path = save(tmp_path / "m.onnx", nodes, 1, element=TensorProto.DOUBLE, axes=("n", 2), **constants)
    spec = Spec([Feature("b", "integer", range=(0, 1)), Feature("sex", "integer", range=(0, 1), protected=True)])
    X = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert np.allclose(runtime(path, X), 0, atol=1e-7)  # in exact arithmetic, both are about -1e-9
    certificate, _ = certificate_of_fair(fairmend.load_network(path), spec, X)
    certificate.save(tmp_path / "c.json", path)
    plain = read(tmp_path / "c.json")
    assert plain["arithmetic"] == arithmetic
    forged = write(tmp_path, plain | {"arithmetic": "float64"})
    assert fairmend.check(forged, path).valid == (arithmetic == "float64")


def _one_reader_scaled():
    """A scaling that two nodes read, in which the product with the matrix gets a factor of its own in float32."""
    nodes = [node("Mul", "x third", "s"), node("MatMul", "s same", "m"), node("Sub", "m s", "d")]
    constants = {"third": np.array(1 / 3), "same": np.eye(2), "ones": np.ones((2, 1)), "limit": np.array([-1e-9])}
    return [*nodes, node("Gemm", "d ones limit")], constants


def _sixth_of_hardswish():
    """Hardswish as elementary operators: the matrix product after it takes in 1 / 6, in float32."""
    nodes = [node("MatMul", "x wide", "z"), node("Add", "z three", "a"), node("Clip", "a zero six", "c")]
    nodes += [node("Mul", "z c", "p"), node("Div", "p six", "h"), node("MatMul", "h one", "m"), node("Add", "m limit")]
    numbers = {"three": np.array(3.0), "zero": np.array(0.0), "six": np.array(6.0), "limit": np.array([-3 - 1e-9])}
    return nodes, {"wide": np.array([[0.0], [3.0]]), "one": np.ones((1, 1)), **numbers}


def _factors_that_vanish():
    """Scalings in a row that others read too: the product with the matrix has 2^-150 as one factor, which is 0."""
    nodes = [node("Mul", f"{before} small", after) for before, after in (("x", "s"), ("s", "t"), ("t", "u"))]
    nodes += [node("Tanh", value, f"{value}h") for value in "stu"] + [node("MatMul", "u large", "m")]
    nodes += [node("Concat", "m x sh th uh", "all", axis=1), node("Gemm", "all last half")]
    last = np.array([[1.0, 0, -1, *[0] * 6]]).T
    constants = {"small": np.array(2.0**-50), "large": np.array([[0], [2.0**150]]), "last": last}
    return nodes, {**constants, "half": np.array([0.5])}


@pytest.mark.parametrize("case", [_one_reader_scaled, _sixth_of_hardswish, _factors_that_vanish])
def test_a_factor_that_onnx_runtime_makes_part_of_a_product_is_not_covered_in_float64(tmp_path, case):
    nodes, constants = case()
    path = save(tmp_path / "m.onnx", nodes, 1, element=TensorProto.DOUBLE, axes=("n", 2), **constants)
    spec = Spec([Feature("b", "integer", range=(0, 1)), Feature("sex", "integer", range=(0, 1), protected=True)])
    X = np.array([[0.0, 1.0], [0.0, 0.0]])
    assert len(set((runtime(path, X)[:, 0] > 0).tolist())) == 2  # in exact arithmetic, both are on one side
    certificate, _ = certificate_of_fair(fairmend.load_network(path), spec, X)
    certificate.save(tmp_path / "c.json", path)
    plain = read(tmp_path / "c.json")
    assert plain["arithmetic"] == "real"
    assert fairmend.check(tmp_path / "c.json", path, real=True).valid
    forged = write(tmp_path, plain | {"arithmetic": "float64"})
    assert "rounding errors of float64" in fairmend.check(forged, path).reasons[0]


def test_steps_of_graphs_fit_the_schema():
    schema = json.loads((Path(writer.__file__).parent / "certificate.schema.json").read_text())
    content = graph_content()
    jsonschema.validate(json.loads(b"".join(lines_of(content))), schema)


def test_scores_of_graphs_are_confirmed(tmp_path):
    """The checker finds their bounds by itself, with slopes of its own."""
    network, _, rows = graph_case()
    content = SPEC.to_dict() | {"claim": {"kind": "score", "delta": 0.75, "on": "logit"}}
    certificate, covered = certificate_of_fair(network, Spec.from_dict(content), rows)
    assert covered.any()
    path = save_tensors(network, tmp_path / "model.safetensors")
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid, result.reasons
    assert 0 < result.largest_difference <= 0.75


def test_a_table_that_two_columns_share_is_one_tensor_of_two_steps():
    rng = np.random.default_rng(1)
    table = Lookup(numbers(rng, 3, 2))
    columns = [Node(Columns((column,)), (0,)) for column in (0, 1)]
    nodes = [Node(Input(2)), *columns, Node(table, (1,), "words"), Node(table, (2,), "words"), Node(Sum(), (3, 4))]
    network = Network.from_nodes([*nodes, Node(Affine(numbers(rng, 1, 2), numbers(rng, 1)), (5,), "head")])
    tables = [step["table"] for step in stored_steps(network)[0] if step["kind"] == "lookup"]
    assert tables == ["words.weight", "words.weight"]


def test_heads_that_are_averaged_after_their_sum_are_the_same_network_in_the_file(tmp_path):
    """The repair has one head of several parts; the steps are those of the file."""
    rng = np.random.default_rng(0)
    nodes = [node("Gemm", "x w1 b1", "a"), node("Relu", "a", "r"), node("Gemm", "r v1 c1", "p")]
    nodes += [node("Gemm", "x v2 c2", "q"), node("Add", "p q", "s"), node("Mul", "s half")]
    shapes = {"w1": (2, 3), "b1": (3,), "v1": (3, 1), "c1": (1,), "v2": (2, 1), "c2": (1,)}
    constants = {name: numbers(rng, *shape) for name, shape in shapes.items()}
    path = save(tmp_path / "m.onnx", nodes, 1, axes=("n", 2), half=np.array(0.5, np.float32), **constants)
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True), Feature("debt", "continuous", range=(-2, 2))])
    certificate, _ = certificate_of_fair(load_network(path), spec, spec.sample_inputs(20, rng, np.float32))
    certificate.save(tmp_path / "c.json", path)
    assert fairmend.check(tmp_path / "c.json", path).reasons == ()
