"""The network in a certificate: the claim is checked about it, and it is compared with the file."""

import base64
from copy import deepcopy

import numpy as np
import pytest

import fairmend
from fairmend.network import load_network
from fairmend.network.description import to_json
from fairmend.prove import certificate as writer
from fairmend.prove.certificate import identify
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.description import contained_tensors, described_model
from fairmend_check.kernel.model import network_digest
from fairmend_check.main import main
from support.checker_cases import case, write
from support.graph_cases import graph_case, graph_content
from support.graph_files import save_tensors

CASES = ["chain", "graph"]


def made(name, folder):
    """A certificate's content, and its model file."""
    if name == "graph":
        return graph_content(), save_tensors(graph_case()[0], folder / "model.safetensors")
    found = case(activation="leaky_relu")
    found.network.save(folder / "model.onnx")
    return found.content, folder / "model.onnx"


def digest_of(described):
    """The digest of steps and tensors."""
    return network_digest(described_model(described["steps"], contained_tensors(described["tensors"]))[0])


def both_ways(folder, content, model):
    """The results of the check with the file, and of the check of the claim alone."""
    path = write(folder, content)
    return fairmend.check(path, model), fairmend.check(path, None)


def nudge(content, key):
    """Change one number of a tensor by one ulp; of a norm, which is folded into a layer and rounded, by a tenth."""
    entry = content["model"]["network"]["tensors"][key]
    values = np.frombuffer(base64.b64decode(entry["values"]), entry["dtype"]).copy()
    folded = any(key in step.values() for step in content["model"]["network"]["steps"] if step["kind"] == "batch_norm")
    values[0] = 1.1 * values[0] + 0.1 if folded else np.nextafter(values[0], np.inf, dtype=values.dtype)
    entry["values"] = base64.b64encode(values.tobytes()).decode()


@pytest.mark.parametrize("name", CASES)
def test_the_claim_is_checked_without_a_file_and_the_verdict_says_so(name, tmp_path, capsys):
    content, model = made(name, tmp_path)
    path = write(tmp_path, content)
    alone, full = fairmend.check(path, None), fairmend.check(path, model)
    assert (alone.valid, full.valid) == (True, True), (alone.reasons, full.reasons)
    assert (alone.model_read, full.model_read) == (False, True)
    assert (alone.regions, alone.covers_inference) == (full.regions, full.covers_inference)
    assert alone.least_margin == pytest.approx(full.least_margin)
    assert alone.condition.startswith("your model is the network that the certificate contains. No model file was read")
    assert main([str(path), "--kernel-only"]) == 0
    shown = capsys.readouterr().out
    assert f"VALID: {path} holds for the network that it contains." in shown
    assert "No model file was read, so that is not checked" in shown


def test_the_model_and_the_kernel_alone_exclude_each_other(tmp_path, capsys):
    content, model = made("chain", tmp_path)
    for arguments in ([], [str(model), "--kernel-only"]):
        with pytest.raises(SystemExit) as stopped:
            main([str(write(tmp_path, content)), *arguments])
        assert stopped.value.code == 2
        assert "pass either the MODEL or --kernel-only" in capsys.readouterr().err


@pytest.mark.parametrize("name", CASES)
def test_a_changed_number_is_refused_with_and_without_the_file(name, tmp_path):
    content, model = made(name, tmp_path)
    for key in content["model"]["network"]["tensors"]:
        changed = deepcopy(content)
        nudge(changed, key)
        for result in both_ways(tmp_path, changed, model):
            assert result.verdict == "invalid"
            assert "not the network of its sha256" in result.reasons[0]


@pytest.mark.parametrize("name", CASES)
def test_a_changed_network_with_digests_that_fit_is_not_that_of_the_file(name, tmp_path):
    content, model = made(name, tmp_path)
    for key in content["model"]["network"]["tensors"]:
        changed = deepcopy(content)
        nudge(changed, key)
        described = changed["model"]["network"]
        described["sha256"] = digest_of(described)
        result = fairmend.check(write(tmp_path, changed), model)
        assert result.verdict == "invalid"
        assert "network" in result.reasons[0]
        described["tensors"] = None  # the steps alone
        result = fairmend.check(write(tmp_path, changed), model)
        assert result.verdict == "invalid"
        assert "the file holds another network than the certificate" in result.reasons[0]


