"""State dicts in .pth and .safetensors: keys, BatchNorm, the user's module, pickles that are never run."""

import json
import os
import pickle
import warnings
from collections import OrderedDict
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network, load_network
from support.strategies import random_network


class Scorer(nn.Module):
    """As the original implementation's models are built."""

    def __init__(self, widths=(5, 7, 3, 1)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.sigmoid = nn.Sigmoid()

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.sigmoid(self.layers[-1](x))


def rows(width: int, count: int = 40) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(count, width)).astype(np.float32)


def torch_output(module: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.eval()(torch.tensor(X)).numpy()


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
    network = load_network(shared / "models" / f"{name}.pth")
    assert repr(network) == f"Network({shape}, float32)"
    module = Scorer([network.inputs, *(len(a.bias) for a in network.affines)])
    module.load_state_dict(torch.load(shared / "models" / f"{name}.pth", map_location="cpu", weights_only=True))
    X = rows(network.inputs)
    assert np.allclose(network.probabilities(X), torch_output(module, X)[:, 0], atol=1e-6)


@pytest.mark.parametrize("nested", [None, "state_dict", "model_state_dict"])
def test_a_saved_network_loads_back_into_the_users_module(tmp_path, nested):
    module = Scorer()
    state = module.state_dict()
    torch.save(state if nested is None else {nested: state, "epoch": 3}, tmp_path / "theirs.pth")
    network = load_network(tmp_path / "theirs.pth")
    assert network.names == ("layers.0", "layers.1", "layers.2")
    changed = network.with_affines([*network.affines[:-1], random_network(np.random.default_rng(0), 3, []).head])
    changed.save(tmp_path / "ours.pth")
    module.load_state_dict(torch.load(tmp_path / "ours.pth", weights_only=True), strict=True)
    X = rows(5)
    assert np.allclose(changed.probabilities(X), torch_output(module, X)[:, 0], atol=1e-6)
    # What torch then saves has lost fairmend's note, and nothing else.
    torch.save(module.state_dict(), tmp_path / "again.pth")
    assert load_network(tmp_path / "again.pth") == changed


def test_the_activation_argument_says_what_a_state_dict_does_not(tmp_path):
    torch.save(Scorer().state_dict(), tmp_path / "m.pth")
    assert load_network(tmp_path / "m.pth", "tanh").activations == (Activation("tanh"),) * 2
    assert load_network(tmp_path / "m.pth", Activation("leaky_relu", 0.25)).activations[0].slope == 0.25
    with pytest.raises(FairmendError, match="unknown activation 'elu'"):
        load_network(tmp_path / "m.pth", "elu")


def test_a_missing_bias_is_zero_and_a_bare_layer_has_no_prefix(tmp_path):
    layer = nn.Linear(3, 2, bias=False)
    torch.save(layer.state_dict(), tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth")
    assert network.names == ("",)
    assert network.head.bias.tolist() == [0, 0]
    network.save(tmp_path / "n.pth")
    nn.Linear(3, 2).load_state_dict(torch.load(tmp_path / "n.pth", weights_only=True))


def trained_norm(width: int, **kwargs) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(width, **kwargs)
    rng = torch.Generator().manual_seed(width)
    norm.running_mean = torch.randn(width, generator=rng)
    norm.running_var = torch.rand(width, generator=rng) + 0.1
    if norm.affine:
        norm.weight.data = torch.randn(width, generator=rng)
        norm.bias.data = torch.randn(width, generator=rng)
    return norm


NORMED = {
    "after": lambda: nn.Sequential(nn.Linear(4, 6), trained_norm(6), nn.ReLU(), nn.Linear(6, 2)),
    "before": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), trained_norm(6), nn.Linear(6, 2)),
    "first": lambda: nn.Sequential(trained_norm(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)),
    "last": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), trained_norm(2)),
    "plain": lambda: nn.Sequential(
        nn.Linear(4, 6, bias=False), trained_norm(6, affine=False), nn.ReLU(), nn.Dropout(), nn.Linear(6, 2)
    ),
}


