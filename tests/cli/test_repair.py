"""`fairmend repair`: what it writes is proven, and what it says is true."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.base.errors import FairmendError
from fairmend.cli.repair import command
from fairmend.evaluate import compare
from fairmend.network import load_network
from fairmend.prove.certificate import Certificate
from fairmend.repairing.options import GUARANTEES, PREFERENCES
from fairmend.report import load_report
from fairmend.spec import Claim, Label, Spec
from fairmend.tables import FIRST_ROW, read_table
from fairmend.workflows import repair as repair_workflow
from support.cli_case import refused, refused_in_one_line, run, small_network, small_people, small_spec, succeeded
from support.grade_case import GRADES, GradeCase, grade_spec, graded_people
from support.interrupts import take_interrupts

COMMAND = [sys.executable, "-c", "from fairmend.cli.main import main; main(prog_name='fairmend')"]


FILES = [
    "certificate.json",
    "model.onnx",
    "repair_inputs.csv",
    "report.html",
    "result.json",
    "spec.toml",
]


def test_repair_writes_a_network_that_is_fair_to_every_repair_input(case):
    original = load_network(case.model)
    succeeded(case.repair())
    assert sorted(path.name for path in case.out.iterdir()) == FILES
    net, spec = load_network(case.out / "model.onnx"), Spec.load(case.out / "spec.toml")
    assert spec == small_spec()
    repaired = read_table(case.out / "repair_inputs.csv")
    assert len(repaired) == 20
    assert find_unequal(original, spec, repaired).count > 0  # else there was nothing to repair
    assert find_unequal(net, spec, repaired).count == 0
    assert load_network(case.model) == original


def test_repair_says_before_and_after_and_what_is_proven(case):
    shown = case.repair().stdout
    figures = ("Repair inputs", "rows: treated unequally", "Accuracy", "Balanced accuracy", "Positive rate")
    for words in ("before", "after", *figures):
        assert words in shown
    assert "0 of 20" in shown
    words = " ".join(shown.split())
    assert (
        "on a random sample of 120 rows of the data that the repair did not use; they may have been used for training"
        in words
    )
    assert "Proven: each of the 20 repair inputs keeps its prediction whatever its age or gender" in words
    for name in FILES:
        assert name in shown


def recording(seen):
    def repair_files(*_, method, options, **__):
        seen.append({"method": method, **options})
        raise FairmendError("seen")

    return repair_files


def test_only_options_that_the_user_sets_reach_the_repair(case, monkeypatch):
    seen = []
    monkeypatch.setattr("fairmend.workflows.repair.repair_files", recording(seen))
    case.repair("--gap", "0", steps=7)
    assert seen == [{"method": "prof", "steps": 7, "gap": 0.0}]


def test_the_policy_of_auto_reaches_the_repair_and_its_choices_are_those_of_the_policy(case, monkeypatch):
    seen = []
    monkeypatch.setattr("fairmend.workflows.repair.repair_files", recording(seen))
    policy = ["--keep", "0.01", "--guarantee", "everyone", "--prefer", "decisions"]
    case.repair(*policy, method="auto")
    assert seen == [{"method": "auto", "keep": 0.01, "guarantee": "everyone", "prefer": "decisions"}]
    choices = {p.name: p.type.choices for p in command.params if p.name in ("guarantee", "prefer")}
    assert {name: tuple(values) for name, values in choices.items()} == {"guarantee": GUARANTEES, "prefer": PREFERENCES}


@pytest.mark.parametrize("option", ["--keep=0.01", "--guarantee=any", "--prefer=accuracy"])
def test_other_methods_refuse_a_policy_before_they_read_the_data(case, option, monkeypatch):
    monkeypatch.setattr("fairmend.workflows.repair.read_table", lambda source: pytest.fail("the data was read"))
    before = case.listing()
    refused_in_one_line(case.repair(option), "method prof does not use it; use method auto")
    assert case.listing() == before


def test_a_policy_that_no_candidate_meets_writes_nothing(case, monkeypatch):
    def refuse(*_, **__):
        raise FairmendError("no proven candidate keeps the balanced accuracy within 0.001; the closest is prof")

    monkeypatch.setattr(repair_workflow, "repair_and_compare", refuse)
    before = case.listing()
    result = case.repair("--keep", "0.001", method="auto")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "the closest is prof" in result.stderr
    assert case.listing() == before


def test_a_collapse_is_the_first_line_and_exit_1_and_the_files_are_written(case, monkeypatch):
    monkeypatch.setattr(repair_workflow, "repair_and_compare", collapsed)
    result = case.repair()
    assert result.exit_code == 1
    assert result.stdout.startswith("Collapsed: ")
    assert "What may help: more calibration rows than 60" in " ".join(result.stdout.split())
    assert sorted(path.name for path in case.out.iterdir()) == FILES
    assert run("check", str(case.out / "certificate.json"), str(case.out / "model.onnx")).exit_code == 0
    assert "But the repair collapsed: the model lost a class" in (case.out / "report.html").read_text()


def collapsed(*arguments, real=compare.repair_and_compare, **options):
    comparison = real(*arguments, **options)
    return replace(comparison, result=replace(comparison.result, collapsed=True))


def test_result_json_holds_the_figures_and_they_are_true(case):
    assert case.repair().exit_code == 0
    result = json.loads((case.out / "result.json").read_text())
    before, after = load_network(case.model), load_network(case.out / "model.onnx")
    spec, frame = small_spec(), small_people()
    X, y = spec.encode(frame), spec.labels(frame)
    repaired, calibrated = (np.array(result[name]) - FIRST_ROW for name in ("repair_rows", "calibration_rows"))
    used = {*repaired.tolist(), *calibrated.tolist()}
    assert len(used) == 80  # apart from each other
    scored = [row for row in range(len(X)) if row not in used]
    for name, net in (("before", before), ("after", after)):
        figures = result[name]
        assert figures["data"]["count"] == find_unequal(net, spec, X).count
        assert figures["utility"]["accuracy"] == pytest.approx((net.predict(X[scored]) == y[scored]).mean())
        assert figures["utility"]["positive_rate"] == pytest.approx(net.predict(X[scored]).mean())
    assert result["before"]["repair_inputs"]["count"] == find_unequal(before, spec, X[repaired]).count
    assert result["after"]["repair_inputs"]["count"] == 0
    assert result["changed_predictions"] == pytest.approx((before.predict(X) != after.predict(X)).mean())
    assert result["proven"] is True
    assert len(result["history"]["fair"]) == 10
    assert frame.iloc[repaired]["age"].tolist() == result_ages(case)


def result_ages(case):
    return read_table(case.out / "repair_inputs.csv")["age"].tolist()


def test_json_is_one_document_and_nothing_else(case):
    result = succeeded(case.repair("--json"))
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert sorted(document["files"]) == FILES
    assert all(os.path.isfile(path) for path in document["files"].values())
    check = document["certificate"]["check"]
    assert check["valid"] is True
    assert check["claim"]
    saved = json.loads((case.out / "result.json").read_text())
    assert saved.pop("page")["ranges"]
    assert document == saved


def test_the_same_seed_gives_the_same_network_and_another_does_not(case):
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert case.repair(out=case.folder / out, seed=seed).exit_code == 0
    a, b, c = ((case.folder / out / "model.onnx").read_bytes() for out in "abc")
    assert a == b
    assert a != c


def test_repair_inputs_may_come_from_a_file(case):
    chosen = small_people().iloc[5:12].drop(columns="good")
    chosen.to_parquet(case.folder / "chosen.parquet")
    result = succeeded(case.repair("--json", repair_data=case.folder / "chosen.parquet"))
    document = json.loads(result.stdout)
    assert (document["repair_inputs"], document["repair_rows"]) == (7, None)
    assert result_ages(case) == chosen["age"].tolist()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_network_keeps_its_format(case, suffix):
    model = case.folder / f"net{suffix}"
    small_network(activation="tanh").save(model)
    succeeded(case.repair("--activation", "tanh", model=model))
    repaired = load_network(case.out / f"model{suffix}", "tanh")
    assert [a.name for a in repaired.activations] == ["tanh", "tanh"]


def test_a_claim_about_scores_is_what_the_terminal_the_report_and_the_certificate_say(case):
    spec = small_spec()
    Spec(spec.features, spec.label, Claim("score", 0.05, "probability")).save(case.spec)
    result = succeeded(case.repair())
    words = " ".join(result.stdout.split())
    said = "of the 20 repair inputs keeps its probability within a range of 0.05 whatever its age or gender"
    assert f"Proven: each {said}" in words
    assert "unequally: the scores (probability) of two similar people differ by more than 0.05" in words
    page = (case.out / "report.html").read_text()
    assert f"Each {said}." in page
    assert "How far the scores of similar people differ" in page
    assert "decision line" not in page
    report = load_report(case.out).document
    assert report.before.scores.largest > 0.05 >= report.after.scores.largest


def test_a_regression_network_has_errors_and_no_accuracy(case):
    Spec(small_spec().features, Label("price"), Claim("score", 0.3, "output")).save(case.spec)
    people = small_people()
    case.write(people.assign(price=people["income"] / 50))
    result = succeeded(case.repair(method="blind"))
    assert "Mean absolute error" in result.stdout
    assert "ccuracy" not in result.stdout
    page = (case.out / "report.html").read_text()
    assert "R²" in page
    assert "does not depend on age or gender" in page
    assert load_report(case.out).document.after.scores.largest == 0
    saved = json.loads((case.out / "result.json").read_text())
    assert saved["changed_predictions"] is None
    assert saved["after"]["utility"]["mean_absolute_error"] > 0


@pytest.mark.parametrize("method", ["prof", "prof-concrete"])
def test_each_method_is_run(case, method):
    result = succeeded(case.repair("--json", method=method))
    assert json.loads(result.stdout)["method"] == method


def test_an_existing_folder_keeps_its_other_files_and_gets_new_ones(case):
    case.out.mkdir()
    (case.out / "notes.txt").write_text("mine")
    (case.out / "result.json").write_text("old")
    assert case.repair().exit_code == 0
    assert sorted(path.name for path in case.out.iterdir()) == sorted([*FILES, "notes.txt"])
    assert (case.out / "notes.txt").read_text() == "mine"
    assert json.loads((case.out / "result.json").read_text())["proven"]


def test_folders_on_the_way_are_made(case):
    assert case.repair(out=case.folder / "a" / "b" / "c").exit_code == 0
    assert (case.folder / "a" / "b" / "c" / "model.onnx").is_file()


@pytest.mark.parametrize("exact", [True, False])
def test_a_continuous_protected_feature_is_counted_as_by_an_audit_and_labelled_so(case, exact, monkeypatch):
    small_spec(kind="continuous").save(case.spec)
    if not exact:
        monkeypatch.setattr("fairmend.auditing.plan.EXACT_SECONDS", 0.0)
        monkeypatch.setattr("fairmend.auditing.plan._Costs.sampling", lambda _: 0.0)
    result = succeeded(case.repair())
    saved = json.loads((case.out / "result.json").read_text())
    assert ("(a lower" in result.stdout) is not exact
    assert ("at least" in saved["guarantee"]) is not exact
    assert saved["before"]["data"]["exact"] is exact


def test_few_rows_are_scored_on_all_and_that_is_said(case):
    case.write(small_people(100))
    result = succeeded(case.repair())
    assert "100 rows of the data, including those used for repair" in result.stdout


def test_more_rows_asked_for_than_there_are_is_a_warning(case):
    case.write(small_people(30))
    result = succeeded(case.repair("--json", repair_rows=50))
    document = json.loads(result.stdout)
    assert document["repair_inputs"] == 30
    warnings = " ".join(document["warnings"])
    assert "has only 30 rows, fewer than the 50" in warnings
    assert "too few rows to calibrate" in warnings


@pytest.mark.parametrize("outputs", [2, 3])
def test_several_outputs(case, outputs):
    small_network(outputs).save(case.model)
    frame = small_people()
    case.write(frame.assign(good=np.arange(len(frame)) % outputs) if outputs > 2 else frame)
    result = case.repair("--json", repair_rows=10)
    document = json.loads(result.stdout)
    assert result.exit_code == document["collapsed"], result.stderr
    assert document["after"]["repair_inputs"]["count"] == 0
    assert (document["after"]["utility"]["positive_rate"] is None) == (outputs > 2)


def test_a_single_class_to_calibrate_with_is_a_warning_and_a_result(case):
    case.write(small_people().assign(good="yes"))
    result = succeeded(case.repair())
    assert "Warning: every calibration row has the label 1" in result.stdout
    assert (case.out / "model.onnx").is_file()


def test_rows_all_equal_are_a_warning_and_a_result(case):
    case.write(pd.concat([small_people(1)] * 100))
    result = succeeded(case.repair("--json"))
    assert any("calibration rows are equal" in warning for warning in json.loads(result.stdout)["warnings"])
    assert (case.out / "model.onnx").is_file()


def test_a_positive_label_that_never_occurs_is_a_warning(case):
    case.write(small_people().replace({"good": {"yes": "Yes"}}))
    result = succeeded(case.repair("--json"))
    warnings = json.loads(result.stdout)["warnings"]
    assert any('never "yes"' in warning and '"Yes"' in warning for warning in warnings)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to pretend")
def test_ctrl_c_in_the_middle_exits_130_and_leaves_nothing(case):
    before = case.listing()
    terminal, its_end = os.openpty()
    arguments = case.arguments(steps=100_000_000)
    process = subprocess.Popen(
        [*COMMAND, *arguments], stderr=its_end, stdout=subprocess.PIPE, preexec_fn=take_interrupts
    )
    os.close(its_end)
    try:
        seen = read_until(terminal, b"Step 1")  # the bars of a terminal say where it is
        process.send_signal(signal.SIGINT)
        seen += read_until(terminal, b"nothing was written")
        assert process.wait(60) == 130
        assert process.stdout.read() == b""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(terminal)
    assert b"Traceback" not in seen
    assert case.listing() == before


def read_until(terminal, words, seconds=120):
    seen, deadline = b"", time.monotonic() + seconds
    with contextlib.suppress(OSError):  # the other end may be closed already
        while words not in seen and time.monotonic() < deadline:
            seen += os.read(terminal, 65536)
    assert words in seen, seen
    return seen


def test_auto_shows_what_it_tried_and_its_certificate_is_valid(case):
    result = succeeded(case.repair(method="auto"))
    assert "Candidates of auto" in result.output
    assert "→ " in " ".join(result.output.split())
    assert "The certificate is valid" in result.output
    succeeded(run("check", str(case.out / "certificate.json"), str(case.out / "model.onnx")))


def test_the_certificate_of_the_papers_method_is_valid_too(case):
    assert case.repair(method="prof").exit_code == 0
    checked = succeeded(run("check", str(case.out / "certificate.json"), str(case.out / "model.onnx"), "--json"))
    assert json.loads(checked.stdout)["valid"] is True


def test_a_baselines_certificate_says_whom_it_is_about(case):
    result = case.repair(method="flip", steps=1)
    assert result.exit_code == 1, result.output
    saved = json.loads((case.out / "result.json").read_text())
    some = f"{saved['proven_repair_inputs']} of the {saved['repair_inputs']} repair inputs"
    words = " ".join(result.output.split())
    assert 0 < saved["proven_repair_inputs"] < saved["repair_inputs"]
    assert f"certificate.json a certificate for {some}" in words
    assert f"The certificate is valid for {some} only" in words


def test_an_earlier_repair_in_the_folder_is_not_replaced_in_silence(case):
    first = case.repair()
    assert "earlier repair" not in first.stdout
    (case.out / "model.h5").write_bytes(b"of another repair")
    words = " ".join(case.repair().stdout.split())
    assert "These files replace an earlier repair" in words
    assert "Left over from the earlier repair: model.h5." in words


def test_the_network_of_an_earlier_repair_does_not_stay_beside_the_new_certificate(case):
    model = case.folder / "net.pth"
    small_network().save(model)
    assert case.repair(model=model).exit_code == 0
    words = " ".join(case.repair().stdout.split())
    assert "The network of the earlier repair was deleted: model.pth." in words
    assert sorted(path.name for path in case.out.iterdir()) == FILES


@pytest.mark.parametrize("changed", ["network", "report"])
def test_a_network_that_the_earlier_repair_may_not_have_written_is_kept(case, changed):
    model = case.folder / "net.pth"
    small_network().save(model)
    assert case.repair(model=model).exit_code == 0
    if changed == "network":
        small_network(seed=9).save(case.out / "model.pth")
    else:
        (case.out / "result.json").write_text("{}")
    mine = (case.out / "model.pth").read_bytes()
    assert "Left over from the earlier repair: model.pth." in " ".join(case.repair().stdout.split())
    assert (case.out / "model.pth").read_bytes() == mine


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_certificate_that_fails_its_own_check_is_not_published(case, monkeypatch, more):
    assert case.repair(seed=1).exit_code == 0
    before = case.listing()
    monkeypatch.setattr(Certificate, "save", forged)
    result = case.repair(*more, seed=2)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "the certificate failed its check (" in result.stderr
    assert "so nothing was written" in result.stderr
    assert case.listing() == before


def forged(self, path, model=None):
    content = {**self.content, "model": {**self.content["model"], "weights_sha256": "0" * 64}}
    Path(path).write_bytes(b"".join(replace(self, content=content).lines()))


def test_the_certificate_of_an_earlier_repair_stays_until_the_new_files_are_there(case, monkeypatch):
    """It was once deleted first, and a full disk left the other old files without it."""
    assert case.repair().exit_code == 0
    before = case.listing()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repair_workflow, "repair_and_compare", without_a_certificate)
    with monkeypatch.context() as patch:
        patch.setattr("fairmend.workflows.repair.write_report", full)
        result = case.repair(method="flip", steps=1)
    refused(result, "No space left on device")
    assert case.listing() == before
    assert json.loads(case.repair("--json", method="flip", steps=1).stdout)["certificate"] is None
    assert not (case.out / "certificate.json").exists()


def without_a_certificate(*arguments, real=compare.repair_and_compare, **options):
    comparison = real(*arguments, **options)
    return replace(comparison, result=replace(comparison.result, certificate=None))


def test_people_out_of_range_are_handled_and_the_certificate_is_about_the_widened_spec(case):
    frame = small_people()
    frame.loc[4, "credits"] = 9
    case.write(frame)
    answer = case.repair()
    assert answer.exit_code == 2
    assert 'feature "credits", row 6: 9 is above the range 0 to 5' in " ".join(answer.stderr.split())
    assert not case.out.exists()
    result = succeeded(case.repair("--out-of-range", "widen"))
    assert "credits: 1 above, now 0 to 9" in " ".join(result.stdout.split())
    assert Spec.load(case.out / "spec.toml").features[3].range == (0, 9)
    assert fairmend.check(case.out / "certificate.json", case.out / "model.onnx", spec=case.out / "spec.toml").valid
    assert json.loads((case.out / "result.json").read_text())["out_of_range"]["ranges"] == {"credits": [0, 9]}


def test_a_blind_repair_needs_no_range(case):
    frame = small_people()
    frame.loc[4, "credits"] = 9
    case.write(frame)
    succeeded(run(*[word for word in case.arguments(method="blind") if word not in ("--steps", "10")]))
    claim = json.loads((case.out / "certificate.json").read_text())["claim"]
    assert "every input" in claim.lower() or "everyone" in claim.lower()


def test_a_network_of_many_classes_is_repaired_with_their_names_and_no_positive_value(tmp_path):
    case = GradeCase(tmp_path)
    arguments = ("--repair-rows", 20, "--calibration-rows", 60, "--method", "prof", "--steps", 2, "--out", case.out)
    result = case.run("repair", *arguments)
    document = load_report(case.out).document
    assert result.exit_code == document.collapsed, result.stderr
    assert Spec.load(case.out / "spec.toml") == grade_spec()
    checked = fairmend.check(case.out / "certificate.json", case.out / "model.onnx", spec=case.out / "spec.toml")
    assert checked.valid, checked.reasons
    assert "The predictions are the classes A, B, C, D, E and F." in checked.claim
    assert "gender 1 (male), 2 (female)" in checked.claim
    assert "classes A, B, C, D, E and F" in json.loads((case.out / "certificate.json").read_text())["claim"]
    assert document.class_names == list(GRADES)
    pairs = document.page.pairs
    assert pairs.id_column == "customer"
    people = graded_people()
    for pair in pairs.rows:
        assert pair.id == people["customer"][pair.row - FIRST_ROW]
        assert pair.values[pairs.columns.index("gender")] in ("male", "female")
    for figures in (document.before, document.after):
        (gender,) = [feature for feature in figures.groups if feature.feature == "gender"]
        assert all(sum(group.class_rates) == pytest.approx(1) for group in gender.groups)


def test_the_classes_must_be_as_many_as_the_outputs(tmp_path):
    case = GradeCase(tmp_path)
    spec = grade_spec()
    Spec(spec.features, Label("grade", classes=GRADES[:5]), id_column="customer").save(case.spec)
    result = refused(case.run("repair", "--out", case.out), "has 6 outputs")
    assert "names 5 classes" in " ".join(result.stderr.split())


def test_figures_come_from_the_test_data_and_are_called_so(case):
    test = small_people(400).iloc[200:]
    test.to_csv(case.folder / "test.csv", index=False)
    result = succeeded(case.repair("--test-data", case.folder / "test.csv"))
    assert "on the 200 rows of the test data" in " ".join(result.stdout.split())
    shown = json.loads((case.out / "result.json").read_text())
    assert (shown["scored_rows"], shown["scored_rows_are_test_data"]) == (200, True)
    X, y = small_spec().encode(test), small_spec().labels(test)
    for name, path in (("before", case.model), ("after", case.out / "model.onnx")):
        predicted = load_network(path).predict(X)
        assert shown[name]["utility"]["accuracy"] == pytest.approx((predicted == y).mean())
        assert shown[name]["utility"]["positive_rate"] == pytest.approx(predicted.mean())
    assert shown["unlabelled_rows"] == 120  # none of the data is left aside to measure on
    page = (case.out / "report.html").read_text(encoding="utf-8")
    assert "Measured on the 200 rows of the test data." in page
    assert load_report(case.out).document.scored_rows_are_test_data
    (source,) = [file for file in load_report(case.out).document.origin.files if file.role == "test data"]
    assert source.name == "test.csv"


def test_bad_test_data_is_refused_by_file_and_row(case):
    small_people(50).assign(age=300).to_csv(case.folder / "test.csv", index=False)
    result = case.repair("--test-data", case.folder / "test.csv")
    assert result.exit_code == 2
    assert 'test.csv: feature "age", row 2: 300 is above the range' in " ".join(result.stderr.split())
    assert not case.out.exists()
