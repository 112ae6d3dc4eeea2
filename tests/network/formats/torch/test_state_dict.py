"""State dicts: keys, biases, BatchNorm, fairmend's own note, and what is no network."""

import json
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, load_network
from fairmend.network.formats.torch.state_dict import to_tensors
from support.torch_modules import Scorer, rows, torch_output, trained_norm


def test_the_activation_argument_says_what_a_state_dict_does_not(tmp_path):
    torch.save(Scorer().state_dict(), tmp_path / "m.pth")
    assert load_network(tmp_path / "m.pth", "tanh").activations == (Activation("tanh"),) * 2
    assert load_network(tmp_path / "m.pth", Activation("leaky_relu", 0.25)).activations[0].slope == 0.25
    with pytest.raises(FairmendError, match="unknown activation 'glu'"):
        load_network(tmp_path / "m.pth", "glu")


def test_a_missing_bias_is_zero_and_a_bare_layer_has_no_prefix(tmp_path):
    layer = nn.Linear(3, 2, bias=False)
    torch.save(layer.state_dict(), tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth")
    assert network.names == ("",)
    assert network.head.bias.tolist() == [0, 0]
    network.save(tmp_path / "n.pth")
    nn.Linear(3, 2, bias=False).load_state_dict(torch.load(tmp_path / "n.pth", weights_only=True))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".ckpt"])
def test_a_state_dict_without_a_bias_stays_without(suffix, tmp_path):
    module = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    network = load_network(module)
    network.save(tmp_path / f"m{suffix}")
    network = load_network(tmp_path / f"m{suffix}")
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 1) for a in network.affines])
    changed.save(tmp_path / f"n{suffix}")
    assert load_network(tmp_path / f"n{suffix}") == changed
    assert set(to_tensors(changed)) == {"0.weight", "2.weight"}
    assert not changed.head.bias.any()


def test_a_file_with_as_many_tensors_as_plain_layers_have_keeps_its_norm(tmp_path):
    """Three layers without a bias and a norm without a gain have six tensors; so have three plain layers."""
    norm = trained_norm(2, affine=False)
    layers = [nn.Linear(3, 2, bias=False), norm, nn.ReLU(), nn.Linear(2, 2, bias=False), nn.ReLU()]
    module = nn.Sequential(*layers, nn.Linear(2, 1, bias=False))
    network = load_network(module.eval())
    network.save(tmp_path / "m.pth")
    assert load_network(tmp_path / "m.pth") == network
    module.load_state_dict(torch.load(tmp_path / "m.pth", weights_only=True), strict=True)


def test_a_network_with_a_bias_does_not_fit_a_state_dict_without_one(tmp_path, caplog):
    """with_affines leaves such a bias out; with_operations takes any layer."""
    torch.save(nn.Linear(3, 2, bias=False).state_dict(), tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth")
    biased = network.with_operations({1: Affine(network.head.weight, network.head.bias + 1)})
    biased.save(tmp_path / "n.pth")
    assert "the module has no tensor 'bias'; the file keeps the weights, but not the form" in caplog.text
    assert load_network(tmp_path / "n.pth") == biased


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
    network = load_network(tmp_path / "m.pth", "relu")
    assert network.depth == 2
    assert np.allclose(network.logits(rows(4)), torch_output(module, rows(4)), atol=1e-5)


def test_batch_norm_that_could_stand_on_either_side_is_refused(tmp_path):
    net = OrderedDict(fc1=nn.Linear(4, 6), bn1=trained_norm(6), act=nn.ReLU(), fc2=nn.Linear(6, 2))
    torch.save(nn.Sequential(net).state_dict(), tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=r"'bn1' comes before or after.*'fc1' and 'fc2'.*ONNX"):
        load_network(tmp_path / "m.pth", "relu")
    identity = load_network(tmp_path / "m.pth", "identity")
    del net["act"]
    assert np.allclose(identity.logits(rows(4)), torch_output(nn.Sequential(net), rows(4)), atol=1e-5)


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
        ({"a.weight": torch.ones(1, 2).to_sparse()}, "a.weight is not a plain dense tensor"),
        ({"a.weight": torch.ones(1, 2), "epoch": 3}, "'epoch' is int, not a tensor"),
        ({"b.running_mean": torch.ones(2), "b.running_var": torch.ones(2)}, "no affine layer"),
        (
            {
                "a.weight": torch.ones(3, 2),
                "b.running_mean": torch.ones(2),
                "b.running_var": torch.ones(2),
            },
            "'b'.*is 2 wide, and the affine layer beside it 3",
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


@pytest.mark.parametrize(
    "note",
    [
        "not json",
        "[]",
        "{}",
        json.dumps({"version": 2}),
        json.dumps({"version": 1, "names": ["b"], "activations": [], "closing": "none"}),
        json.dumps({"version": 1, "names": ["a"], "activations": [{"name": "glu"}], "closing": "none"}),
        json.dumps({"version": 1, "names": ["a"], "activations": [], "closing": "softmax"}),
    ],
)
def test_a_damaged_note_is_refused_rather_than_ignored(tmp_path, note):
    weights = {"a.weight": np.ones((1, 2)), "a.bias": np.ones(1)}
    save_file(weights, tmp_path / "m.safetensors", metadata={"fairmend": note})
    with pytest.raises(FairmendError, match="note"):
        load_network(tmp_path / "m.safetensors")
