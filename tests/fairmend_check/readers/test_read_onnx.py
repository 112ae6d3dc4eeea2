"""The .onnx reader: graphs of layers are read, everything else is refused."""

import hashlib
import os
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import fairmend
from fairmend.network import Activation, Network
from fairmend.prove.certificate import certificate_of_blindness
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers import read_onnx as onnx_reader
from fairmend_check.readers.read_model import read_model
from fairmend_check.readers.read_onnx import ExternalData, read_onnx
from support.checker_cases import TWO_FEATURES, affine, case, outputs_of, write
from support.onnx_files import runtime
from support.onnx_forgeries import FORGERIES, RUN, SHOWN, doubles, floats, honest, raw
from support.onnx_wire import attribute, field, node, tensor, value_info, varint

# ONNX models with their weights in a file beside them: read if it is beside the model, refused if it is elsewhere.


@pytest.fixture
def split(tmp_path):
    """A model and the certificate of it; the weights are in weights.bin."""
    certificate, whole = case().save(tmp_path)
    folder = tmp_path / "split"
    folder.mkdir()
    model = folder / "model.onnx"
    onnx.save(
        onnx.load(whole), model, save_as_external_data=True, all_tensors_to_one_file=True, location="weights.bin",
        size_threshold=0,
    )  # fmt: skip
    return certificate, model


def edited(model, edit):
    """The model after a change to the description of each external tensor."""
    content = onnx.load(model, load_external_data=False)
    for stored in content.graph.initializer:
        edit(stored)
    model.write_bytes(content.SerializeToString())  # onnx.save would write the other file again
    return model


def setting(key, value):
    def edit(tensor):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        del tensor.external_data[:]
        for name, text in {**entries, key: value}.items():
            if text is not None:
                tensor.external_data.add(key=name, value=text)

    return edit


def reason(certificate, model):
    result = fairmend.check(certificate, model)
    assert not result.valid
    return result.reasons[0]


def test_weights_beside_the_model_are_checked(split):
    certificate, model = split
    assert all(tensor.external_data for tensor in onnx.load(model, load_external_data=False).graph.initializer)
    result = fairmend.check(certificate, model)
    assert result.valid, result.reasons


def test_a_changed_weight_in_the_other_file_is_noticed(split):
    certificate, model = split
    data = bytearray((model.parent / "weights.bin").read_bytes())
    data[0] ^= 1
    (model.parent / "weights.bin").write_bytes(data)
    assert "weights_sha256 differs" in reason(certificate, model)


def test_the_sha256_of_the_file_is_that_of_the_onnx_file_alone(split, tmp_path):
    _, model = split
    content = case().content
    content["model"]["file_sha256"] = hashlib.sha256(model.read_bytes()).hexdigest()
    assert fairmend.check(write(tmp_path, content), model).valid


