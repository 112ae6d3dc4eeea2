"""Certificates claim what is proven, and bind it to one network and one file."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from torch import nn

import fairmend
from benchmarks.soundness.entry_cases import random_case
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network, load_network
from fairmend.prove import certificate
from fairmend.prove.certificate import (
    certificate_of_blindness,
    certificate_of_classes,
    certificate_of_fair,
    certificate_of_inputs,
    weights_digest,
)
from fairmend.prove.certify import certify
from fairmend.prove.proof import prove_inputs
from fairmend.prove.result import Verdict
from fairmend.spec import Claim, Feature, Spec
from support.certify_cases import AGE, HOURS, balanced_network, linear
from support.checker_cases import SPECS, TWO_FEATURES, nearly_fair_network, read
from support.score_cases import largest_differences
from support.strategies import random_network
from support.torch_modules import trained_norm
from support.twin_cases import bump_network, person, twin_spec

SPEC = Spec([AGE, HOURS])
SCHEMA = json.loads(Path(certificate.__file__).with_name("certificate.schema.json").read_text())


def test_a_certificate_of_fair_inputs_covers_only_fair_inputs():
    net, X = balanced_network(0, SPEC, "relu"), SPEC.sample_inputs(40, np.random.default_rng(0))
    fair = np.array([verdict is Verdict.FAIR for verdict in certify(net, SPEC, X).verdicts])
    assert 0 < fair.sum() < 40
    certificate, covered = certificate_of_fair(net, SPEC, X)
    assert covered.any()
    assert not (covered & ~fair).any()
    assert certificate.count == certificate.content["count"] == covered.sum()
    assert f"each of the {covered.sum()} inputs listed in this certificate" in certificate.claim
    assert repr(certificate) == f"Certificate({certificate.claim})"


def test_without_a_fair_input_there_is_no_certificate():
    spec = Spec([Feature("age", "integer", range=(0, 10), protected=True)])
    certificate, covered = certificate_of_fair(linear(1.0, bias=-5.5), spec, np.array([[2.0], [8.0]], np.float32))
    assert certificate is None
    assert covered.tolist() == [False, False]


def test_a_saved_certificate_is_bound_to_the_bytes_of_the_model(tmp_path):
    net = linear(0.0, 1.0, bias=2.0)
    certificate = certificate_of_blindness(net, SPEC, [0], method="blind")
    net.save(tmp_path / "net.onnx")
    certificate.save(tmp_path / "free.json")
    certificate.save(tmp_path / "bound.json", model=tmp_path / "net.onnx")
    free, bound = (json.loads((tmp_path / name).read_text()) for name in ("free.json", "bound.json"))
    assert free["model"]["file_sha256"] is None
    assert bound["model"]["file_sha256"] == hashlib.sha256((tmp_path / "net.onnx").read_bytes()).hexdigest()
    assert (
        free["claim"]
        == "For every input within the ranges of the spec, the output of this model does not depend on age. "
        "The values of these features are: age 18 to 75."
    )
    assert free["global"] == {"columns": [0]}
    with pytest.raises(FairmendError, match=r"gone\.onnx: cannot read the model: No such file"):
        certificate.save(tmp_path / "other.json", model=tmp_path / "gone.onnx")
    assert not (tmp_path / "other.json").exists()


def test_a_certificate_for_a_state_dict_names_the_tensors_of_the_file(tmp_path):
    net = balanced_network(0, SPEC, "leaky_relu")
    certificate = certificate_of_blindness(net, SPEC, [0], method="blind")
    for suffix in ("pth", "PT", "safetensors", "onnx", "h5", "keras"):
        net.save(tmp_path / f"net.{suffix}")
        certificate.save(tmp_path / "bound.json", tmp_path / f"net.{suffix}")
        described = json.loads((tmp_path / "bound.json").read_text())["model"]["network"]
        steps = [step for step in described["steps"] if step["kind"] == "affine"]
        assert [step["weight"] for step in steps] == [f"{name}.weight" for name in net.names]
        functions = [step for step in described["steps"] if step["kind"] == "function"]
        assert {(step["name"], step["slope"]) for step in functions} == {("leaky_relu", net.activations[0].slope)}
        assert set(described["tensors"]) == {f"{name}.{part}" for name in net.names for part in ("weight", "bias")}
        assert described["unused"] == []


def test_a_file_that_holds_another_network_does_not_change_the_claim(tmp_path):
    """Else a note in a file could decide what a certificate is about."""
    net, other = balanced_network(0, SPEC, "relu"), balanced_network(0, SPEC, "tanh")
    certificate = certificate_of_blindness(net, SPEC, [0], method="blind")
    other.save(tmp_path / "other.pth")
    bound = certificate.for_model(tmp_path / "other.pth")
    assert bound.content["model"]["network"] == certificate.content["model"]["network"]


def test_the_claim_about_a_state_dict_names_its_condition(tmp_path):
    net = balanced_network(0, SPEC, "relu")
    certificate = certificate_of_blindness(net, SPEC, [0], method="blind")
    for name in ("net.pth", "net.onnx"):
        net.save(tmp_path / name)
    bound = certificate.for_model(tmp_path / "net.pth")
    assert bound.claim.startswith(f"{certificate.claim} Condition: the module computes the steps of model.network")
    assert bound.for_model(tmp_path / "net.pth").claim == bound.claim
    assert bound.for_model(tmp_path / "net.onnx").claim == certificate.claim


def test_the_digest_changes_with_every_part_of_the_network():
    net = balanced_network(0, SPEC, "leaky_relu")
    first, *rest = net.affines
    weight = first.weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], np.float32(9))
    others = [
        net.with_affines([Affine(weight, first.bias), *rest]),
        net.with_affines([Affine(first.weight, first.bias + 1), *rest]),
        net.astype(np.float64),
        Network(net.affines, [Activation("relu"), *net.activations[1:]]),
        Network(net.affines, [Activation("leaky_relu", 0.5), *net.activations[1:]]),
    ]
    digests = {weights_digest(network) for network in (net, *others)}
    assert len(digests) == 6
    assert weights_digest(Network(net.affines, net.activations, "sigmoid")) == weights_digest(net)


def test_a_certificate_with_an_earlier_wording_stays_valid(tmp_path):
    spec = Spec([Feature("age", "integer", range=(0, 10), protected=True)])
    net = linear(1.0, bias=2.0)
    net.save(tmp_path / "net.onnx")
    certificate, _ = certificate_of_fair(net, spec, np.array([[4.0]], np.float32))
    earlier = "The input listed here gets one answer from this model whatever its age, in real arithmetic."
    replace(certificate, content={**certificate.content, "claim": earlier}).save(tmp_path / "c.json")
    result = fairmend.check(tmp_path / "c.json", tmp_path / "net.onnx")
    assert result.valid, result.reasons
    assert result.claim == certificate.claim


def test_inputs_that_only_exact_arithmetic_proves_are_left_out_unless_there_are_no_others():
    network = Network([Affine(np.array([[0, 1]], np.float32), np.zeros(1, np.float32))], [])
    close, clear = [1, 1e-9], [1, 0.5]
    certificate, covered = certificate_of_fair(network, TWO_FEATURES, np.array([close, clear], np.float32))
    assert covered.tolist() == [False, True]
    assert (certificate.content["arithmetic"], certificate.count) == ("float32", 1)
    certificate, covered = certificate_of_fair(network, TWO_FEATURES, np.array([close], np.float32))
    assert covered.tolist() == [True]
    assert certificate.real_only


def test_a_neighbourhood_with_an_unequal_twin_gets_no_certificate():
    spec = twin_spec()
    assert certificate_of_fair(bump_network(spec, needed=0.5), spec, person(spec))[1].tolist() == [False]
    assert certificate_of_fair(bump_network(spec, needed=1.5), spec, person(spec))[1].tolist() == [True]


@pytest.mark.parametrize("on", ["logit", "probability"])
def test_a_certificate_of_scores_covers_only_who_keeps_delta(on, tmp_path):
    net, X = balanced_network(3, SPEC, "relu"), SPEC.sample_inputs(12, np.random.default_rng(3))
    differences = largest_differences(net, Spec(SPEC.features, claim=Claim("score", 0.4, on)), X)
    delta = float(np.median(differences)) + 1e-3
    certificate, covered = certificate_of_fair(net, Spec(SPEC.features, claim=Claim("score", delta, on)), X)
    assert 0 < covered.sum() < len(X)
    assert (differences[covered] <= delta).all()
    assert (certificate.inputs == X[covered]).all()
    net.save(tmp_path / "model.onnx")
    certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid


@pytest.mark.parametrize("on", ["logit", "probability"])
def test_scores_of_other_functions_are_confirmed(on, tmp_path):
    """The checker finds their bounds by itself."""
    rng = np.random.default_rng(0)
    spec = Spec([AGE, replace(HOURS, tolerance=0.0)], claim=Claim("score", {"logit": 2.0, "probability": 0.4}[on], on))
    net, X = random_network(rng, 2, [8, 6], 1, "hardswish"), spec.sample_inputs(30, rng)
    certificate, covered = certificate_of_fair(net, spec, X)
    assert covered.any()
    net.save(tmp_path / "model.onnx")
    certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    result = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert result.valid, result.reasons


def test_a_file_with_folded_norms_is_checked_as_such(tmp_path):
    """A network with batch normalisation may be saved with or without it: the certificate names what the file holds."""
    layers = [nn.Linear(2, 3), trained_norm(3), nn.LeakyReLU(0.25), trained_norm(3), nn.Linear(3, 1)]
    network = load_network(nn.Sequential(*layers).eval())
    spec = Spec([Feature("g", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(0, 1))])
    ignoring = Affine(network.affines[0].weight * np.float32([0, 1]), network.affines[0].bias)
    network = network.with_affines([ignoring, network.affines[1]])
    certificate = certificate_of_blindness(network, spec, [0], method="blind")
    for keep, path in ((True, tmp_path / "a.pth"), (False, tmp_path / "b.pth"), (True, tmp_path / "c.onnx")):
        network.save(path, keep_form=keep)
        certificate.save(tmp_path / "c.json", path)
        result = fairmend.check(tmp_path / "c.json", path)
        assert result.valid, result.reasons
        assert ("BatchNorm1d" in result.condition) == (path.name == "a.pth")


# The file


DELTA = {"logit": 2.0, "probability": 0.4}


def some_fair(spec, outputs=1, activation="relu", count=60):
    rng = np.random.default_rng(0)
    return nearly_fair_network(rng, spec, outputs, activation), spec.sample_inputs(count, rng)


def checked(folder, made, network, suffix="onnx"):
    model = folder / f"model.{suffix}"
    network.save(model)
    made.save(folder / "certificate.json", model)
    return fairmend.check(folder / "certificate.json", model)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_what_is_written_is_valid_and_all_inputs_are_in_order(name, outputs, tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "_BLOCK_INPUTS", 7)
    network, X = some_fair(SPECS[name], outputs)
    made, covered = certificate_of_fair(network, SPECS[name], X)
    result = checked(tmp_path, made, network)
    assert result.valid, result.reasons
    assert (result.regions, result.claim, result.covers_inference) == (covered.sum(), made.claim, True)
    content = json.loads((tmp_path / "certificate.json").read_bytes())
    assert (content["format"], content["version"]) == ("fairmend-certificate", 1)
    assert [block["count"] for block in content["inputs"][:-1]] == [7] * ((int(covered.sum()) - 1) // 7)
    assert content["count"] == covered.sum()
    assert (read(tmp_path / "certificate.json")["inputs"] == X[covered]).all()
    lines = (tmp_path / "certificate.json").read_bytes().splitlines(keepends=True)
    assert len(lines) == len(content["inputs"]) + 2


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "leaky_relu", "identity", "gelu"])
def test_functions_are_confirmed_with_lines_of_the_checker(activation, tmp_path):
    network, X = some_fair(SPECS["tolerance"], 3, activation, 40)
    result = checked(tmp_path, certificate_of_fair(network, SPECS["tolerance"], X)[0], network)
    assert result.valid, result.reasons


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_claims_about_scores(on, outputs, tmp_path):
    spec = Spec(SPECS["tolerance"].features, claim=Claim("score", DELTA[on], on))
    network, X = some_fair(spec, outputs)
    made, covered = certificate_of_fair(network, spec, X)
    assert covered.any()
    result = checked(tmp_path, made, network)
    assert result.valid, result.reasons
    assert 0 < result.largest_difference <= DELTA[on]


def test_a_state_dict_a_spec_and_a_global_claim_beside_it(tmp_path):
    spec = SPECS["tolerance"]
    network, X = some_fair(spec)
    first = network.affines[0]
    network = network.with_affines([Affine(first.weight * np.float32([0, 1, 1]), first.bias), *network.affines[1:]])
    proof = prove_inputs(network, spec, X)
    kept = np.flatnonzero(proof.covers_inference)
    made = certificate_of_inputs(network, spec, X[kept], proof.subset(kept), method="prof", blind_columns=[0])
    result = checked(tmp_path, made, network, "pth")
    assert result.valid, result.reasons
    assert "does not depend on sex" in result.claim
    assert "the file stores weights only" in result.condition
    spec.save(tmp_path / "spec.toml")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.pth", tmp_path / "spec.toml").valid


def test_every_file_fits_the_published_schema(tmp_path):
    network, X = some_fair(SPECS["one-hot"], count=5)
    for made in (
        certificate_of_fair(network, SPECS["one-hot"], X)[0],
        certificate_of_blindness(network, SPECS["one-hot"], [1, 2, 3, 5], method="blind"),
    ):
        content = json.loads(b"".join(made.lines()))
        jsonschema.validate(content, SCHEMA)
        for wrong in ({"count": "5"}, {"version": 2}, {"inputs": [{"count": 0, "columns": ""}]}, {"regions": []}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**content, **wrong}, SCHEMA)


def test_a_certificate_of_many_inputs_is_small(tmp_path):
    spec = SPECS["one-hot"]
    network, X = some_fair(spec, count=20)
    made, covered = certificate_of_fair(network, spec, np.tile(X, (300, 1)))
    assert made.count == covered.sum() > 4_000
    made.save(tmp_path / "certificate.json")
    assert (tmp_path / "certificate.json").stat().st_size < 10 * covered.sum()


def test_wide_inputs_are_written_in_blocks_that_the_checker_reads(monkeypatch):
    monkeypatch.setattr(certificate, "_BLOCK_NUMBERS", 10)
    network, X = some_fair(SPECS["one-hot"], count=5)
    made, covered = certificate_of_fair(network, SPECS["one-hot"], X)
    assert len([*made.lines()]) == covered.sum() + 2  # six numbers each


def test_a_claim_about_classes_fits_the_schema_and_names_its_file(tmp_path):
    case = random_case(np.random.default_rng(3))
    made = certificate_of_classes(Spec.from_dict(case.spec), case.entry, method="average")
    (tmp_path / "model.onnx").write_bytes(case.model.SerializeToString())
    made.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    jsonschema.validate(json.loads((tmp_path / "certificate.json").read_text()), SCHEMA)
    assert made.claim == fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx", run=False).claim
    made.save(tmp_path / "certificate.json")
    result = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx", run=False)
    assert "must name its model file" in result.reasons[0]


def test_an_entry_that_tells_similar_people_apart_gets_no_certificate():
    case = random_case(np.random.default_rng(3))
    case.entry["cuts"].pop()
    with pytest.raises(FairmendError, match="tells similar people apart"):
        certificate_of_classes(Spec.from_dict(case.spec), case.entry, method="average")
    case.entry["ports"][0]["width"] += 1
    with pytest.raises(FairmendError, match="width"):
        certificate_of_classes(Spec.from_dict(case.spec), case.entry, method="average")