def test_a_changed_weight_in_the_file_is_refused(tmp_path):
    content, model = made("chain", tmp_path)
    network = load_network(model)
    head = network.head
    weight = head.weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], np.float32(9))
    network.with_affines([*network.affines[:-1], type(head)(weight, head.bias)]).save(tmp_path / "other.onnx")
    result = fairmend.check(write(tmp_path, content), tmp_path / "other.onnx")
    assert result.verdict == "invalid"
    assert "other weights" in result.reasons[0]


def test_a_step_that_reads_another_one_is_another_network(tmp_path):
    content, model = made("graph", tmp_path)
    steps = content["model"]["network"]["steps"]
    chosen = next(number for number, step in enumerate(steps) if step.get("indices") == [2, 3])
    content = deepcopy(content)
    content["model"]["network"]["steps"][chosen]["indices"] = [3, 2]
    assert "not the network of its sha256" in fairmend.check(write(tmp_path, content), model).reasons[0]


@pytest.mark.parametrize("suffix", ["onnx", "pth", "safetensors"])
def test_a_large_network_has_its_steps_alone_and_needs_the_file(tmp_path, monkeypatch, suffix):
    found = case(activation="leaky_relu")  # kept for other tests, so before the limit is lower
    monkeypatch.setattr(writer, "_MOST_BYTES", 100)
    content, model = found.content, tmp_path / f"model.{suffix}"
    found.network.save(model)
    content["model"] |= identify(load_network(model))
    assert content["model"]["network"]["tensors"] is None
    assert len(content["model"]["network"]["steps"]) == 6
    path = write(tmp_path, content)
    assert fairmend.check(path, model).valid
    alone = fairmend.check(path, None)
    assert alone.verdict == "unreadable"
    assert "has no tensors of its network, because they are large" in alone.reasons[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda network: network.update(steps=None), "steps must be a list"),
        (lambda network: network.update(unused=None), "unused must be a list"),
        (lambda network: network.pop("tensors"), 'has no "tensors"'),
        (lambda network: network.update(extra=1), "extra"),
        (lambda network: network.update(sha256="0"), "not a sha256"),
        (lambda network: network["steps"].pop(0), "kind is 'affine', which is not allowed there"),
        (lambda network: network["steps"][1].update(kind="magic"), "kind is 'magic'"),
        (lambda network: network["steps"][1].update(sources=[1]), "must be numbers of steps before it"),
        (lambda network: network["steps"][1].update(sources=[]), "has 0 entries"),
        (lambda network: network["steps"][1].update(weight="t99"), "which is not there"),
        (lambda network: network["steps"][1].pop("bias"), 'has no "bias"'),
        (lambda network: network["steps"][1].update(bias=None), "which no step names"),
        (lambda network: network["steps"][0].update(columns=0), "it must be 1 to"),
        (
            lambda network: network["steps"].append({"kind": "function", "name": "sigmoid", "sources": [5]}),
            "the logits",
        ),
        (lambda network: network["tensors"]["layers.0.weight"].update(shape=[2, 2]), "does not hold exactly"),
        (lambda network: network["tensors"]["layers.0.weight"].update(dtype="int8"), "must be float32 or float64"),
        (lambda network: network["tensors"].update(t9=network["tensors"]["layers.0.weight"]), "which no step names"),
        (lambda network: network["tensors"]["layers.0.weight"].update(shape=[2**20, 2**20]), "more than"),
    ],
)
def test_a_network_that_is_not_one_is_refused(change, reason, tmp_path):
    content, model = made("chain", tmp_path)
    change(content["model"]["network"])
    for result in both_ways(tmp_path, content, model):
        assert not result.valid
        assert reason in result.reasons[0]