def test_one_file_for_each_tensor(split, tmp_path):
    certificate, model = split
    whole = onnx.load(model)
    other = tmp_path / "each" / "model.onnx"
    other.parent.mkdir()
    onnx.save(whole, other, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    assert len(list(other.parent.iterdir())) > 2
    assert fairmend.check(certificate, other).valid


def test_what_pytorch_exports_by_default(tmp_path):
    import torch

    pytest.importorskip("onnxscript")
    made = case(hidden=(300, 300), spec="ordinal")
    layers = []
    for each in made.network.affines:
        linear = torch.nn.Linear(*each.weight.shape[::-1])
        linear.load_state_dict({k: torch.from_numpy(np.array(getattr(each, k))) for k in ("weight", "bias")})
        layers += [linear, torch.nn.ReLU()]
    module = torch.nn.Sequential(*layers[:-1]).eval()
    path = tmp_path / "exported.onnx"
    rows = torch.zeros(2, made.spec.width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        torch.onnx.export(module, (rows,), path, dynamo=True, verbose=False)
    if not (tmp_path / "exported.onnx.data").exists():
        pytest.skip("this PyTorch exports into one file")
    certificate, _ = made.save(tmp_path)
    result = fairmend.check(certificate, path)
    assert result.valid, result.reasons


@pytest.mark.parametrize(
    "location",
    [
        "../weights.bin",
        "./weights.bin",
        "/etc/passwd",
        "sub/weights.bin",
        "sub\\weights.bin",
        "..",
        ".",
        "",
        "C:weights.bin",
        "*/_ORT_MEM_ADDR_/*",  # ONNX Runtime takes the offset for an address in memory
    ],
)
def test_a_location_with_a_path_is_refused(split, location):
    certificate, model = split
    (model.parent.parent / "weights.bin").write_bytes((model.parent / "weights.bin").read_bytes())
    edited(model, setting("location", location))
    assert "must be a file in the folder of the model, named without a path" in reason(certificate, model)


def test_a_name_with_a_nul_is_refused(split):
    """ONNX Runtime reads weights.bin."""
    certificate, model = split
    edited(model, setting("location", "weights.bin\0x"))
    assert "a NUL character" in reason(certificate, model)


def test_a_link_out_of_the_folder_is_refused(split):
    certificate, model = split
    data = model.parent / "weights.bin"
    outside = model.parent.parent / "outside.bin"
    data.rename(outside)
    data.symlink_to(outside)
    assert "a link that leads out of the folder" in reason(certificate, model)
    data.unlink()
    outside.rename(model.parent / "inside.bin")
    data.symlink_to("inside.bin")
    assert fairmend.check(certificate, model).valid
    os.unlink(data)
    data.symlink_to("weights.bin")  # a circle
    assert "which is missing" in reason(certificate, model)


def test_a_model_that_is_itself_a_link_reads_the_data_beside_the_link(split, tmp_path):
    certificate, model = split
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "model.onnx").symlink_to(model)
    assert "weights.bin, which is missing; put the file into the folder" in reason(
        certificate, elsewhere / "model.onnx"
    )
    (elsewhere / "weights.bin").write_bytes((model.parent / "weights.bin").read_bytes())
    assert fairmend.check(certificate, elsewhere / "model.onnx").valid


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("offset", "-8", "must be a whole number"),
        ("offset", "1e3", "must be a whole number"),
        ("offset", " 0", "must be a whole number"),  # read by Python's int, and not by ONNX Runtime
        ("offset", "00", "must be a whole number"),
        ("offset", "٠", "must be a whole number"),
        ("length", "", "must be a whole number"),
        ("offset", "9" * 18, "ends after the end of weights.bin"),
        ("length", "4", "and its shape needs"),
        ("length", None, "and its shape needs"),
        ("length", "9" * 19, "must be a whole number"),
        ("location", None, "does not name the file"),
        ("basepath", "/etc", "unknown or repeated key"),
        ("checksum", "0" * 40, "unknown or repeated key"),  # which no runtime compares
        ("prepacked_0", "a|0;16;1", "unknown or repeated key"),  # ONNX Runtime's own form of the weights
        ("location", "absent.bin", "absent.bin, which is missing"),
    ],
)
def test_descriptions_that_do_not_fit_the_file_are_refused(split, key, value, why):
    certificate, model = split
    edited(model, setting(key, value))
    assert why in reason(certificate, model)


def test_a_repeated_key_is_refused(split):
    certificate, model = split
    edited(model, lambda tensor: tensor.external_data.add(key="offset", value="0"))
    assert "unknown or repeated key" in reason(certificate, model)


def test_a_constant_may_be_stored_beside_the_model(tmp_path):
    (tmp_path / "w.bin").write_bytes(floats(SHOWN["w"]))
    entries = (field(1, "location") + field(2, "w.bin"), field(1, "length") + field(2, "16"))
    tensor = field(1, 2) * 2 + field(2, 1) + b"".join(field(13, entry) for entry in entries) + field(14, 1)
    parts = honest()
    parts.tensors = parts.tensors[1:]
    parts.nodes.insert(0, node("Constant", "", "w", attribute("value", field(5, tensor), kind=4)))
    path = tmp_path / "m.onnx"
    path.write_bytes(parts.content())
    model, _ = read_model(path)
    assert np.array_equal(model.layers[0].weight, SHOWN["w"])
    rows = np.array([[1, 0.3], [2, -0.2]], np.float32)
    assert np.array_equal(runtime(path, rows), runtime(honest().content(), rows))


def test_a_truncated_file_is_refused(split):
    certificate, model = split
    data = model.parent / "weights.bin"
    data.write_bytes(data.read_bytes()[:-1])
    assert "ends after the end of weights.bin; the file is truncated" in reason(certificate, model)


