"""The dossier: its files and digests, what it calls proven, and when nothing is written."""

import hashlib
import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from fairmend.report import load_report
from fairmend.report.dossier.content import NOT_CLAIMED, PROVEN, RECOMPUTABLE
from fairmend.spec import Feature, Spec
from support.cli_case import Case, run, small_people, small_spec, succeeded
from support.html_page import Page
from support.price_case import PriceCase
from support.strategies import random_network


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    """A repair for everyone, whatever their age, gender or race."""
    case = Case(tmp_path_factory.mktemp("dossier"))
    small, people = small_spec(), small_people()
    race = Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True)
    spec = Spec([*small.features, race], small.label)
    spec.save(case.spec)
    random_network(np.random.default_rng(3), spec.width, [8, 6], 1, "relu").save(case.model)
    case.write(people.assign(race=np.random.default_rng(1).choice(["a", "b", "c"], len(people))))
    succeeded(run("repair", case.model, *_options(case), "--method", "blind"))
    return case.out


def _options(case):
    return ["--data", case.data, "--spec", case.spec, "--out", case.out, "--repair-rows", 20, "--calibration-rows", 60]


@pytest.fixture
def copied(repaired, tmp_path):
    return shutil.copytree(repaired, tmp_path / "result")


def dossier(folder, out, *more):
    return run("report", folder, "--format", "dossier", "--out", out, *more)


def statements(text, mark):
    return re.findall(rf"^- \*\*\[{mark}\]\*\* (.*)$", text, re.MULTILINE)


def refused(result, out, words):
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert not os.path.lexists(out)


