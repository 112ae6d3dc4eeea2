"""State dicts of graphs: what the module must compute is the condition, and no forgery of it is VALID unnoticed."""

import re

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import stream_random_neighbours
from fairmend.prove.certificate import certificate_of_blindness, weights_digest
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.state_dict import model_of_tensors
from support.checker_cases import content_of, write
from support.graph_cases import SPEC, graph_case, graph_content, residual_network
from support.graph_files import save_tensors, tensors_of


def built(steps, tensors=None):
    """The model of these steps."""
    return model_of_tensors(tensors_of(graph_case()[0]) if tensors is None else tensors, {"steps": steps, "unused": []})


def signed(content):
    """Do what a forger would do with other steps: give them the digest of what they compute."""
    described = content["model"]["network"]
    digest = network_digest(built(described["steps"]))
    return {**content, "model": {**content["model"], "network": {**described, "sha256": digest}}}


@pytest.fixture
def model(tmp_path):
    network, certificate, rows = graph_case()
    assert len(rows) >= 10
    assert certificate.count == len(rows)
    return save_tensors(network, tmp_path / "model.safetensors")


def test_a_graph_holds_on_the_condition_that_the_module_computes_it(model, tmp_path):
    _, certificate, _ = graph_case()
    certificate.save(tmp_path / "c.json", model)
    result = fairmend.check(tmp_path / "c.json", model)
    assert result.valid, result.reasons
    assert result.covers_inference
    for part in (
        'v2 = row v1 of "jobs.weight"',
        'v6 = "bn" of v5 (torch.nn.BatchNorm1d with eps = 1e-05 and affine = False)',
        "v7 = gelu of v6",
        "v9 = v5 + v8",
        'v10 = "slopes" of v9 (torch.nn.PReLU)',
        "v11 = columns 2, 3 of x",
        "v12 = v10, v11 side by side",
        'v13 = "head" of v12',
        "Its output is v13, and only a sigmoid may come after it.",
        "It must be in evaluation mode.",
    ):
        assert part in result.condition


def test_tensors_and_steps_fit_together(model):
    network = graph_case()[0]
    steps, tensors = graph_content()["model"]["network"]["steps"], tensors_of(network)
    assert built(steps, tensors).outputs == 1
    assert weights_digest(network) == graph_content()["model"]["weights_sha256"]
    for name, tensor, reason in (
        ("jobs.weight", None, 'names the tensor "jobs.weight", which is not there'),
        ("other", np.ones(1, np.float32), 'contains the tensor "other"'),
        ("slopes.weight", np.ones(3, np.float32), "3 numbers for 4 columns"),
        ("bn.running_var", np.ones(3, np.float32), "is not a batch normalisation of 4 units"),
        ("first.weight", np.ones((4, 5), np.int64), "holds whole numbers"),
        ("first.weight", np.ones((4, 4), np.float32), r"shape \(4, 4\) reads 5 values"),
    ):
        changed = {key: value for key, value in {**tensors, name: tensor}.items() if value is not None}
        with pytest.raises(CheckError, match=reason):
            built(steps, changed)


@pytest.mark.parametrize(
    ("step", "change", "reason"),
    [
        (0, {"kind": "affine"}, "not allowed there"),
        (0, {"columns": 0}, "must be 1 to"),
        (5, {"kind": "input"}, "not allowed there"),
        (5, {"kind": "conv"}, "not allowed there"),
        (5, {"sources": [5]}, "must be numbers of steps before it"),
        (5, {"sources": [13]}, "must be numbers of steps before it"),
        (5, {"sources": [-1]}, "must be numbers of steps before it"),
        (5, {"sources": [True]}, "must be numbers of steps before it"),
        (5, {"sources": [4, 4]}, "not what affine reads"),
        (5, {"bias": 3}, "bias must be a text"),
        (5, {"transposed": 1}, "transposed must be"),
        (5, {"transposed": True}, "reads 5 values"),
        (5, {"extra": 1}, "unknown key"),
        (6, {"epsilon": -1.0}, "negative epsilon"),
        (7, {"name": "Gelu"}, "not the name of a function"),
        (10, {"parameters": "head.weight"}, "has 6 numbers for 4 columns"),
        (9, {"sources": [5]}, "not what sum reads"),
        (11, {"indices": [0.5]}, "must be column numbers"),
    ],
)
def test_steps_that_are_not_possible_are_refused(step, change, reason):
    steps = graph_content()["model"]["network"]["steps"]
    steps[step] |= change
    with pytest.raises(CheckError, match=reason):
        built(steps)


def test_the_condition_says_a_slope_of_0_too(model):
    """LeakyReLU without a number would be that of PyTorch, with the slope 0.01."""
    steps = graph_content()["model"]["network"]["steps"]
    steps[7] |= {"name": "leaky_relu", "slope": 0.0}
    assert "v7 = leaky_relu(0.0) of v6;" in built(steps).condition