def test_data_in_both_places_or_in_none_is_refused(split):
    certificate, model = split

    def doubled(tensor):
        tensor.raw_data = b"\0" * 4

    assert "must store its data in one field" in reason(certificate, edited(model, doubled))

    def denied(tensor):
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.DEFAULT

    assert "contradicts itself about where its data is stored" in reason(certificate, edited(model, denied))


def test_a_folder_or_a_pipe_is_not_read(split):
    certificate, model = split
    data = model.parent / "weights.bin"
    data.unlink()
    data.mkdir()
    assert "not a file" in reason(certificate, model)
    data.rmdir()
    os.mkfifo(data)
    assert "not a file" in reason(certificate, model)


def test_tensors_that_share_their_bytes_do_not_fill_the_memory(tmp_path, monkeypatch):

    monkeypatch.setattr(onnx_reader, "_MAX_BYTES", 1000)
    (tmp_path / "data.bin").write_bytes(bytes(400))
    external = ExternalData(tmp_path)
    described = {"location": "data.bin", "offset": "0", "length": "400"}
    entries = [{"key": key, "value": value} for key, value in described.items()]
    assert len(external.read(entries, 400, "tensor a")) == 400
    external.read(entries, 400, "tensor b")
    with pytest.raises(CheckError, match="of all tensors has more than 1,000 bytes"):
        external.read(entries, 400, "tensor c")


def test_the_weights_are_those_of_one_file(split, tmp_path):
    _, model = split
    whole, _ = read_model(tmp_path / "model.onnx")
    parts, _ = read_model(model)
    assert weights_digest(parts) == weights_digest(whole)


W1, B1 = np.arange(6.0).reshape(2, 3), [1.0, 2.0, 3.0]  # (in, out)
W2 = np.arange(3.0).reshape(3, 1)
X = np.array([[1, 0.3], [2, 0.3], [1, -0.2], [2, -0.2]], np.float32)


def onnx_file(path, nodes, tensors, outputs=1):
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in (("x", 2), (nodes[-1].output[0], outputs))
    ]
    arrays = [numpy_helper.from_array(np.asarray(array, dtype=np.float32), name) for name, array in tensors.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_matmul_and_add_are_an_affine_layer(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["b1", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "w2"], ["y"]),
    ]
    model, _ = read_model(onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2}))
    assert np.array_equal(model.layers[0].weight, W1.T)
    assert np.array_equal(model.layers[0].bias, B1)
    assert np.array_equal(model.layers[1].weight, W2.T)
    assert np.array_equal(model.layers[1].bias, [0.0])


def test_nodes_that_change_nothing_are_passed_over(tmp_path):
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Cast", ["f"], ["g"], to=TensorProto.FLOAT),
        helper.make_node("Gemm", ["g", "w1", "b1"], ["a"]),
        helper.make_node("Constant", [], ["shape"], value=helper.make_tensor("", TensorProto.INT64, [2], [-1, 3])),
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "w2"], ["d"]),
        helper.make_node("Identity", ["d"], ["y"]),
    ]
    path = onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2})
    plain = onnx_file(tmp_path / "p.onnx", [GEMM, helper.make_node("Relu", ["a"], ["c"]), LAST], TENSORS)
    model, expected = read_model(path)[0], read_model(plain)[0]
    assert all(np.array_equal(a.weight, b.weight) for a, b in zip(model.layers, expected.layers, strict=True))
    assert model.activations == expected.activations
    assert np.array_equal(runtime(path, X), runtime(plain, X))


GEMM = helper.make_node("Gemm", ["x", "w1", "b1"], ["a"])
LAST = helper.make_node("MatMul", ["c", "w2"], ["y"])
LAST_OF_Q = helper.make_node("MatMul", ["q", "w2"], ["y"])
TENSORS = {"w1": W1, "b1": B1, "w2": W2, "two": [-1, 3]}

