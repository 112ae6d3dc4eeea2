"""ONNX files: the runtime agrees with what is written, and both of PyTorch's exporters load."""

import os
import warnings

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend_check.readers.read_model import read_model
from support.examples import examples
from support.onnx_files import A, B, W, X, node, runtime, save
from support.strategies import networks, random_network

# ONNX weights in a file beside the model: read where they are safe, and never written.


@pytest.fixture
def split(tmp_path):
    """e.onnx, and its weights in e.data."""
    save(tmp_path / "m.onnx", [node("Gemm", "x w b", transB=1)], w=W, b=B)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, size_threshold=0, location="e.data")
    return tmp_path / "e.onnx"


def change(path, **entries):
    """Set the first tensor's entries, or remove those that are None."""
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    kept = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in kept.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


def test_weights_beside_the_model_are_read(split):
    network = load_network(split)
    assert network == load_network(split.with_name("m.onnx"))
    assert np.allclose(network.logits(X), runtime(split, X), atol=1e-5)
    change(split, offset=0, length=None)  # without a length: to the end of the file, which is longer
    with pytest.raises(FairmendError, match=r"'w' needs 48 bytes and names [\d,]+ of 'e.data'"):
        load_network(split)


def test_what_pytorch_exports_by_default_is_read_and_saved_as_one_file(tmp_path):
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        torch.onnx.export(module, (torch.zeros(2, 4),), tmp_path / "m.onnx", dynamo=True, verbose=False)
    assert (tmp_path / "m.onnx.data").exists()
    network = load_network(tmp_path / "m.onnx")
    assert network.affines == load_network(module).affines
    (tmp_path / "alone").mkdir()
    network.save(tmp_path / "alone" / "m.onnx")
    assert os.listdir(tmp_path / "alone") == ["m.onnx"]
    assert load_network(tmp_path / "alone" / "m.onnx") == network


def test_a_missing_file_is_named_with_what_would_work(split):
    split.with_name("e.data").unlink()
    with pytest.raises(FairmendError, match=r"'w' lies in 'e.data'.*no such file.*one folder, .*external_data=False"):
        load_network(split)


def test_a_link_within_the_folder_is_followed_and_one_out_of_it_is_not(split):
    data, outside = split.with_name("e.data"), split.parent / "elsewhere" / "w.data"
    data.rename(split.with_name("real.data"))
    data.symlink_to("real.data")
    assert load_network(split).outputs == 3
    outside.parent.mkdir()
    split.with_name("real.data").rename(outside)
    data.unlink()
    data.symlink_to(outside)
    with pytest.raises(FairmendError, match=r"'e\.data', a link out of the model's folder"):
        load_network(split)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "../e.data"}, "lies in '../e.data'; only a file in the model's own folder"),
        ({"location": "/e.data"}, "only a file in the model's own folder"),
        ({"location": "C:e.data"}, "only a file in the model's own folder"),
        ({"location": "a\\e.data"}, "only a file in the model's own folder"),
        ({"location": ".."}, "only a file in the model's own folder"),
        ({"location": None}, "only a file in the model's own folder"),
        ({"location": "e" * 5000}, "cannot be opened"),
        ({"location": "nul\0"}, "only a file in the model's own folder"),
        ({"offset": "-1"}, "offset '-1', not a number"),
        ({"offset": "9" * 30}, "not a number"),
        ({"offset": 10**15}, "ends at byte 1,000,000,000,000,048 of 'e.data', which has"),
        ({"length": 47}, "needs 48 bytes and names 47"),
        ({"length": 10**15}, "needs 48 bytes and names 1,000,000,000,000,000"),
    ],
)
def test_places_that_are_not_trusted_are_refused(split, entries, words):
    change(split, **entries)
    with pytest.raises(FairmendError, match=words):
        load_network(split)


def test_types_of_other_sizes_are_refused(split):
    model = onnx.load(split, load_external_data=False)
    model.graph.initializer[0].data_type = onnx.TensorProto.STRING
    split.write_bytes(model.SerializeToString())
    with pytest.raises(FairmendError, match="'w' has a type that is not read from another file"):
        load_network(split)


def test_a_repeated_key_is_refused(split):
    model = onnx.load(split, load_external_data=False)
    model.graph.initializer[0].external_data.add(key="location", value="other.data")
    split.write_bytes(model.SerializeToString())
    with pytest.raises(FairmendError, match="'w' describes its data with a repeated key"):
        load_network(split)


@pytest.mark.parametrize("text", [b"e.data", b"location", b"offset"])
def test_a_name_that_is_not_text_is_refused(split, text):
    split.write_bytes(split.read_bytes().replace(text, b"\xff" + text[1:]))
    with pytest.raises(FairmendError, match="'w' describes its data with bytes that are not text"):
        load_network(split)


def test_an_offset_after_the_end_is_refused(split):
    change(split, offset=999_999, length=None)
    with pytest.raises(FairmendError, match=r"'w' needs 48 bytes and names 0 of 'e\.data'"):
        load_network(split)


# ONNX files keep all but their weights: names, shapes, further outputs, metadata, nodes.


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3)).astype(np.float32)
ARRAYS = {name: RNG.normal(size=(3, 3) if name in "wv" else 3).astype(np.float32) for name in "wvbgm"}
ARRAYS |= {"flat": np.array([-1])}
ARRAYS |= {"s": np.float32([0.5, 1, 2]), "one": np.float32([1]), "o": RNG.normal(size=(3, 1)).astype(np.float32)}


