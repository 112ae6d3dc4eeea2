"""`fairmend check`: the verdict in words, as JSON and as exit code."""

import json
import re

import numpy as np
import pytest

import fairmend
from support.checker_cases import read, rounding_case, write
from support.cli_case import refused, run, small_network, small_people, small_spec, succeeded


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check")
    spec, people = small_spec(), small_people()
    result = fairmend.repair(
        small_network(),
        spec,
        people[:5],
        people[5:60],
        spec.labels(people)[5:60],
        method="prof",
        training=fairmend.TrainingOptions(steps=2),
    )
    result.network.save(folder / "model.onnx")
    result.certificate.save(folder / "certificate.json", model=folder / "model.onnx")
    spec.save(folder / "spec.toml")
    return folder


def check(folder, *more, certificate="certificate.json", model="model.onnx"):
    return run("check", folder / certificate, folder / model, *more)


def test_a_valid_certificate(repaired):
    result = succeeded(check(repaired, "--spec", repaired / "spec.toml"))
    assert result.stdout.startswith("VALID")
    assert (
        "For each of the 5 inputs listed in this certificate, the prediction of this model stays the same whatever its "
        "age or gender" in result.stdout
    )
    assert "least margin of 5 neighbourhoods is" in result.stdout


def test_json(repaired):
    result = check(repaired, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["valid"], document["regions"]) == (0, True, 5)
    assert document["verdict"] == "valid"
    assert document["least_margin"] > 0
    assert document["reasons"] == []


def test_a_refused_certificate(repaired):
    content = read(repaired / "certificate.json")
    content["inputs"][3, 0] = 99
    write(repaired, content, "changed.json")
    result = check(repaired, certificate="changed.json")
    assert result.exit_code == 1
    assert result.stdout.startswith("INVALID")
    assert "input 3: feature" in result.stdout
    document = json.loads(check(repaired, "--json", certificate="changed.json").stdout)
    assert (document["valid"], document["verdict"]) == (False, "invalid")
    assert len(document["reasons"]) == 1


def test_another_model_and_another_spec(repaired):
    small_network(seed=8).save(repaired / "other.onnx")
    result = check(repaired, model="other.onnx")
    assert (result.exit_code, "weights_sha256" in result.stdout) == (1, True)
    small_spec(protected=False).save(repaired / "other.toml")
    result = check(repaired, "--spec", repaired / "other.toml")
    assert result.exit_code == 1
    assert 'feature "age": protected is false instead of true' in result.stdout


def test_a_spec_with_another_scale_is_described_as_in_a_spec_file(repaired):
    text = (repaired / "spec.toml").read_text()
    scaled = re.sub(r"scale = \{.*\}", "scale = {min = 0.0, max = 99.5}", text, count=1)
    (repaired / "scaled.toml").write_text(scaled)
    result = check(repaired, "--spec", repaired / "scaled.toml")
    assert "scale is {min = 0.0, max = 99.5} instead of {" in result.stdout
    assert "(" not in result.stdout


@pytest.mark.parametrize("missing", ["certificate", "model", "spec"])
def test_files_that_are_not_there(repaired, missing):
    absent = repaired / "absent"
    refused(
        check(repaired, "--spec", absent) if missing == "spec" else check(repaired, **{missing: "absent"}),
        "absent: no such file",
    )


@pytest.mark.parametrize("garbage", ["certificate", "model"])
def test_what_cannot_be_read_is_an_exit_code_of_its_own(repaired, garbage):
    name = {"certificate": "garbage.json", "model": "garbage.onnx"}[garbage]
    (repaired / name).write_bytes(np.random.default_rng(0).bytes(1000))
    result = check(repaired, **{garbage: name})
    assert result.exit_code == 2
    assert result.stdout.startswith("UNREADABLE: ")
    assert "so there is no verdict" in result.stdout
    assert "VALID:" not in result.stdout
    printed = check(repaired, "--json", **{garbage: name})
    document = json.loads(printed.stdout)
    assert (printed.exit_code, document["verdict"], document["valid"]) == (2, "unreadable", False)
    assert document["reasons"]


def test_a_claim_about_real_arithmetic_needs_real(tmp_path):
    rounding_case().save(tmp_path)
    answer = check(tmp_path)
    assert (answer.exit_code, "pass --real" in answer.stdout) == (1, True)
    accepted = check(tmp_path, "--real")
    assert (accepted.exit_code, accepted.stdout.startswith("VALID")) == (0, True)
    assert json.loads(check(tmp_path, "--real", "--json").stdout)["valid"] is True