REFUSED = {
    "transA = 1": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], transA=1)],
    "a sum has parts of 3, 2 numbers": [GEMM, helper.make_node("Add", ["a", "x"], ["y"])],
    "node 'Conv'": [GEMM, helper.make_node("Conv", ["a", "w2"], ["c"]), LAST],
    "a node reads 'w1', which no node before it": [GEMM, helper.make_node("Relu", ["w1"], ["q"]), LAST_OF_Q],
    "activation log_softmax": [GEMM, helper.make_node("LogSoftmax", ["a"], ["c"]), LAST],
    "axis 0": [GEMM, helper.make_node("Softmax", ["a"], ["y"], axis=0)],
    "ends with tanh": [GEMM, helper.make_node("Tanh", ["a"], ["y"])],
    "ends with sigmoid": [GEMM, helper.make_node("Sigmoid", ["a"], ["y"])],
    "the model ends with tanh, which": [
        GEMM,
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Tanh", ["b"], ["y"]),
    ],
    "the model ends with relu, which": [helper.make_node("Relu", ["x"], ["y"])],
    "to = 11": [GEMM, helper.make_node("Cast", ["a"], ["y"], to=TensorProto.DOUBLE)],
    "merges rows with others": [GEMM, helper.make_node("Flatten", ["a"], ["y"], axis=0)],
    "not a constant list of whole numbers": [GEMM, helper.make_node("Reshape", ["a", "two"], ["y"])],
    "multiplies by a vector": [helper.make_node("MatMul", ["x", "b1"], ["y"])],
    "a matrix of another size": [GEMM, helper.make_node("MatMul", ["a", "w1"], ["y"])],
    "a constant of shape": [helper.make_node("Gemm", ["x", "w1", "two"], ["y"])],
    "'training_mode'": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], training_mode=1)],
    "two values have the name 'a'": [GEMM, helper.make_node("Relu", ["a"], ["a"])],
    "node Gemm has 1 inputs": [helper.make_node("Gemm", ["x"], ["y"])],
    "and 2 outputs": [helper.make_node("Gemm", ["x", "w1"], ["y", "z"])],
    "a value has no name": [helper.make_node("Gemm", ["x", "w1"], [""])],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_graphs_that_are_no_networks(reason, tmp_path):
    path = onnx_file(tmp_path / "m.onnx", REFUSED[reason], TENSORS)
    with pytest.raises(CheckError, match=reason):
        read_model(path)


def test_a_circle_is_refused(tmp_path):
    nodes = [helper.make_node("Gemm", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["x"])]
    with pytest.raises(CheckError, match="two values have the name 'x'"):
        read_model(onnx_file(tmp_path / "m.onnx", nodes, TENSORS))


def test_the_oracle_of_these_tests_agrees_with_onnx_runtime(tmp_path):
    for activation in ("relu", "leaky_relu", "tanh", "sigmoid", "identity"):
        made = case(activation=activation, outputs=3)
        made.network.save(tmp_path / "m.onnx")
        rows = made.spec.sample_inputs(20, np.random.default_rng(0))
        assert np.allclose(runtime(tmp_path / "m.onnx", rows), outputs_of(made.network, rows), atol=1e-5)


def test_runtimes_take_any_trans_b_but_0_for_1():
    parts = honest()
    parts.nodes[0] = node("Gemm", "x w b", "a", attribute("transB", field(3, 2), kind=2))
    assert np.allclose(runtime(parts.content(), X), runtime(honest().content(), X))
    with pytest.raises(CheckError, match="transB = 2"):
        read_onnx(parts.content(), None)


def shown(slope=None):
    activation = Activation("relu") if slope is None else Activation("leaky_relu", float(np.float32(slope)))
    return Network([affine(SHOWN["w"], SHOWN["b"]), affine(SHOWN["v"], SHOWN["c"])], [activation])


def test_the_honest_file_is_valid(tmp_path):
    (tmp_path / "m.onnx").write_bytes(honest().content())
    certificate_of_blindness(shown(), TWO_FEATURES, [0], method="blind").save(tmp_path / "c.json")
    result = fairmend.check(tmp_path / "c.json", tmp_path / "m.onnx")
    assert result.valid, result.reasons
    assert np.allclose(runtime(tmp_path / "m.onnx", X), outputs_of(shown(), X), atol=1e-6)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_file_that_shows_another_network_than_runtimes_run_is_refused(name, tmp_path):
    forged, path = FORGERIES[name], tmp_path / "m.onnx"
    path.write_bytes(forged.content)
    if forged.runtime == "reference":
        (found,) = ReferenceEvaluator(onnx.load_model_from_string(forged.content)).run(None, {"x": X})
    else:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        double = session.get_inputs()[0].type == "tensor(double)"
        (found,) = session.run(None, {"x": X.astype(np.float64 if double else np.float32)})
    network = shown(forged.slope)
    assert not np.allclose(found, outputs_of(network, X), atol=0.01)
    certificate_of_blindness(network, TWO_FEATURES, [0], method="blind").save(tmp_path / "c.json")
    result = fairmend.check(tmp_path / "c.json", path)
    assert not result.valid
    assert forged.reason in result.reasons[0]


