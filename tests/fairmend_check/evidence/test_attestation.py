"""Attestations: what they say of a check, what is never attested, and reading them back."""

import base64
import hashlib
import json
import os
from pathlib import Path

import pytest

from fairmend_check.evidence.attestation import CHECK, STATEMENT, SUMMARY, TEST_RESULT
from fairmend_check.evidence.files import digest_files
from fairmend_check.main import main
from support.checker_cases import case, rounding_case


@pytest.fixture
def files(tmp_path):
    certificate, model = case(spec="tolerance").save(tmp_path)
    return [str(certificate), str(model)]


@pytest.fixture
def attested(files, tmp_path, capsys):
    """The files of a VALID certificate, and its attestation."""
    path = tmp_path / "attestation.json"
    assert main([*files, "--attest", str(path)]) == 0
    capsys.readouterr()
    return files, path


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_two_statements_name_the_files_by_digest_and_say_what_was_found(files, tmp_path, capsys):
    spec = tmp_path / "spec.toml"
    case(spec="tolerance").spec.save(spec)
    path = tmp_path / "attestation.json"
    assert main([*files, "--spec", str(spec), "--attest", str(path)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Attested as WARNED, not signed: ")
    test, summary = (
        json.loads((tmp_path / name).read_text()) for name in ("attestation.json", "attestation.summary.json")
    )
    assert test["_type"] == summary["_type"] == STATEMENT
    assert (test["predicateType"], summary["predicateType"]) == (TEST_RESULT, SUMMARY)
    subjects = [("model.onnx", sha256(files[1])), ("certificate.json", sha256(files[0]))]
    assert [(each["name"], each["digest"]["sha256"]) for each in test["subject"]] == subjects
    assert summary["subject"] == test["subject"]
    assert [each["name"] for each in test["predicate"]["configuration"]] == ["certificate.json", "spec.toml"]
    found = test["predicate"][CHECK]
    assert found == summary["predicate"][CHECK]
    assert found["verdict"] == "valid"
    assert f"Proven: {found['claim']}" in said.out
    assert f"Condition: {found['condition']}" in said.out
    assert found["checker"].keys() == {"fairmend-check", "numpy", "Python"}
    predicate = summary["predicate"]
    required = {"verifier", "timeVerified", "resourceUri", "policy", "verificationResult", "verifiedLevels"}
    assert required <= predicate.keys()
    assert predicate["verificationResult"] == "PASSED"
    assert predicate["verifiedLevels"] == ["FAIRMEND_VALID"]
    assert predicate["policy"]["digest"] == {"sha256": sha256(files[0])}
    assert all(key.startswith("https://") for key in predicate if key not in {*required, "slsaVersion"})


@pytest.mark.runs_models
def test_a_model_that_was_run_is_passed_with_the_version_of_the_program(files, tmp_path, capsys):
    import onnxruntime

    path = tmp_path / "a.json"
    assert main([*files, "--attest", str(path)]) == 0
    predicate = json.loads(path.read_text())["predicate"]
    assert predicate["result"] == "PASSED"
    assert predicate[CHECK]["runs"][0]["program"] == f"ONNX Runtime {onnxruntime.__version__}"
    assert "FAIRMEND_RUN" in json.loads((tmp_path / "a.summary.json").read_text())["predicate"]["verifiedLevels"]


def test_a_model_that_was_not_run_is_warned_not_passed(attested):
    predicate = json.loads(attested[1].read_text())["predicate"]
    assert predicate["result"] == "WARNED"
    assert any(test.startswith("run: the model was not run") for test in predicate["warnedTests"])


def test_exact_arithmetic_alone_is_warned(tmp_path, capsys):
    certificate, model = rounding_case().save(tmp_path)
    path = tmp_path / "a.json"
    assert main([str(certificate), str(model), "--real", "--attest", str(path)]) == 0
    predicate = json.loads(path.read_text())["predicate"]
    assert "inference: the claim is about exact real arithmetic only" in predicate["warnedTests"]
    assert predicate[CHECK]["real"] is True
    # Read back without --real, the same claim is not accepted.
    assert main([str(certificate), str(model), "--attestation", str(path)]) == 1


def test_invalid_is_attested_only_on_demand_and_never_as_passed(tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    certificate, _ = case(spec="tolerance").save(tmp_path)
    _, model = case(spec="ordinal").save(other)
    path = tmp_path / "a.json"
    assert main([str(certificate), str(model), "--attest", str(path)]) == 1
    assert "No attestation was written, because the result is INVALID" in capsys.readouterr().err
    assert not path.exists()
    assert main([str(certificate), str(model), "--attest", str(path), "--attest-failure"]) == 1
    test, summary = (json.loads((tmp_path / name).read_text())["predicate"] for name in ("a.json", "a.summary.json"))
    assert (test["result"], summary["verificationResult"], summary["verifiedLevels"]) == (
        "FAILED",
        "FAILED",
        ["FAILED"],
    )
    assert test["passedTests"] == []
    assert test[CHECK]["reasons"]
    assert main([str(certificate), str(model), "--attestation", str(path)]) == 1


def test_unreadable_is_never_attested(files, tmp_path, capsys):
    Path(files[0]).write_text("{}")
    path = tmp_path / "a.json"
    assert main([*files, "--attest", str(path), "--attest-failure"]) == 2
    assert not path.exists()
    assert "because the result is UNREADABLE" in capsys.readouterr().err


def test_an_attestation_is_read_back(attested, capsys):
    files, path = attested
    for name in (path, path.with_name("attestation.summary.json")):
        assert main([*files, "--attestation", str(name)]) == 0
        assert f"Attestation: {name} is about these files, and attests VALID" in capsys.readouterr().out


@pytest.mark.parametrize("bundle", [False, True])
def test_a_signed_envelope_is_read_and_its_signature_left_to_others(attested, tmp_path, capsys, bundle):
    files, path = attested
    payload = base64.b64encode(path.read_bytes()).decode()
    envelope = {"payloadType": "application/vnd.in-toto+json", "payload": payload, "signatures": [{"sig": "AA=="}]}
    signed = tmp_path / "signed.json"
    signed.write_text(json.dumps({"dsseEnvelope": envelope} if bundle else envelope))
    assert main([*files, "--attestation", str(signed)]) == 0
    assert "The signature of its envelope was not verified." in capsys.readouterr().out


def one_line_of_error(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1
    return said.err


def test_an_attestation_for_another_model_is_one_line_and_no_verdict(attested, tmp_path, capsys):
    files, path = attested
    other = tmp_path / "other"
    other.mkdir()
    _, model = case(spec="ordinal").save(other)
    before = sorted(tmp_path.rglob("*"))
    written = [tmp_path / name for name in ("new.json", "junit.xml", "summary.md")]
    options = [
        part for pair in zip(("--attest", "--junit", "--summary"), map(str, written), strict=True) for part in pair
    ]
    assert main([files[0], str(model), "--attestation", str(path), *options]) == 2
    error = one_line_of_error(capsys)
    assert "is for the model model.onnx with sha256" in error
    assert sha256(model) in error
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_a_changed_certificate_is_not_the_attested_one(attested, capsys):
    files, path = attested
    text = Path(files[0]).read_text()
    Path(files[0]).write_text(text + "\n")
    assert main([*files, "--attestation", str(path)]) == 2
    assert "is for the certificate certificate.json with sha256" in one_line_of_error(capsys)


@pytest.mark.parametrize("key", ["claim", "condition"])
def test_an_attestation_that_claims_something_else_is_invalid(attested, capsys, key):
    files, path = attested
    change(path, lambda content: content["predicate"][CHECK].update({key: "For everyone, whatever they are."}))
    assert main([*files, "--attestation", str(path)]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"INVALID: {path} does not hold for ")
    assert f'its {key} is "For everyone, whatever they are."' in said


def test_an_attested_failure_is_not_confirmed_by_valid(attested, capsys):
    files, path = attested

    def fail(content):
        content["predicate"]["result"] = "FAILED"
        content["predicate"][CHECK]["verdict"] = "invalid"

    change(path, fail)
    assert main([*files, "--attestation", str(path)]) == 1
    assert "it attests INVALID, and this check finds VALID" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda c: c["predicate"].update(result="FAILED"), "contradicts itself: its result is FAILED"),
        (lambda c: c["subject"].pop(), "contradicts itself: its subjects"),
        (lambda c: c.update(_type="https://in-toto.io/Statement/v0.1"), "not a statement of in-toto, version 1"),
        (lambda c: c.update(predicateType="https://slsa.dev/provenance/v1"), "a predicate of the type"),
        (lambda c: c["predicate"].pop(CHECK), "not about a check of fairmend"),
        (lambda c: c["predicate"][CHECK]["model"]["digest"].update(sha256="x"), "64 hexadecimal digits"),
        (lambda c: c["predicate"][CHECK].update(covers_inference="yes"), "covers_inference"),
        (lambda c: c["predicate"][CHECK].update(claim=["a"]), "claim must be a text"),
    ],
)
def test_a_file_that_is_no_attestation_is_refused_in_one_line(attested, capsys, edit, said):
    files, path = attested
    change(path, edit)
    assert main([*files, "--attestation", str(path)]) == 2
    assert said in one_line_of_error(capsys)


@pytest.mark.parametrize("text", ["", "[]", "no JSON", '{"payloadType": "text/plain"}'])
def test_any_other_file_is_refused_in_one_line(attested, capsys, text):
    files, path = attested
    path.write_text(text)
    assert main([*files, "--attestation", str(path)]) == 2
    assert "--attest wrote" in one_line_of_error(capsys)


def test_weights_beside_the_model_are_subjects_too(tmp_path, capsys):
    """The sha256 of an ONNX file does not cover the weights in files beside it."""
    import onnx

    certificate, model = case(spec="tolerance").save(tmp_path)
    loaded = onnx.load(model)
    onnx.save(loaded, model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    path = tmp_path / "a.json"
    assert main([str(certificate), str(model), "--attest", str(path)]) == 0
    names = [each["name"] for each in json.loads(path.read_text())["subject"]]
    assert names == ["model.onnx", "weights.bin", "certificate.json"]
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes() + b"\0")
    capsys.readouterr()
    assert main([str(certificate), str(model), "--attestation", str(path)]) == 2
    assert "other files of weights beside model.onnx" in one_line_of_error(capsys)


def test_nothing_is_written_if_one_file_cannot_be(files, tmp_path, capsys):
    missing, junit = tmp_path / "missing" / "a.json", tmp_path / "junit.xml"
    before = sorted(os.listdir(tmp_path))
    assert main([*files, "--attest", str(missing), "--junit", str(junit)]) == 2
    assert f"{missing}: cannot write" in one_line_of_error(capsys)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("target", [0, 1])
def test_no_input_is_overwritten(files, capsys, target):
    before = Path(files[target]).read_bytes()
    assert main([*files, "--attest", files[target]]) == 2
    assert "would overwrite" in one_line_of_error(capsys)
    assert Path(files[target]).read_bytes() == before


def test_two_outputs_in_one_file_are_refused(files, tmp_path, capsys):
    same = str(tmp_path / "same")
    assert main([*files, "--junit", same, "--summary", same]) == 2
    assert "--summary would overwrite --junit" in one_line_of_error(capsys)
    assert main([*files, "--junit", str(tmp_path)]) == 2
    assert "this is a folder" in one_line_of_error(capsys)


def test_files_that_change_during_the_check_get_no_verdict(files, tmp_path, capsys, monkeypatch):
    import fairmend_check.main

    def grow(*arguments, **options):
        result = check_files(*arguments, **options)
        Path(files[0]).write_text(Path(files[0]).read_text() + "\n")
        return result

    check_files = fairmend_check.main.check_files
    monkeypatch.setattr(fairmend_check.main, "check_files", grow)
    path = tmp_path / "a.json"
    assert main([*files, "--attest", str(path)]) == 2
    assert "changed while it was checked" in one_line_of_error(capsys)
    assert not path.exists()


@pytest.mark.parametrize("options", [["--attest", "a.json", "--kernel-only"], ["--attest-failure"]])
def test_options_that_do_not_fit_are_refused(files, options, capsys):
    given = files[:1] if "--kernel-only" in options else files
    with pytest.raises(SystemExit) as ended:
        main([*given, *options])
    assert ended.value.code == 2


def test_files_that_cannot_be_read_have_no_digests(tmp_path):
    certificate, model = case(spec="tolerance").save(tmp_path)
    assert digest_files(certificate, tmp_path, None) is None
    model.write_bytes(b"\xff")
    assert digest_files(certificate, model, None) is None