def test_the_condition_says_the_numbers_of_a_scale():
    steps = [
        {"kind": "input", "sources": [], "columns": 2},
        {"kind": "scale", "sources": [0], "mean": [0.5], "gain": [2, 0.1], "shift": [0]},
        {"kind": "affine", "sources": [1], "weight": "a.weight", "bias": None},
    ]
    condition = built(steps, {"a.weight": np.eye(2)}).condition
    assert "v1 = (x - [0.5]) [2.0, 0.1] + [0.0];" in condition


def test_the_condition_says_how_a_layer_repeats_its_weights():
    steps = [
        {"kind": "input", "sources": [], "columns": 4},
        {"kind": "affine", "sources": [0], "weight": "fc.weight", "bias": "fc.bias", "tokens": 2},
        {"kind": "affine", "sources": [0], "weight": None, "bias": "cls"},
        {"kind": "sum", "sources": [1, 2]},
        {"kind": "affine", "sources": [3], "weight": "own", "bias": None, "blocks": 2},
        {"kind": "affine", "sources": [4], "weight": "a.weight", "bias": None},
    ]
    tensors = {"fc.weight": np.eye(2), "fc.bias": np.ones(2), "cls": np.ones((1, 4)), "own": np.ones((2, 2))}
    condition = built(steps, {**tensors, "a.weight": np.ones((1, 2))}).condition
    repeated = 'x in 1 blocks of 2 groups of columns each, every group times its block of "fc.weight" transposed'
    assert f'v1 = {repeated}, plus "fc.bias";' in condition
    assert 'v2 = "cls" for every row;' in condition
    assert 'its block of "own" as (blocks, out, in);' in condition


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_a_choice_of_probabilities_is_not_an_output(function):
    """The condition would be about a module with one output, and the claim about one with two."""
    steps = [
        {"kind": "input", "sources": [], "columns": 2},
        {"kind": "affine", "sources": [0], "weight": "a.weight", "bias": None},
        {"kind": "function", "sources": [1], "name": function},
        {"kind": "columns", "sources": [2], "indices": [1]},
    ]
    with pytest.raises(CheckError, match="not the name of a function"):
        built(steps, {"a.weight": np.eye(2)})


def structures():
    """Other modules with the same tensors: a skip less, another function, other columns, another order."""

    def changed(**changes):
        steps = graph_content()["model"]["network"]["steps"]
        for name, change in changes.items():
            steps[int(name[1:])] |= change
        return steps

    names = ("relu", "tanh", "silu", "gelu_tanh", "mish", "softsign", "selu", "hardswish", "sigmoid")
    yield from (changed(_7={"name": name}) for name in names)
    yield from (changed(_6={"epsilon": epsilon}) for epsilon in (0.0, 1e-3, 1.0))
    yield from (changed(_11={"indices": columns}) for columns in ([3, 2], [0, 3], [2, 2], [1, 3]))
    yield from (changed(_3={"indices": columns}) for columns in ([2, 0, 3], [3, 2, 0], [0, 0, 0]))
    yield from (changed(_9={"sources": sources}) for sources in ([5, 5], [8, 8], [8, 5], [7, 5], [5, 8, 8]))
    yield from (changed(_1={"indices": [column]}) for column in (0, 2, 3))
    yield changed(_10={"sources": [8]}, _9={"sources": [5, 5]})  # the skip is dropped
    yield changed(_4={"sources": [3, 2]})
    yield changed(_12={"sources": [11, 10]})


def test_another_structure_is_another_condition(model, tmp_path):
    """Whoever writes a certificate chooses the structure of a state dict. So what is printed must be what was checked.

    With the digest of the right one, no other structure is accepted; with a digest of its own, it may be.
    """
    original = graph_content()
    condition = fairmend.check(write(tmp_path, original), model).condition
    verdicts = []
    for steps in structures():
        content = graph_content()
        content["model"]["network"] |= {"steps": steps, "tensors": None}
        content["inputs"] = content["inputs"][:6]
        if network_digest(built(steps)) != content["model"]["network"]["sha256"]:
            assert "sha256 differs" in fairmend.check(write(tmp_path, content), model).reasons[0]
        result = fairmend.check(write(tmp_path, signed(content)), model)
        verdicts.append(result.valid)
        assert not result.valid or result.condition != condition
    assert not all(verdicts)