def test_bytes_that_onnx_runtime_takes_for_its_own_format_are_refused():
    parts = honest()
    parts.head += field(2, "ORTM")
    with pytest.raises(Exception, match="ORT model verification failed"):
        runtime(parts.content(), X)
    with pytest.raises(CheckError, match="bytes 4 to 7 are ORTM"):
        read_onnx(parts.content(), None)


def test_weights_that_the_caller_can_replace_are_a_condition():
    parts = honest()
    matrix = field(1, field(1, 1) + field(2, field(1, field(1, 2)) * 2))  # two by two floats
    parts.inputs.append(field(1, "w") + field(2, matrix))
    session = onnxruntime.InferenceSession(parts.content(), providers=["CPUExecutionProvider"])
    (replaced,) = session.run(None, {"x": X, "w": np.array(RUN["w"], np.float32)})
    assert not np.allclose(replaced, session.run(None, {"x": X})[0])
    assert "callers that give a value to the other input only" in read_onnx(parts.content(), None).condition
    for wrong, reason in (
        (value_info("w", 3), "the type or shape of 'w'"),
        (value_info("z", 2), "the input 'z' is not used"),
    ):
        parts.inputs[-1] = wrong
        with pytest.raises(CheckError, match=reason):
            read_onnx(parts.content(), None)


