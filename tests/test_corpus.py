"""The corpus: findings, which must be refused, and files of real programs, which must be read as these run them.

tests/corpus/README.md has the rule, and how to add a file. Keras runs on PyTorch here.
"""

import json
import warnings
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file

import fairmend
from fairmend.prove.certificate import identify
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.read_model import read_model
from support.fuzzing import nnet
from support.fuzzing.keras_runtime import probe_inputs
from support.fuzzing.onnx import FORMAT, fits, possible_outputs
from support.fuzzing.state_dicts import LAYERS
from support.keras_files import import_keras
from support.onnx_files import runtime
from support.state_dict_steps import chain, function, layer

CORPUS = Path(__file__).parent / "corpus"
SUFFIXES = (".onnx", ".h5", ".keras", ".pth", ".ckpt", ".pt2", ".safetensors", ".nnet")
STATE_DICTS = (".pth", ".ckpt", ".safetensors")
ALL = sorted(path for path in CORPUS.glob("*/*") if path.suffix in SUFFIXES)
FINDINGS = [path for path in ALL if path.parent.name == "findings"]
FILES = [path for path in ALL if path.parent.name != "findings"]

# Files of real programs that are refused nevertheless: the words of the loader's reason, and those of the checker's.
REFUSED = {
    # skl2onnx makes one column of three targets.
    "onnx/skl2onnx-*-regressor-tanh.onnx": ("Reshape", "the output is not rows of numbers"),
    # It computes in float32 all the same.
    "onnx/skl2onnx-1.7.0-float64.onnx": ("casts to something other", "is float32, unlike the input"),
    # The numbers of layers are those of no other version of Keras.
    "keras/keras2.13.1-*.keras": ("has 0 arrays instead of 2", "does not write for these layers"),
    "pth/refused-old-format-*.pth": ("PyTorch 1.6", r"Save it again: torch\.save"),
}
# State dicts that store their layers in another order than they run: the loader does not guess, a certificate names it.
OTHER_ORDER = {
    "pth/classifier-*": ("fc1", "out"),
    "safetensors/unicode-*": ("première", "dernière"),
}
# Keras 3 does not know the settings of initialisers that Keras 2.2 wrote, nor the place of nested models in Keras 2.
NOT_RUN = ("keras/keras2.2.4-*", "keras/keras2.15.0-*-frozen.*")


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def listed(path, table):
    """Return the entry of a table for a file, or None."""
    return next((entry for pattern, entry in table.items() if fnmatch(name_of(path), pattern)), None)


def read_by_loader(path):
    return fairmend.load_network(path, "relu")


def read_by_checker(path, described=None):
    return read_model(path, described)[0]


def scores_of_runtime(path, rows, described):
    """Return what the framework of the format computes (rows, outputs); it raises what it raises for a bad file."""
    if path.suffix == ".onnx":
        return runtime(path, rows)
    inputs = torch.tensor(rows)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if path.suffix in (".h5", ".keras"):
            return np.asarray(import_keras().models.load_model(path, compile=False).predict_on_batch(rows))
        if path.suffix == ".pt2":
            return torch.export.load(path).module()(inputs).numpy()
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)
        for step in described["steps"][1:]:
            if step["kind"] == "affine":
                inputs = torch.nn.functional.linear(inputs, state[step["weight"]], state.get(step["bias"]))
            else:
                assert step["name"] == "relu"
                inputs = torch.relu(inputs)
        return inputs.numpy()


def test_every_kind_of_file_is_here():
    least = Counter(onnx=150, keras=30, pth=60, pt2=6, safetensors=40, nnet=4)
    assert Counter(path.parent.name for path in FILES) >= least
    producers = {path.name.split("-")[0] for path in FILES if path.parent.name == "onnx"}
    assert producers >= {"fairmend", "keras", "onnx", "onnxscript", "skl2onnx", "tf2onnx", "torch"}
    assert len(FINDINGS) >= 16


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_of_a_real_program_is_read_as_it_runs(path):
    if reasons := listed(path, REFUSED):
        with pytest.raises(fairmend.FairmendError, match=reasons[0]):
            read_by_loader(path)
        with pytest.raises(CheckError, match=reasons[1]):
            read_by_checker(path, LAYERS if path.suffix in STATE_DICTS else None)
        return
    if names := listed(path, OTHER_ORDER):
        network, described = None, chain(3, layer(names[0]), function("relu"), layer(names[1]))
        with pytest.raises(fairmend.FairmendError, match="takes 3 values, but the layer before it"):
            read_by_loader(path)
    else:
        network = read_by_loader(path)
        described = identify(network)["network"] if path.suffix in (*STATE_DICTS, ".pt2") else None
    if not "".join(names or ()).isascii():  # they would be a part of the condition that is printed
        with pytest.raises(CheckError, match="a name must have at most 200 letters, digits"):
            read_by_checker(path, described)
        return
    model = read_by_checker(path, described)
    assert network is None or weights_digest(model) == digest_of_network(network)
    if path.suffix in (".onnx", ".nnet"):
        form = FORMAT if path.suffix == ".onnx" else nnet.FORMAT
        assert form.disagreement(model, path.read_bytes(), path) is None
        return
    if any(fnmatch(name_of(path), pattern) for pattern in NOT_RUN):
        return
    rows = probe_inputs(model.inputs).astype(model.dtype)
    scores = scores_of_runtime(path, rows, described)
    assert any(fits(scores, low, high) for low, high in possible_outputs(model, rows))


def test_google_writes_a_real_file_in_the_same_bytes():
    for path in FILES:
        if path.suffix == ".onnx":
            content = path.read_bytes()
            assert onnx.ModelProto.FromString(content).SerializeToString() == content, path.stem


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except (fairmend.FairmendError, CheckError):
        return None


def equal(scores, found):
    return np.size(scores) == np.size(found) and np.allclose(np.ravel(scores), np.ravel(found), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.name)
def test_a_finding_is_refused_or_read_as_its_runtime_runs_it(path):
    record = path.with_name(f"{path.name}.json")
    known = json.loads(record.read_text()) if record.exists() else {"read_by": []}
    network, described = outcome(read_by_loader, path), None
    if path.suffix in (*STATE_DICTS, ".pt2"):
        described = LAYERS if network is None else identify(network)["network"]
    model = outcome(read_by_checker, path, described)
    readers = {"loader": network, "checker": model}
    assert [name for name, found in readers.items() if found is not None] == known["read_by"]
    if network is None and model is None:
        return
    rows, scores = np.array(known["inputs"], known["dtype"]), np.array(known["scores"])
    assert equal(scores, scores_of_runtime(path, rows, described))
    assert network is None or equal(scores, network.logits(rows)) or equal(scores, network.probabilities(rows))
    assert model is None or any(fits(scores, low, high) for low, high in possible_outputs(model, rows))


def test_every_record_belongs_to_a_finding():
    assert {path.with_suffix("") for path in (CORPUS / "findings").glob("*.json")} <= set(FINDINGS)
