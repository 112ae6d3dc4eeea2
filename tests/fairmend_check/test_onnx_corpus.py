"""Real .onnx files: the checker reads them as load_network and ONNX Runtime do, or refuses them for a listed reason."""

from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnx
import pytest

import fairmend
from fairmend_check.errors import CheckError
from fairmend_check.read_model import read_model
from support.fuzzing.onnx import FORMAT

FILES = sorted((Path(__file__).parents[1] / "corpus" / "onnx").glob("*.onnx"))
REFUSED = {
    "skl2onnx-*-regressor-tanh.onnx": "node Reshape changes the shape",  # skl2onnx makes one column of three targets
    "skl2onnx-1.7.0-float64.onnx": "is float32, unlike the input",  # computes in float32 all the same
}


def reason_to_refuse(path):
    return next((reason for pattern, reason in REFUSED.items() if fnmatch(path.name, pattern)), None)


def test_there_are_many_of_several_producers():
    assert len(FILES) > 150
    producers = {path.name.split("-")[0] for path in FILES}
    assert producers == {"fairmend", "keras", "onnx", "onnxscript", "skl2onnx", "tf2onnx", "torch"}
    assert sum(reason_to_refuse(path) is None for path in FILES) > 130


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_real_file(path):
    content, refused = path.read_bytes(), reason_to_refuse(path)
    if refused is not None:
        with pytest.raises(CheckError, match=refused):
            read_model(path)
        return
    model, _ = read_model(path)
    network = fairmend.load_network(path)
    for weight, bias, layer in zip(model.weights, model.biases, network.affines, strict=True):
        assert np.array_equal(weight, layer.weight)
        assert np.array_equal(bias, layer.bias)
    assert [(one.name, one.slope) for one in model.activations] == [
        (one.name, one.slope) for one in network.activations
    ]
    assert model.dtype == network.dtype.name
    assert FORMAT.disagreement(model, content, path) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_google_writes_a_real_file_in_the_same_bytes(path):
    assert onnx.ModelProto.FromString(path.read_bytes()).SerializeToString() == path.read_bytes()