def forgeries():
    """Certificates that claim something false, or what is not proven, about the network itself."""

    def forged(change, number=0):
        content = graph_content()
        content["inputs"] = content["inputs"][number : number + 1]
        change(content)
        return content

    for number in range(10):
        for column, value in ((1, 4.0), (1, 0.5), (0, 2.0), (2, 5.0), (3, 50.0)):
            yield forged(lambda c, at=column, value=value: c["inputs"].__setitem__((0, at), value), number)
    for x in unfair_people()[:20]:
        yield forged(lambda c, x=x: c.update({"inputs": np.concatenate([c["inputs"], x[None]])}))
    digest = graph_content()["model"]["weights_sha256"]
    for place in range(0, 64, 8):
        other = digest[:place] + ("0" if digest[place] != "0" else "1") + digest[place + 1 :]
        yield forged(lambda c, other=other: c["model"].update({"weights_sha256": other}))
    for columns in ([0, 2], [0, 2, 3], [0], [2]):
        yield forged(lambda c, columns=columns: c.update({"global": {"columns": columns}}))
    for change in ({"dtype": "float64"}, {"inputs": 5}, {"outputs": 2}, {"network": None}, {"layers": []}):
        yield forged(lambda c, change=change: c["model"].update(change))
    for change in ({"sha256": digest}, {"steps": []}, {"unused": None}, {"unused": [3]}, {"tensors": {}}):
        yield forged(lambda c, change=change: c["model"]["network"].update(change))
    yield forged(lambda c: c.update({"arithmetic": "float64"}))
    yield forged(lambda c: c["spec"]["feature"][1].update({"range": [0, 4]}))


def unfair_people():
    """People of whom a neighbour, one of many, gets another class."""
    network, rng = graph_case()[0], np.random.default_rng(0)
    X = SPEC.sample_inputs(200, rng, np.float32)
    rows, drawn = next(stream_random_neighbours(SPEC, X, 40, rng))
    return X[np.unique(rows[network.predict(drawn) != network.predict(X)[rows]])]


@pytest.mark.parametrize("change", [(1, {"protected": True}), (3, {"tolerance": 100.0})])
def test_a_spec_that_claims_more_is_valid_only_where_it_is_true(model, change, tmp_path):
    network, rng = graph_case()[0], np.random.default_rng(0)
    verdicts = set()
    for number in range(10):
        content = graph_content()
        content["inputs"] = x = content["inputs"][number : number + 1]
        content["spec"]["feature"][change[0]].update(change[1])
        verdicts.add(fairmend.check(write(tmp_path, content), model).valid)
        _, drawn = next(stream_random_neighbours(Spec.from_dict(content["spec"]), x, 2000, rng))
        if (network.predict(drawn) != network.predict(x)[0]).any():
            assert not fairmend.check(write(tmp_path, content), model).valid
    assert verdicts


def test_no_forgery_is_valid(model, tmp_path):
    assert fairmend.check(write(tmp_path, graph_content()), model).valid
    count = 0
    for content in forgeries():
        result = fairmend.check(write(tmp_path, content), model)
        assert not result.valid, content
        assert not re.search("the check failed", " ".join(result.reasons))
        count += 1
    assert count >= 60


def test_weights_that_differ_in_one_bit_are_others(tmp_path):
    network = graph_case()[0]
    for name, tensor in tensors_of(network).items():
        tensors = tensors_of(network)
        changed = tensor.copy()
        norm = name.startswith("bn")  # folded with its neighbours and rounded
        changed.flat[0] = 1.1 * changed.flat[0] + 0.1 if norm else np.nextafter(changed.flat[0], np.float32(9))
        path = save_tensors(network, tmp_path / "model.safetensors", {**tensors, name: changed})
        reason = fairmend.check(write(tmp_path, graph_content()), path).reasons[0]
        assert ("another network" if name.startswith(("bn", "slopes")) else "other weights") in reason


@pytest.mark.parametrize("blind", [True, False])
def test_a_global_claim_follows_every_path(blind, tmp_path):
    """With a skip of age to the head, blind weights in the first layer are not enough."""
    network = residual_network(np.random.default_rng(1), blind=True)
    path = save_tensors(network, tmp_path / "model.safetensors")
    content = content_of(certificate_of_blindness(network, SPEC, [0, 2], method="blind"))
    described = content["model"]["network"]
    if not blind:
        described["steps"][11]["indices"] = [2]
    described |= {"sha256": network_digest(built(described["steps"], tensors_of(network))), "tensors": None}
    result = fairmend.check(write(tmp_path, content), path)
    assert result.valid == blind
    assert blind or result.reasons == ("certificate.global: the model depends on column 2",)


WRONG = (None, True, -1, 0, 3, 1e30, "", "x", "head", [], [0], [99], ["a"], [[0]], [None], {}, {"a": 1})


def test_values_of_the_wrong_type_anywhere_are_refused_by_name():
    """Whatever a step holds, it is a graph or it is refused: nothing else happens."""
    tensors, original = tensors_of(graph_case()[0]), graph_content()["model"]["network"]["steps"]
    refused = 0
    for number, step in enumerate(original):
        for key in {*step, "name", "columns", "indices", "weight", "parameters", "transposed"}:
            for value in WRONG:
                steps = [*original[:number], {**step, key: value}, *original[number + 1 :]]
                try:
                    built(steps, tensors)
                except CheckError:
                    refused += 1
    assert refused > 500
