""".pth files: checkpoints and notes are read, pickles are never run."""

import io
import os
import pickle
import sys
import types
import warnings
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network, load_network
from fairmend.network.formats.torch.pth import check_pickles, new_checkpoint
from support.strategies import random_network
from support.torch_modules import Scorer, rows, torch_output, trained_norm

# Pickles that would keep PyTorch busy for ever are refused; all others are left to PyTorch.


def nested_key(levels, width=2):
    """Return a pickle of a dict whose key is a tuple of tuples; each level names the one below `width` times."""
    key = (1,)
    for _ in range(levels):
        key = (key,) * width
    pickled = pickle.dumps({"a": key}, protocol=2)
    name = pickled.index(b"X\1\0\0\0a")
    value = name + 8
    return pickled[:name] + pickled[value:-2] + b"X\1\0\0\0as."


def archive(data):
    buffer = io.BytesIO()
    torch.save({"a.weight": torch.zeros(1, 2)}, buffer)
    with zipfile.ZipFile(buffer) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        for name, content in {**members, "archive/data.pkl": data}.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [archive(nested_key(60)), archive(nested_key(6, 50)), nested_key(60)],
    ids=["deep, in an archive", "wide, in an archive", "deep"],  # an archive contains the time
)
def test_a_key_of_nested_tuples_is_refused_before_it_is_hashed(tmp_path, content):
    path = tmp_path / "model.pth"
    path.write_bytes(content)
    with pytest.raises(FairmendError, match="nested tuples of more than 100,000 parts"):
        fairmend.load_network(path)


def test_a_key_in_a_later_pickle_of_an_old_file(tmp_path):
    path = tmp_path / "model.pth"
    torch.save({"a.weight": torch.zeros(1, 2)}, path, _use_new_zipfile_serialization=False)
    first = path.read_bytes().index(b".") + 1
    path.write_bytes(path.read_bytes()[:first] + nested_key(60))
    with pytest.raises(FairmendError, match="nested tuples"):
        fairmend.load_network(path)


def test_checkpoints_pass(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 3)).sum().backward()
    optimizer.step()
    content = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "shape": torch.Size([3, 2])}
    torch.save(content, tmp_path / "model.pth")
    assert fairmend.load_network(tmp_path / "model.pth", "relu").depth == 2


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\x80\x02.", b"\x80\x02u.", b"\x80\x02h\x05.", b"R"])
def test_damaged_files_are_left_to_pytorch(tmp_path, content):
    (tmp_path / "model.pth").write_bytes(content)
    check_pickles(tmp_path / "model.pth")
    if content:
        with pytest.raises(FairmendError, match=r"not a readable PyTorch file|pickled object"):
            fairmend.load_network(tmp_path / "model.pth")


# Modules of Lightning in memory are saved as checkpoints that load_from_checkpoint reads.


class LightningModule(nn.Module):
    """What fairmend reads of it."""

    hparams = types.MappingProxyType({"width": 3, "sizes": [1, 2], "layer": nn.ReLU})

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))

    def forward(self, x):
        return self.net(x)


LightningModule.__module__ = "lightning.pytorch.core.module"


@pytest.fixture
def lightning(monkeypatch):
    package = types.ModuleType("lightning")
    package.__version__ = "2.6.6"
    monkeypatch.setitem(sys.modules, "lightning", package)


@pytest.mark.usefixtures("lightning")
def test_a_checkpoint_has_the_version_and_the_plain_hyperparameters(tmp_path):
    network = load_network(LightningModule())
    network.save(tmp_path / "m.ckpt")
    found = torch.load(tmp_path / "m.ckpt", weights_only=True)
    assert found["pytorch-lightning_version"] == "2.6.6"
    assert found["hyper_parameters"] == {"width": 3, "sizes": [1, 2]}
    LightningModule().load_state_dict(found["state_dict"], strict=True)
    assert load_network(tmp_path / "m.ckpt") == network


def test_a_plain_module_has_a_state_dict_alone():
    assert new_checkpoint(nn.Linear(2, 1)) == {"state_dict": None}
    assert new_checkpoint(None) == {"state_dict": None}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("AC1", "13 → 16 relu → 8 relu → 1 logit"),
        ("BM0", "16 → 64 relu → 16 relu → 1 logit"),
        ("GC1", "20 → 50 relu → 1 logit"),
        ("compas1", "6 → 16 relu → 8 relu → 1 logit"),
    ],
)
def test_the_four_models_of_the_paper_load(shared, name, shape):
    network = load_network(shared / "models" / f"{name}.pth", "relu")
    assert repr(network) == f"Network({shape}, float32)"
    module = Scorer([network.inputs, *(len(a.bias) for a in network.affines)])
    module.load_state_dict(torch.load(shared / "models" / f"{name}.pth", map_location="cpu", weights_only=True))
    X = rows(network.inputs)
    assert np.allclose(network.probabilities(X), torch_output(module, X)[:, 0], atol=1e-6)


def test_a_checkpoint_with_two_state_dicts_is_refused(tmp_path):
    state = Scorer().state_dict()
    torch.save({"state_dict": state, "model": state}, tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=r"holds two state dicts, 'state_dict' and 'model'; save the weights alone"):
        load_network(tmp_path / "m.pth")


