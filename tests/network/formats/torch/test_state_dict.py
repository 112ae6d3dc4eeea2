"""State dicts: keys, biases, BatchNorm, fairmend's own note, and what is no network."""

import json
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network, load_network
from fairmend.network.formats.torch.state_dict import describe_elsewhere, to_tensors
from fairmend.network.formats.torch.steps import replay
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from support.torch_graphs import GRAPHS
from support.torch_modules import Scorer, rows, torch_output, trained_norm

# State dicts without a note are one chain, if the user says so and the keys can only be that; never guessed.


def save(state, path):
    torch.save(state, path)
    return path


@pytest.mark.parametrize("suffix", ["pth", "ckpt"])
def test_without_an_activation_a_state_dict_of_several_layers_is_refused_with_the_way_out(suffix, tmp_path):
    path = save({"state_dict": Scorer().state_dict()}, tmp_path / f"m.{suffix}")
    with pytest.raises(FairmendError, match=r"load_network\(module\).*torch\.export\.save.*--activation relu") as error:
        load_network(path)
    assert "\n" not in str(error.value)
    assert load_network(path, "relu").depth == 3


WEIGHTS = {
    "out of order": ({"last.weight": (1, 6), "first.weight": (6, 4)}, "'first' takes 4 values"),
    "a skip": ({"fc1.weight": (6, 4), "skip.weight": (1, 4), "fc2.weight": (1, 6)}, "'skip' takes 4 values"),
    "fits in another order": (
        {"a.weight": (6, 4), "late.weight": (6, 6), "early.weight": (6, 6), "b.weight": (1, 6)},
        "in another order",
    ),
    "numbers that fall": ({"fc0.weight": (6, 4), "fc2.weight": (6, 6), "fc1.weight": (6, 6)}, "in another order"),
    "an extra tensor": ({"fc1.weight": (6, 4), "scale": (1,), "fc2.weight": (1, 6)}, "is neither affine"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_keys_that_are_not_one_chain_in_order_are_refused_with_the_way_out(case, tmp_path):
    shapes, words = WEIGHTS[case]
    path = save({key: torch.ones(shape) for key, shape in shapes.items()}, tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=rf"{words}.*load_network\(module\)"):
        load_network(path, "relu")


@pytest.mark.parametrize("names", [("net.0", "net.2", "net.4"), ("fc1", "fc2", "fc3"), ("fc1", "fc2", "out")])
def test_numbers_in_the_names_give_the_order_of_layers_of_one_shape(names, tmp_path):
    path = save({f"{name}.weight": torch.ones(4, 4) for name in names}, tmp_path / "m.pth")
    assert load_network(path, "relu").names == names


def people(count=12):
    return pd.DataFrame({"sex": ["F", "M"] * (count // 2), "age": np.arange(20, 20 + count)})


SPEC = Spec.from_dict(
    {
        "feature": [
            {"name": "sex", "kind": "categorical", "categories": ["F", "M"], "encoding": "ordinal", "protected": True},
            {"name": "age", "kind": "integer", "range": [18, 60]},
        ],
        "label": {"column": "hired", "positive": 1, "score": "score"},
    }
)


def test_the_certificate_of_a_bare_linear_layer_is_valid(tmp_path):
    layer = nn.Linear(2, 1)
    layer.weight.data = torch.tensor([[0.0, 0.3]])
    network = load_network(save(layer.state_dict(), tmp_path / "m.pth"))
    certificate, _ = certificate_of_fair(network, SPEC, np.array([[0, 30], [1, 40]], np.float32))
    certificate.save(tmp_path / "c.json", tmp_path / "m.pth")
    assert fairmend.check(tmp_path / "c.json", tmp_path / "m.pth").valid


def test_scores_of_the_module_itself_show_a_wrong_activation(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    frame = people()
    X = SPEC.encode(frame, np.float32)
    frame["hired"], frame["score"] = 1, torch.sigmoid(module(torch.tensor(X))).detach().numpy()[:, 0]
    frame.to_csv(tmp_path / "people.csv", index=False)
    path = save(module.state_dict(), tmp_path / "m.pth")
    from fairmend.workflows.inputs import load_people

    load_people(tmp_path / "people.csv", SPEC, load_network(path, "tanh"))
    with pytest.raises(FairmendError, match="score"):
        load_people(tmp_path / "people.csv", SPEC, load_network(path, "relu"))


def test_rows_are_read_in_the_order_of_the_keys(tmp_path):
    module = Scorer()
    network = load_network(save(module.state_dict(), tmp_path / "m.pth"), "relu")
    with torch.no_grad():
        expected = module(torch.tensor(rows(5))).numpy()[:, 0]
    assert np.allclose(network.probabilities(rows(5)), expected, atol=1e-6)


# Descriptions of networks that came from elsewhere, and of chains, which need none.


def test_a_network_without_a_form_is_described_with_its_norms_folded():
    for name in ("resnet", "two inputs", "wide and deep", "PReLU(6)", "chunks"):
        torch.manual_seed(0)
        network = load_network(GRAPHS[name]())
        entries, tensors = describe_elsewhere(network)
        again = replay(entries, tensors, "model")
        assert isinstance(again, Network)
        X = np.abs(np.random.default_rng(0).integers(0, 3, (20, network.inputs))).astype(np.float32)
        assert np.array_equal(again.logits(X), network.logits(X)), name
        assert again.closing == network.closing


def test_a_state_dict_without_a_note_and_its_module_have_the_same_steps(tmp_path):
    layers = [trained_norm(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1)]
    module = nn.Sequential(*layers).eval()
    torch.save(module.state_dict(), tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth", "relu")
    assert network.form.description == load_network(module).form.description
    network.save(tmp_path / "n.pth")
    assert load_network(tmp_path / "n.pth").form.description == network.form.description


def test_a_scaling_has_its_numbers_themselves_in_a_note():
    """The code of a module may take them from any tensor, and divide."""
    entries = load_network(GRAPHS["buffers"]()).form.description
    scales = [entry for entry in entries if entry["kind"] == "scale"]
    assert scales
    assert all(set(entry) <= {"kind", "mean", "gain", "shift", "sources"} for entry in scales)
    assert all(isinstance(entry[part], list) for entry in scales for part in {"mean", "gain", "shift"} & set(entry))


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


INPUT = {"kind": "input", "columns": 2, "sources": []}
LAYER = {"kind": "affine", "weight": "a.weight", "bias": "a.bias", "sources": [0]}


@pytest.mark.parametrize(
    "note",
    [
        "not json",
        "[]",
        "{}",
        json.dumps({"steps": []}),
        json.dumps({"steps": [3]}),
        json.dumps({"steps": [INPUT, {**LAYER, "weight": "b.weight"}]}),
        json.dumps({"steps": [INPUT, LAYER, {"kind": "function", "name": "glu", "sources": [1]}]}),
        json.dumps({"steps": [INPUT, LAYER, {"kind": "softmax", "sources": [1]}]}),
        json.dumps({"steps": [INPUT, LAYER, {"kind": "scale", "gain": "a.bias", "sources": [1]}]}),
        json.dumps({"steps": [INPUT, LAYER, {"kind": "conv", "sources": [1]}]}),
    ],
)
def test_a_damaged_note_is_refused_rather_than_ignored(tmp_path, note):
    weights = {"a.weight": np.ones((1, 2)), "a.bias": np.ones(1)}
    save_file(weights, tmp_path / "m.safetensors", metadata={"fairmend": note})
    with pytest.raises(FairmendError, match="note"):
        load_network(tmp_path / "m.safetensors")