def two_inputs(path, first="x_cat"):
    nodes = [
        helper.make_node("Gather", ["t", first], ["e"], axis=0),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Concat", ["f", "x_cont"], ["h"], axis=1),
        helper.make_node("Gemm", ["h", "w"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(first, TensorProto.INT64, ["n", 1]),
              helper.make_tensor_value_info("x_cont", TensorProto.FLOAT, ["n", 2])]  # fmt: skip
    arrays = {"t": np.float32([[1, 2], [3, 4]]), "w": np.float32([[1], [2], [3], [4]])}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, ["n", 1])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_order_of_several_inputs_is_a_condition(tmp_path):
    model, _ = read_model(two_inputs(tmp_path / "m.onnx"))
    assert model.condition.endswith("in this order: x_cat (1), x_cont (2).")
    assert model.inputs == 3
    network = fairmend.load_network(tmp_path / "m.onnx")
    assert network.nodes[0].operation.names == (("x_cat", 1), ("x_cont", 2))
    assert network.logits([[1, 0.5, 1]]).tolist() == [3 + 8 + 1.5 + 4]
    with pytest.raises(CheckError, match="names of letters, digits"):
        read_model(two_inputs(tmp_path / "m.onnx", "x (1), y"))


def with_tensor(*fields, data_type=1, dims=(2, 2)):
    parts = honest()
    parts.tensors[0] = b"".join([*(field(1, one) for one in dims), field(2, data_type), *fields])
    return parts.content()


def with_attribute(*attributes):
    parts = honest()
    parts.nodes[0] = node("Gemm", "x w b", "a", *attributes)
    return parts.content()


def changed(**parts):
    made = honest()
    for name, value in parts.items():
        setattr(made, name, value)
    return made.content()


NAME = field(8, "w")
AMBIGUOUS = {
    "data in two fields": (with_tensor(field(4, floats(SHOWN["w"])), NAME, field(9, floats(RUN["w"]))), "in one field"),
    "data of another type": (with_tensor(NAME, field(10, doubles(SHOWN["w"]))), "in one field"),
    "no data": (with_tensor(NAME), "in one field"),
    "data in segments": (with_tensor(field(3, field(1, 0)), NAME), "TensorProto has segment"),
    "too little data": (with_tensor(NAME, field(9, floats([1]))), "does not fit its shape"),
    "a negative dimension": (with_tensor(NAME, field(9, floats(SHOWN["w"])), dims=(-2, -2)), "does not fit its shape"),
    "dimensions that overflow": (with_tensor(NAME, field(9, b""), dims=(2**32, 2**32)), "does not fit its shape"),
    "another place for the data": (
        with_tensor(NAME, field(9, floats(SHOWN["w"])), field(14, 1)),
        "where its data is stored",
    ),
    "a type beyond 32 bits": (with_tensor(NAME, field(9, b""), data_type=2**32 + 1), "more than one way"),
    "half precision": (with_tensor(NAME, field(9, b""), data_type=10), "a type that cannot be checked"),
    "an attribute twice": (
        with_attribute(attribute("transB", field(3, 0), kind=2), attribute("transB", field(3, 1), kind=2)),
        "the attribute 'transB'",
    ),
    "an attribute without a type": (with_attribute(field(1, "transB") + field(3, 1)), "the attribute 'transB'"),
    "an attribute without a value": (with_attribute(attribute("transB", kind=2)), "the attribute 'transB'"),
    "an attribute of an unknown type": (
        with_attribute(attribute("transB", field(3, 1), kind=99)),
        "the attribute 'transB'",
    ),
    "an attribute with two values": (
        with_attribute(attribute("transB", field(2, 0.0), field(3, 1), kind=2)),
        "the attribute 'transB'",
    ),
    "a whole number for a float": (with_attribute(attribute("alpha", field(3, 1), kind=2)), "the attribute 'alpha'"),
    "an attribute by reference": (
        with_attribute(attribute("transB", field(3, 1), kind=2) + field(21, "q")),
        "AttributeProto has ref_attr_name",
    ),
    "an unknown domain": (
        changed(nodes=[node("Gemm", "x w b", "y", extra=field(7, "com.microsoft"))]),
        "node 'Gemm' cannot be checked",
    ),
    "an overload": (changed(nodes=[node("Gemm", "x w b", "y", extra=field(8, "o"))]), "NodeProto has overload"),
    "a device": (changed(nodes=[node("Gemm", "x w b", "y", extra=field(10, b""))]), "has device_configurations"),
    "a name for two tensors": (changed(tensors=[*honest().tensors, raw("w", RUN["w"])]), "the name 'w'"),
    "a tensor named like the input": (changed(tensors=[*honest().tensors, raw("x", RUN["w"])]), "must have an input"),
    "a tensor named like a value": (changed(tensors=[*honest().tensors, raw("h", RUN["w"])]), "the name 'h'"),
    "nodes in another order": (changed(nodes=honest().nodes[::-1]), "which no node before it computes"),
    "another output": (changed(outputs=[value_info("h", 2)]), "the model ends with relu"),
    "two outputs": (
        changed(outputs=[value_info("h", 2), value_info("y", 1)]),
        "the first is not the label of the second",
    ),
    "three outputs": (changed(outputs=[value_info(name, 1) for name in "yyy"]), "one or two outputs"),
    "too wide an input": (changed(inputs=[value_info("x", 3)]), "matrix of another size than its input"),
    "an input in double precision": (
        changed(inputs=[value_info("x", 2, 11)]),
        "is float32, unlike the input",
    ),
    "an input of no type": (changed(inputs=[field(1, "x")]), "each input must be declared"),
    "an input of no shape": (changed(inputs=[field(1, "x") + field(2, field(1, field(1, 1)))]), "must be declared"),
    "an output in double precision": (changed(outputs=[value_info("y", 1, 11)]), "the type or shape of 'y'"),
    "too wide an output": (changed(outputs=[value_info("y", 2)]), "the type or shape of 'y'"),
    "too wide a value between": (changed(graph_end=field(13, value_info("h", 3))), "the type or shape of 'h'"),
    "a declared weight of another shape": (
        changed(graph_end=field(13, value_info("w", 2))),
        "the type or shape of 'w'",
    ),
    "a value that is not there": (changed(graph_end=field(13, value_info("z", 3))), "a value that it does not compute"),
    "annotations for quantisation": (changed(graph_end=field(14, field(1, "w"))), "has quantization_annotation"),
    "a sparse tensor": (changed(graph_end=field(15, b"")), "has sparse_initializer"),
    "training": (changed(end=field(20, b"")), "ModelProto has training_info"),
    "functions": (changed(end=field(25, b"")), "ModelProto has functions"),
    "configurations": (changed(end=field(26, b"")), "ModelProto has configuration"),
    "operators of version 6": (changed(opsets=field(8, field(1, "") + field(2, 6))), "7 to 28"),
    "operators of the future": (changed(opsets=field(8, field(1, "") + field(2, 29))), "7 to 28"),
    "no operators": (changed(opsets=b""), "one version of ONNX's operators"),
    "operators twice": (changed(opsets=honest().opsets * 2), "one version of ONNX's operators"),
    "operators by both names": (
        changed(opsets=honest().opsets + field(8, field(1, "ai.onnx") + field(2, 7))),
        "one version of ONNX's operators",
    ),
    "a format of the future": (changed(head=field(1, 15)), "ONNX's format"),
    "an old format with weights that are not inputs": (changed(head=field(1, 3)), "lists all weights as inputs"),
    "an older format": (changed(head=field(1, 2)), "ONNX's format"),
    "weights listed twice as inputs": (
        changed(inputs=[value_info("x", 2), value_info("w", 2), value_info("w", 2)]),
        "the name 'w'",
    ),
    "no version of the format": (changed(head=b""), "ONNX's format"),
    "no rows": (
        changed(
            inputs=[field(1, "x") + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 0)) * 2)))],
        ),
        "a number above 0 or a name",
    ),
    "a dimension with number and name": (
        changed(
            inputs=[
                field(1, "x") + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 2) + field(2, "n")) * 2)))
            ],
        ),
        "more than one way",
    ),
    "rows that the input does not promise": (
        changed(
            outputs=[
                field(1, "y")
                + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 7)) + field(1, field(1, 1)))))
            ],
        ),
        "the type or shape of 'y'",
    ),
    "a decoy in packed whole numbers": (with_tensor(field(7, varint(1)), NAME, field(9, b"")), "in one field"),
    "texts without texts": (changed(tensors=[tensor("t", [0], data_type=8)]), "in one field"),
    "texts in bytes": (changed(tensors=[tensor("t", [1], field(9, "12345678"), data_type=8)]), "in one field"),
    "more texts than the shape has": (
        changed(tensors=[field(1, 1) + field(2, 8) + field(6, "a") + field(6, "b") + field(8, "t")]),
        "does not fit its shape",
    ),
    "weights that are texts": (
        with_tensor(*[field(6, "1")] * 4, NAME, data_type=8),
        "the constant 'w' is object, unlike the input",
    ),
    "weights that are whole numbers": (
        with_tensor(field(5, b"\1\2\3\4"), NAME, data_type=6),
        "the constant 'w' is int32, unlike the input",
    ),
    "a number of more than 32 bits": (
        with_tensor(field(5, varint(2**32 + 1) * 4), NAME, data_type=6),
        "written in an unusual form",
    ),
    "a tensor that is a sequence too": (
        changed(graph_end=field(13, field(1, "w") + field(2, field(1, field(1, 1)) + field(4, b"")))),
        "more than one way",
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(name):
    content, reason = AMBIGUOUS[name]
    with pytest.raises(CheckError, match=reason):
        read_onnx(content, None)


def test_notes_in_a_file_are_no_reason_to_refuse_it():
    note = field(1, "key") + field(2, "text")
    parts = honest()
    parts.head += field(2, "someone") + field(3, "1.0") + field(4, "org") + field(5, 3) + field(6, "a model")
    parts.nodes[1] = (
        node("Relu", "a", "h").replace(field(4, "Relu"), field(3, "second") + field(4, "Relu"))
        + field(6, "doc")
        + field(9, note)
    )
    parts.graph_end = field(13, value_info("h", 2) + field(3, "doc") + field(4, note)) + field(16, note)
    parts.opsets += field(8, field(1, "ai.onnx.ml") + field(2, 3))
    parts.end = field(14, note)
    model = read_onnx(parts.content(), None)
    assert np.array_equal(model.layers[0].weight, SHOWN["w"])
    assert np.allclose(runtime(parts.content(), X), runtime(honest().content(), X))
