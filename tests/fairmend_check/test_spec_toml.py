"""Specs as TOML: a spec file is compared with the spec of a certificate by its meaning."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend.spec import Feature, Label, Spec
from fairmend.spec.toml import toml_bytes
from fairmend_check.errors import CannotAnswerError, CheckError
from fairmend_check.kernel.spec import first_difference, read_spec
from fairmend_check.main import main
from fairmend_check.spec_toml import read_spec_file
from support.checker_cases import SPECS, case
from support.strategies_spec import specs, unhurried


def reread(spec, folder):
    spec.save(folder / "spec.toml")
    return read_spec_file(folder / "spec.toml")


@unhurried
@given(specs())
def test_the_file_that_fairmend_writes_is_read_as_the_spec_of_a_certificate(tmp_path_factory, spec):
    assert first_difference(read_spec(spec.to_dict(), "spec"), reread(spec, tmp_path_factory.mktemp("spec"))) is None


@unhurried
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_are_the_same_in_both(tmp_path_factory, text):
    text = f"<{text}>"
    sex = Feature("s", "categorical", categories=(f"{text}a", f"{text}b"), protected=True)
    spec = Spec([Feature(text, "continuous", range=(0, 1)), sex], Label("y", text))
    read = reread(spec, tmp_path_factory.mktemp("spec"))
    assert first_difference(read_spec(spec.to_dict(), "spec"), read) is None
    assert read.features[0].name == text


def test_columns_that_only_reading_data_needs_are_not_in_the_meaning_of_the_label():
    features = [
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("income is missing", "integer", range=(0, 1), indicates="income"),
    ]
    read = read_spec(Spec(features, Label("y", "1", score="p")).to_dict(), "spec")
    assert first_difference(read, read_spec(Spec(features, Label("y", "1")).to_dict(), "spec")) is None


@unhurried
@given(st.floats(-1e30, 1e30), st.floats(1e-30, 1e30))
def test_numbers_are_the_same_in_both(tmp_path_factory, low, width):
    assume(low < low + width)
    scale = {"mean": low, "std": width}
    spec = Spec([Feature("x", "continuous", range=(low, low + width), scale=scale, protected=True)])
    read = reread(spec, tmp_path_factory.mktemp("spec"))
    assert first_difference(read_spec(spec.to_dict(), "spec"), read) is None
    assert (read.features[0].low, read.features[0].high, dict(read.features[0].scale)) == (low, low + width, scale)


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_file_is_read_with_its_meaning(name, tmp_path):
    path = tmp_path / "spec.toml"
    SPECS[name].save(path)
    assert read_spec_file(path) == read_spec(SPECS[name].to_dict(), "spec")
    path.write_text("\ufeff# a comment\n" + path.read_text(), encoding="utf-8")
    assert read_spec_file(path) == read_spec(SPECS[name].to_dict(), "spec")


def test_a_spec_file_names_the_inputs_of_its_features(tmp_path):
    features = [Feature(name, "integer", range=(0, 1), protected=name == "sex", input=name) for name in ("sex", "age")]
    spec, path = Spec(features), tmp_path / "spec.toml"
    path.write_bytes(b"# as the owner keeps it\n" + toml_bytes(spec.to_dict()))
    assert first_difference(read_spec_file(path), read_spec(spec.to_dict(), "spec")) is None


def test_without_a_toml_reader_one_line_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tomllib", None)  # as on Python 3.10
    certificate, model = case().save(tmp_path)
    case().spec.save(tmp_path / "spec.toml")
    arguments = [str(certificate), str(model), "--spec", str(tmp_path / "spec.toml")]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "has no TOML reader" in printed.err
    assert "Run the check with Python 3.11 or later, or without --spec." in printed.err
    result = fairmend.check(certificate, model, tmp_path / "spec.toml")
    assert not result.valid
    assert "has no TOML reader" in result.reasons[0]
    with pytest.raises(CannotAnswerError):
        read_spec_file(tmp_path / "spec.toml")


@pytest.mark.parametrize("text", ["", "[[[", "feature = 3", "a = " + "[" * 5000, "[[feature]]\nname = 1", "\x00"])
def test_specs_that_are_none(text, tmp_path):
    certificate, model = case().save(tmp_path)
    (tmp_path / "bad.toml").write_text(text)
    report = fairmend.check(certificate, model, tmp_path / "bad.toml")
    assert not report.valid
    assert "spec bad.toml" in report.reasons[0]


@pytest.mark.parametrize("name", SPECS)
def test_the_spec_file_may_be_written_differently(name, tmp_path):
    made = case(spec=name)
    certificate, model = made.save(tmp_path)
    made.spec.save(tmp_path / "spec.toml")
    assert fairmend.check(certificate, model, tmp_path / "spec.toml").valid
    text = (tmp_path / "spec.toml").read_text()
    (tmp_path / "other.toml").write_text("# who counts as similar\n" + text.replace('encoding = "ordinal"\n', ""))
    assert fairmend.check(certificate, model, tmp_path / "other.toml").valid


def test_classes_are_in_the_meaning_and_names_and_ids_are_not():
    sex = Feature(
        "sex", "integer", range=(1, 2), protected=True, scale={"min": 0, "max": 2}, names={1: "m", "2": "f\n"}
    )
    spec = Spec([sex], Label("grade", classes=("A", "B", "C")), id_column='customer "no"')
    read = read_spec(spec.to_dict(), "spec")
    plain = Spec([replace(sex, names=None)], spec.label)
    assert first_difference(read, read_spec(plain.to_dict(), "spec")) is None
    other = Spec([sex], Label("grade", classes=("A", "C", "B")))
    assert "the classes" in first_difference(read, read_spec(other.to_dict(), "spec"))
    for wrong in (["A", "B"], ["A", "B", "B"]):
        with pytest.raises(CheckError, match="classes must be"):
            read_spec({**plain.to_dict(), "label": {"column": "grade", "classes": wrong}}, "spec")


@pytest.mark.parametrize("claim", ["inputs", "everyone"])
def test_values_are_called_as_in_your_spec(claim, tmp_path):
    """Names of values mean nothing to the claim, so a forger may write any: those of the spec that you pass count."""
    sex = Feature("sex", "integer", range=(0, 1), protected=True, names={"0": "f"})
    spec = Spec([sex, Feature("age", "integer", range=(18, 40), tolerance=2)])
    network = Network([Affine(np.array([[0.0, 1.0]], np.float32), np.array([-60.0], np.float32))], [])
    if claim == "everyone":
        made = certificate_of_blindness(network, spec, [0], method="blind")
    else:
        made, _ = certificate_of_fair(network, spec, np.array([[0.0, 20.0]], np.float32))
    network.save(tmp_path / "model.onnx")
    made.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    text = (tmp_path / "certificate.json").read_text()
    assert '"names": {"0": "f"}' in text
    forged, model = tmp_path / "forged.json", tmp_path / "model.onnx"
    forged.write_text(text.replace('"names": {"0": "f"}', '"names": {"0": "nobody", "1": "everyone"}'))
    spec.save(tmp_path / "spec.toml")
    own = fairmend.check(forged, model, tmp_path / "spec.toml", run=False)
    assert own.valid, own.reasons
    assert "sex 0 to 1 (0 is f)" in own.claim
    assert "0 is nobody" in fairmend.check(forged, model, run=False).claim
