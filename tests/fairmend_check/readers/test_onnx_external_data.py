"""ONNX models with their weights in a file beside them: read if it is beside the model, refused if it is elsewhere."""

import os
import warnings

import numpy as np
import onnx
import pytest

import fairmend
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.onnx_external_data import ExternalData
from fairmend_check.readers.read_model import read_model
from support.checker_cases import case, write


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
    for tensor in content.graph.initializer:
        edit(tensor)
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
    import hashlib

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
    for affine in made.network.affines:
        linear = torch.nn.Linear(*affine.weight.shape[::-1])
        linear.load_state_dict({k: torch.from_numpy(np.array(getattr(affine, k))) for k in ("weight", "bias")})
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
    from support.onnx_files import runtime
    from support.onnx_forgeries import SHOWN, floats, honest
    from support.onnx_wire import attribute, field, node

    (tmp_path / "w.bin").write_bytes(floats(SHOWN["w"]))
    entries = (field(1, "location") + field(2, "w.bin"), field(1, "length") + field(2, "16"))
    tensor = field(1, 2) * 2 + field(2, 1) + b"".join(field(13, entry) for entry in entries) + field(14, 1)
    parts = honest()
    parts.tensors = parts.tensors[1:]
    parts.nodes.insert(0, node("Constant", "", "w", attribute("value", field(5, tensor), kind=4)))
    path = tmp_path / "m.onnx"
    path.write_bytes(parts.content())
    model, _ = read_model(path)
    assert np.array_equal(model.weights[0], SHOWN["w"])
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
    from fairmend_check.readers import onnx_external_data

    monkeypatch.setattr(onnx_external_data, "_MAX_BYTES", 1000)
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