def write(path, nodes, outputs):
    """Write a graph with names, metadata and constants of its own: half of them in Constant nodes."""
    used = [name for name in ARRAYS if any(name in one.input for one in nodes)]
    tensors = {name: numpy_helper.from_array(ARRAYS[name], name) for name in used}
    constants = [helper.make_node("Constant", [], [name], value=tensors[name]) for name in used[::2]]
    values = [helper.make_tensor_value_info("people", TensorProto.FLOAT, ["N", 3])], outputs
    graph = helper.make_graph([*constants, *nodes], "mine", *values, [tensors[name] for name in used[1::2]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9, producer_name="me")
    helper.set_model_props(model, {"owner": "bank"})
    onnx.save(model, path)
    return path


def score(name, columns=1):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", columns])


GRAPHS = {
    "a constant that two layers read": (
        [node("Gemm", "people w b", "p"), node("Relu", "p", "q"), node("Gemm", "q v b", "risk")],
        [score("risk", 3)],
    ),
    "a norm": (
        [
            *(node("MatMul", "people w", "p"), node("BatchNormalization", "p g b m s", "q"), node("Relu", "q", "r")),
            *(node("Gemm", "r o one", "t"), node("Sigmoid", "t", "risk")),
        ],
        [score("risk")],
    ),
    "no bias": (
        [node("Gemm", "people w", "p"), node("Relu", "p", "q"), node("MatMul", "q o", "risk")],
        [score("risk")],
    ),
    "scaling": (
        [node("Sub", "people m", "p"), node("Div", "p s", "q"), node("Gemm", "q w b", "risk")],
        [score("risk", 3)],
    ),
}


def signature(session):
    return [[(one.name, one.shape, one.type) for one in ends] for ends in (session.get_inputs(), session.get_outputs())]


@pytest.mark.parametrize("name", GRAPHS)
def test_only_the_weights_change(name, tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS[name])
    network, before = load_network(path), InferenceSession(path)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 0.5) for a in network.affines])
    changed.save(path)
    after = InferenceSession(path)
    assert signature(after) == signature(before)
    assert after.get_modelmeta().custom_metadata_map == {"owner": "bank"}
    assert after.get_modelmeta().producer_name == "me"
    assert load_network(path) == changed
    expected = changed.probabilities(ROWS)[:, None] if changed.closing == "sigmoid" else changed.logits(ROWS)
    found = after.run(["risk"], {"people": ROWS})[0]
    assert np.allclose(found, expected.reshape(found.shape), atol=1e-4)
    kinds = [one.op_type for one in onnx.load(path).graph.node if one.op_type != "Constant"]
    assert kinds == [one.op_type for one in GRAPHS[name][0]]


def test_a_network_that_did_not_change_gives_the_same_bytes(tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS["a norm"])
    before = path.read_bytes()
    load_network(path).save(path)
    assert path.read_bytes() == before


def test_weights_are_no_longer_inputs_that_a_caller_could_replace(tmp_path):
    path = write(tmp_path / "m.onnx", *GRAPHS["scaling"])
    model = onnx.load(path)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    onnx.save(model, path)
    network = load_network(path)
    network.save(path)
    assert [value.name for value in onnx.load(path).graph.input] == ["people"]
    assert load_network(path) == network
    read_model(path)  # the checker reads it now


def plain(path, nodes, outputs):
    """Return a network of a file, the same in fairmend's own form, and what that changes for a program."""
    network = load_network(write(path / "m.onnx", nodes, outputs))
    network.save(path / "own.onnx", keep_form=False)
    return network, onnx.load(path / "own.onnx").graph, network.form.changes_in((path / "own.onnx").read_bytes())


def test_fairmends_own_form_has_the_names_of_the_original_where_rows_stay_the_same(tmp_path):
    nodes = [node("Gemm", "people w b", "p"), node("Relu", "p", "q"), node("Gemm", "q o", "risk")]
    network, graph, changes = plain(tmp_path, nodes, [score("risk")])
    assert [value.name for value in (*graph.input, *graph.output)] == ["people", "risk"]
    assert changes == ""
    session = InferenceSession(tmp_path / "own.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["risk"], {"people": ROWS})[0][:, 0], network.logits(ROWS), atol=1e-5)


def test_fairmends_own_form_names_other_outputs_anew_and_says_so(tmp_path):
    """A program that reads probabilities by the name of their logarithms would decide on other numbers."""
    nodes = [node("Gemm", "people w b", "p"), node("LogSoftmax", "p", "logs", axis=1)]
    _, graph, changes = plain(tmp_path, nodes, [score("logs", 3)])
    assert [value.name for value in (*graph.input, *graph.output)] == ["people", "output"]
    assert "the output 'logs' (float32, 3 columns) became 'output' (float32, 3 columns)" in changes
    assert "probabilities took the place of their logarithms" in changes
    nodes = [node("Gemm", "people w b", "p"), node("Gemm", "p o", "q"), node("Reshape", "q flat", "risk")]
    _, graph, changes = plain(tmp_path, nodes, [helper.make_tensor_value_info("risk", TensorProto.FLOAT, ["N"])])
    assert graph.output[0].name == "output"
    assert changes == "the output 'risk' (float32, 1 axis) became 'output' (float32, 1 column)"


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# Every model with each exporter and each exporter with each kind of batch; dynamo takes seconds, so not all with all.
EXPORTS = [(model, False, batch) for model in MODELS for batch in ("fixed", "dynamic")]
EXPORTS += [(model, True, "fixed") for model in ("logits", "double", "squeezed")]
EXPORTS += [(model, True, "dynamic") for model in ("sigmoid", "softmax", "squeezed")]


@pytest.mark.parametrize(("model", "dynamo", "batch"), EXPORTS)
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
    with pytest.raises(FairmendError, match="not a valid ONNX model: ValidationError"):
        load_network(path)