@pytest.mark.parametrize("place", NORMED)
def test_batch_norm_is_folded_where_its_number_puts_it(place, tmp_path):
    module = NORMED[place]()
    torch.save(module.state_dict(), tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth")
    assert network.depth == 2
    assert np.allclose(network.logits(rows(4)), torch_output(module, rows(4)), atol=1e-5)


def test_batch_norm_that_could_stand_on_either_side_is_refused(tmp_path):
    net = OrderedDict(fc1=nn.Linear(4, 6), bn1=trained_norm(6), act=nn.ReLU(), fc2=nn.Linear(6, 2))
    torch.save(nn.Sequential(net).state_dict(), tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=r"'bn1' comes before or after.*'fc1' and 'fc2'.*ONNX"):
        load_network(tmp_path / "m.pth")
    identity = load_network(tmp_path / "m.pth", "identity")
    del net["act"]
    assert np.allclose(identity.logits(rows(4)), torch_output(nn.Sequential(net), rows(4)), atol=1e-5)


def test_safetensors_of_others_are_read_in_numbered_order(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [4] * 11, 1)
    tensors = {}
    for i, layer in enumerate(network.affines):
        tensors |= {f"layers.{i}.weight": layer.weight, f"layers.{i}.bias": layer.bias}
    save_file(tensors, tmp_path / "m.safetensors")
    assert load_network(tmp_path / "m.safetensors") == network


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"conv.weight": torch.ones(2, 1, 3, 3)}, "'conv' is neither affine nor BatchNorm1d"),
        ({"norm.weight": torch.ones(2), "norm.bias": torch.ones(2)}, "'norm' is neither"),
        ({"a.weight": torch.ones(2, 3), "a.scale": torch.ones(1)}, "'a' is neither.*a.scale"),
        ({"a.weight": torch.ones(2, 3), "b.weight": torch.ones(1, 5)}, "'b' takes 5.*gives 2"),
        ({"a.weight": torch.ones(2, 3).half()}, "a.weight is float16.*float32 or float64"),
        ({"a.weight": torch.ones(2, 3).bfloat16()}, "a.weight is bfloat16"),
        ({"a.weight": torch.full((1, 1), float("nan"))}, "layer 'a'.*not finite"),
        ({"a.weight": torch.ones(1, 2), "a.bias": torch.ones(2)}, r"layer 'a': the bias has shape \(2,\)"),
        ({"a.weight": torch.ones(1, 2, dtype=torch.int64)}, "layer 'a': the weight is int64"),
        ({"a.weight": torch.ones(1, 2).to_sparse()}, "a.weight is no plain dense tensor"),
        ({"a.weight": torch.ones(1, 2), "epoch": 3}, "'epoch' is int, not a tensor"),
        ({"b.running_mean": torch.ones(2), "b.running_var": torch.ones(2)}, "no affine layer"),
        (
            {
                "a.weight": torch.ones(3, 2),
                "b.running_mean": torch.ones(2),
                "b.running_var": torch.ones(2),
            },
            "'b'.*is 2 wide; the affine layer beside it 3",
        ),
        (
            {
                "a.weight": torch.ones(3, 2),
                "b.running_mean": torch.ones(3),
                "b.running_var": -torch.ones(3),
            },
            "'b'.*variance that is not positive",
        ),
        ([torch.ones(2, 2)], "holds list"),
        (torch.ones(2, 2), "holds Tensor"),
        ({}, "holds dict"),
        (3, "holds int"),
    ],
)
def test_what_is_no_mlp_is_refused_by_key(tmp_path, state, words):
    torch.save(state, tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=words):
        load_network(tmp_path / "m.pth")


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_safetensors_of_other_dtypes_are_refused(tmp_path, dtype):
    save_file({"a.weight": np.ones((1, 2), dtype)}, tmp_path / "m.safetensors")
    with pytest.raises(FairmendError, match=np.dtype(dtype).name):
        load_network(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "note",
    [
        "not json",
        "[]",
        "{}",
        json.dumps({"version": 2}),
        json.dumps({"version": 1, "names": ["b"], "activations": [], "closing": "none"}),
        json.dumps({"version": 1, "names": ["a"], "activations": [{"name": "elu"}], "closing": "none"}),
        json.dumps({"version": 1, "names": ["a"], "activations": [], "closing": "softmax"}),
    ],
)
def test_a_damaged_note_is_refused_rather_than_ignored(tmp_path, note):
    weights = {"a.weight": np.ones((1, 2)), "a.bias": np.ones(1)}
    save_file(weights, tmp_path / "m.safetensors", metadata={"fairmend": note})
    with pytest.raises(FairmendError, match="note"):
        load_network(tmp_path / "m.safetensors")


def test_a_pickled_module_is_refused_with_what_would_work(tmp_path):
    torch.save(Scorer(), tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=r"execute code.*model\.state_dict\(\).*ONNX"):
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
    with pytest.raises(FairmendError, match="execute code from the file"):
        load_network(tmp_path / "m.pth")
    assert not target.exists()


def test_a_note_that_is_no_text_is_not_taken_for_one(tmp_path):
    state = OrderedDict({"a.weight": torch.ones(1, 2)})
    state._metadata = OrderedDict(fairmend={"version": 1})
    torch.save(state, tmp_path / "m.pth")
    assert isinstance(load_network(tmp_path / "m.pth"), Network)
