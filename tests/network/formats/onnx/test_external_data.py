"""ONNX weights in a file beside the model: read where they are safe, and never written."""

import os
import warnings

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.onnx_files import B, W, X, node, runtime, save


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