def test_the_folder_has_all_files_and_their_digests(repaired, tmp_path):
    out = tmp_path / "dossier"
    assert dossier(repaired, out).exit_code == 0
    files = {"certificate.json", "dossier.html", "dossier.md", "model.onnx", "report.html", "result.json", "spec.toml"}
    assert {path.name for path in out.iterdir()} == files | {"SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files}
    assert run("check", out / "certificate.json", out / "model.onnx", "--spec", out / "spec.toml").exit_code == 0
    assert load_report(out).document.as_dict() == load_report(repaired).document.as_dict()


def test_every_sentence_is_marked_and_only_the_claim_of_the_checker_is_proven(repaired, tmp_path):
    out = tmp_path / "dossier"
    assert dossier(repaired, out).exit_code == 0
    text = (out / "dossier.md").read_text()
    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert all(re.match(r"- \*\*\[(proven|recomputable|not claimed)\]\*\* ", item) for item in items)
    claim = json.loads(run("check", out / "certificate.json", out / "model.onnx", "--json").stdout)["claim"]
    assert "does not depend on age, gender or race" in claim
    explained, first, *others = statements(text, "proven")
    assert explained.startswith("The checker confirmed it")
    assert first == claim
    assert others == [
        "Race: the output does not depend on “race”, as the claim above says.",
        "Sex: the output does not depend on “gender”, as the claim above says.",
        "Age: the output does not depend on “age”, as the claim above says.",
        "The output of the model does not depend on “gender”, as the claim above says. A claim that scores differ by "
        "at most 0 would say the same.",
        f"Point 2(g), potentially discriminatory impacts: {claim}",
    ]
    open_ = " ".join(statements(text, "not claimed"))
    assert "That any law is complied with." in open_
    assert "Independence from color, religion, national origin, marital status or public assistance" in open_


def test_selection_rates_of_sex_race_and_both_are_those_of_the_result(repaired, tmp_path):
    out = tmp_path / "dossier"
    assert dossier(repaired, out).exit_code == 0
    text = (out / "dossier.md").read_text()
    tables = {tuple(table.features): table for table in load_report(repaired).document.outcomes.tables}
    for features, caption in [
        (("gender",), "Sex categories: gender"),
        (("race",), "Race/ethnicity categories: race"),
        (("gender", "race"), "Intersectional categories of sex and race/ethnicity: gender × race"),
    ]:
        _, found = text.split(f"**[recomputable]** {caption}\n\n")
        rows = [line.strip("| ").split(" | ") for line in found.split("\n\n")[0].splitlines()[2:]]
        groups = tables[features].groups
        assert [row[: len(features)] for row in rows] == [group.values for group in groups]
        assert [int(row[len(features)]) for row in rows] == [group.rows for group in groups]
        assert [int(row[len(features) + 1]) for row in rows] == [group.after.count for group in groups]


def test_the_page_says_the_same_and_loads_nothing(repaired, tmp_path):
    out = tmp_path / "dossier"
    assert dossier(repaired, out).exit_code == 0
    html, markdown = (out / "dossier.html").read_text(), (out / "dossier.md").read_text()
    page = Page(html)
    assert page.all("script") == page.all("img") == page.all("iframe") == []
    assert page.all("link") == [{"rel": "icon", "href": "data:,"}]
    [policy] = [each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    for mark in (PROVEN, RECOMPUTABLE, NOT_CLAIMED):
        for sentence in statements(markdown, mark):
            assert " ".join(re.sub(r"\\(.)", r"\1", sentence).split()) in page.text


def test_nothing_is_proven_by_what_result_json_says(copied, tmp_path):
    """The features that a claim is about come from the certificate, not from the document, which anyone can change."""
    report = load_report(copied)
    lie = replace(report.document, similar=replace(report.document.similar, protected=["age", "gender", "religion"]))
    changed = replace(lie, blind_features=["age", "gender", "religion"], everyone=True)
    type(report)(changed).save_data(copied / "result.json")
    assert dossier(copied, tmp_path / "dossier").exit_code == 0
    text = (tmp_path / "dossier" / "dossier.md").read_text()
    assert "Religion: “religion” is protected in the spec, and no proof is about it." in statements(text, "not claimed")
    assert not any("religion" in each for each in statements(text, "proven"))


def test_an_audit_proves_nothing_and_says_how_to_get_a_proof(tmp_path):
    case = Case(tmp_path)
    asked = ["--data", case.data, "--spec", case.spec, "--report", tmp_path / "audit"]
    assert run("audit", case.model, *asked).exit_code == 1
    assert dossier(tmp_path / "audit", tmp_path / "dossier").exit_code == 0
    text = (tmp_path / "dossier" / "dossier.md").read_text()
    assert len(statements(text, "proven")) == 1  # what the mark means
    assert any(each.startswith("There is no certificate") for each in statements(text, "not claimed"))
    assert any("are treated unequally" in each for each in statements(text, "recomputable"))
    missing = "Race/ethnicity categories: the result has no such table."
    assert any(each.startswith(missing) for each in statements(text, "not claimed"))
    assert "sha256sum -c SHA256SUMS" in text


def test_a_bound_of_prices_is_proven_for_whom_the_claim_is_about(tmp_path):
    case = PriceCase(tmp_path)
    asked = ["--data", case.data, "--spec", case.spec, "--out", tmp_path / "out", "--repair-rows", 10]
    succeeded(run("repair", case.model, *asked, "--method", "prof", "--steps", 10, "--calibration-rows", 30))
    assert dossier(tmp_path / "out", tmp_path / "dossier").exit_code == 0
    text = (tmp_path / "dossier" / "dossier.md").read_text()
    assert any(
        re.search(r"who may differ in “\w+”, differ by at most 50\.$", each) for each in statements(text, "proven")
    )
    assert any("the model is a regression network" in each for each in statements(text, "not claimed"))


def test_a_changed_model_or_certificate_is_refused_and_nothing_written(copied, tmp_path):
    out = tmp_path / "dossier"
    for name in ("model.onnx", "certificate.json"):
        kept = (copied / name).read_bytes()
        (copied / name).write_bytes(kept + b" ")
        refused(dossier(copied, out), out, f"{name}: not the file that result.json is about")
        (copied / name).unlink()
        refused(dossier(copied, out), out, "is not there")
        (copied / name).write_bytes(kept)


def test_a_certificate_that_does_not_hold_is_refused(copied, tmp_path):
    """Even if result.json names its digest."""
    content = json.loads((copied / "certificate.json").read_text())
    content["model"]["weights_sha256"] = "0" * 64
    (copied / "certificate.json").write_text(json.dumps(content))
    digest = hashlib.sha256((copied / "certificate.json").read_bytes()).hexdigest()
    data = json.loads((copied / "result.json").read_text())
    for file in data["origin"]["files"]:
        if file["role"] == "certificate":
            file["sha256"] = digest
    (copied / "result.json").write_text(json.dumps(data))
    out = tmp_path / "dossier"
    refused(dossier(copied, out), out, "so there is nothing to file")


def test_an_attestation_is_part_of_it_if_it_is_about_these_files(repaired, tmp_path):
    attestation, out = tmp_path / "a.json", tmp_path / "dossier"
    assert run("check", repaired / "certificate.json", repaired / "model.onnx", "--attest", attestation).exit_code == 0
    assert dossier(repaired, out, "--attestation", attestation).exit_code == 0
    assert (out / "attestation.json").read_bytes() == attestation.read_bytes()
    assert "--attestation attestation.json" in (out / "dossier.md").read_text()
    attestation.write_text(attestation.read_text().replace("does not depend", "never depends"))
    refused(dossier(repaired, tmp_path / "b", "--attestation", attestation), tmp_path / "b", "its claim is")
    digest = hashlib.sha256((repaired / "model.onnx").read_bytes()).hexdigest()
    attestation.write_text(attestation.read_text().replace(digest, "0" * 64))
    refused(
        dossier(repaired, tmp_path / "b", "--attestation", attestation), tmp_path / "b", "is for the model model.onnx"
    )


def test_where_it_cannot_be_written_nothing_is(repaired, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "this is a file" in dossier(repaired, tmp_path / "file").stderr
    refused(dossier(repaired, tmp_path / "file" / "in"), tmp_path / "file" / "in", "not a folder")
    assert (tmp_path / "file").read_text() == "x"
    before = sorted(os.listdir(repaired))
    assert "this is the folder of the result" in dossier(repaired, repaired).stderr
    assert sorted(os.listdir(repaired)) == before
    assert "needs --out" in run("report", repaired, "--format", "dossier").stderr
    assert "is for --format dossier" in run("report", repaired, "--attestation", "a.json").stderr