@pytest.mark.parametrize("name", CASES)
def test_any_change_of_a_step_is_refused_or_another_network(name):
    network = graph_case()[0] if name == "graph" else case(activation="leaky_relu").network
    described = to_json(network, 2**20)
    digest = network_digest(kernel_model(network))
    assert digest_of(described) == digest
    wrong = (None, True, -1, 0, 3, 1e30, "", "x", [], [0], [99], [[0]], {}, {"a": 1})
    for number, step in enumerate(described["steps"]):
        for part in step:
            for value in wrong:
                changed = deepcopy(described)
                changed["steps"][number][part] = value
                if value == step[part] and type(value) is type(step[part]):
                    continue
                try:
                    assert digest_of(changed) != digest
                except CheckError:
                    continue


def repeating(**more):
    """Steps with a layer that repeats its weights, on tensors that fit it."""
    random = np.random.default_rng(0)
    tensors = {"W": random.normal(size=(2, 3, 2)), "b": random.normal(size=6), "c": random.normal(size=(1, 1, 4))}
    tensors["own"] = random.normal(size=(24,))
    layer = {"kind": "affine", "weight": "W", "bias": "b", "blocks": 2, "tokens": 4, "sources": [0]} | more
    head = {"kind": "affine", "weight": "head", "bias": None, "sources": [2]}
    rows = 4 if layer["weight"] is None else 24
    tensors["head"] = random.normal(size=(1, rows))
    relu = {"kind": "function", "name": "relu", "sources": [1]}
    layer = {key: value for key, value in layer.items() if value != "left out"}
    steps = [{"kind": "input", "columns": 16, "sources": []}, layer, relu, head]
    return steps, {key: tensor.astype(np.float32) for key, tensor in tensors.items()}


@pytest.mark.parametrize(("bias", "transposed"), [("b", False), (None, True), ("own", False)])
def test_a_layer_repeats_its_weights_over_tokens_and_in_blocks(bias, transposed):
    steps, tensors = repeating(bias=bias, transposed=transposed)
    layer = described_model(steps, tensors)[0].nodes[1].operation
    x = np.random.default_rng(1).normal(size=16)
    weight = tensors["W"].reshape(2, 2, 3).swapaxes(1, 2) if transposed else tensors["W"]
    expected = np.einsum("boi,bti->bto", weight.astype(float), x.reshape(2, 4, 2))
    if bias is not None:
        expected += tensors[bias].reshape((2, 1, 3) if bias == "b" else (2, 4, 3))
    assert np.allclose(layer.weight @ x + layer.bias, expected.reshape(-1))
    assert np.count_nonzero(layer.weight) == 4 * 12


def test_a_layer_without_weights_gives_its_bias():
    steps, tensors = repeating(weight=None, bias="c", blocks="left out", tokens="left out")
    layer = described_model(steps, tensors)[0].nodes[1].operation
    assert not layer.weight.any()
    assert layer.bias.tolist() == tensors["c"].reshape(-1).tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokens": 3}, "for 16 columns in 6 groups"),
        ({"blocks": 0}, "blocks is 0"),
        ({"tokens": True}, "tokens"),
        ({"bias": "c"}, "a bias of 4 numbers for 8 groups of 3"),
        ({"blocks": 8, "tokens": 1}, "weights of shape"),
        ({"weight": None}, "neither weights nor a bias alone"),
        ({"weight": None, "bias": None, "blocks": "left out", "tokens": "left out"}, "neither weights nor a bias"),
    ],
)
def test_weights_that_do_not_repeat_so_are_refused(change, reason):
    with pytest.raises(CheckError, match=reason):
        described_model(*repeating(**change))


def test_a_matrix_that_is_too_large_is_refused_before_it_is_written_out():
    tensors = {"W": np.ones((1, 1), np.float32)}
    layer = {"kind": "affine", "weight": "W", "bias": None, "tokens": 2**13, "sources": [0]}
    steps = [{"kind": "input", "columns": 2**13, "sources": []}, layer, {**layer, "sources": [1]}]
    with pytest.raises(CheckError, match="too large"):
        described_model(steps, tensors)