@pytest.mark.parametrize("nested", [None, "state_dict", "model_state_dict", "model"])
def test_a_saved_network_loads_back_into_the_users_module(tmp_path, nested):
    module = Scorer()
    state = module.state_dict()
    torch.save(state if nested is None else {nested: state, "epoch": 3}, tmp_path / "theirs.pth")
    network = load_network(tmp_path / "theirs.pth", "relu")
    assert network.names == ("layers.0", "layers.1", "layers.2")
    changed = network.with_affines([*network.affines[:-1], random_network(np.random.default_rng(0), 3, []).head])
    changed.save(tmp_path / "ours.pth")
    module.load_state_dict(torch.load(tmp_path / "ours.pth", weights_only=True), strict=True)
    X = rows(5)
    assert np.allclose(changed.probabilities(X), torch_output(module, X)[:, 0], atol=1e-6)
    # What torch then saves has lost fairmend's note, and nothing else.
    torch.save(module.state_dict(), tmp_path / "again.pth")
    assert load_network(tmp_path / "again.pth", "relu") == changed


def test_a_pickled_module_is_refused_with_what_would_work(tmp_path):
    torch.save(Scorer(), tmp_path / "m.pth")
    way_out = r"run code from the file.*load_network\(model\).*torch\.save\(model\.state_dict\(\), path\).*ONNX"
    with pytest.raises(FairmendError, match=rf"a pickled object \(support\.torch_modules\.Scorer\).*{way_out}"):
        load_network(tmp_path / "m.pth")
    torch.save(nn.Sequential(nn.Linear(1, 1)), tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=r"\(torch\.nn\.modules\.container\.Sequential\)"):
        load_network(tmp_path / "m.pth")


def test_a_torchscript_archive_is_refused_by_name(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, its archives are still about
        torch.jit.save(torch.jit.trace(Scorer(), torch.ones(1, 5)), tmp_path / "m.pt")
    with pytest.raises(FairmendError, match="TorchScript archive"):
        load_network(tmp_path / "m.pt")


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_malicious_pickle_is_not_executed(tmp_path, legacy):
    target = tmp_path / "executed"
    if legacy:
        (tmp_path / "m.pth").write_bytes(pickle.dumps(Bomb(target)))
    else:
        torch.save({"a.weight": torch.ones(1, 1), "x": Bomb(target)}, tmp_path / "m.pth")
    with pytest.raises(FairmendError, match="run code from the file"):
        load_network(tmp_path / "m.pth")
    assert not target.exists()


def test_a_note_that_is_no_text_is_not_taken_for_one(tmp_path):
    state = OrderedDict({"a.weight": torch.ones(1, 2)})
    state._metadata = OrderedDict(fairmend={"version": 1})
    torch.save(state, tmp_path / "m.pth")
    assert isinstance(load_network(tmp_path / "m.pth"), Network)


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("read_from", ["module", "file"])
def test_a_changed_network_loads_into_the_users_module_with_its_batch_norm(suffix, bias, read_from, tmp_path):
    module = nn.Sequential(nn.Linear(4, 6, bias=bias), trained_norm(6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 1)).eval()
    path = tmp_path / f"m.{suffix}"
    state = module.state_dict()
    (torch.save if suffix == "pth" else save_file)(state, path)
    network = load_network(module) if read_from == "module" else load_network(path, "relu")
    changed = network.with_affines([Affine(a.weight * 1.5, a.bias + 0.25) for a in network.affines])
    changed.save(path)
    saved = torch.load(path, weights_only=True) if suffix == "pth" else load_file(path)
    kinds = {key: (tensor.shape, tensor.dtype) for key, tensor in state.items()}
    assert {key: (tensor.shape, tensor.dtype) for key, tensor in saved.items()} == kinds
    assert saved["1.num_batches_tracked"] == state["1.num_batches_tracked"]
    module.load_state_dict(saved, strict=True)
    assert load_network(path).affines == changed.affines
    assert np.allclose(torch_output(module, rows(4))[:, 0], changed.logits(rows(4)), atol=1e-5)


@pytest.mark.parametrize("content", [b"\0" * 64, b"not a pickle at all", b"\x80\x02."])
def test_a_damaged_pickle_is_called_that_and_not_an_object(tmp_path, content):
    path = tmp_path / "model.pth"
    path.write_bytes(content)
    with pytest.raises(FairmendError, match=r"not a readable PyTorch file \([^0-9]+\)"):
        load_network(path)


def test_the_format_from_before_pytorch_1_6_is_refused_as_the_checker_refuses_it(tmp_path):
    state, old = torch.nn.Linear(3, 1).state_dict(), tmp_path / "old.pth"
    torch.save(state, old, _use_new_zipfile_serialization=False)
    with pytest.raises(FairmendError, match=r"not a \.pth file of PyTorch 1\.6 or later.*Save it again"):
        load_network(old)
    torch.save(torch.load(old, weights_only=True), old)
    assert load_network(old).inputs == 3
