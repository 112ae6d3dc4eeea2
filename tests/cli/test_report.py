"""`fairmend report`, and the reports that the other commands write."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

from fairmend.evaluate.provenance import file_digest
from fairmend.network import Affine, Network
from fairmend.report import load_report
from support.cli_case import Case, run, small_network, small_people, small_spec
from support.html_page import Page
from support.report_cases import audit_of


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


def test_a_missing_folder_and_an_out_that_is_the_data_are_refused(case):
    assert run("report", case.folder / "none").exit_code == 2
    audit_of().save_data(case.folder / "report.json")
    before = (case.folder / "report.json").read_bytes()
    assert run("report", case.folder, "--out", case.folder / "report.json").exit_code == 2
    assert (case.folder / "report.json").read_bytes() == before


def test_every_repair_writes_a_report_that_can_be_regenerated(case):
    result = case.repair()
    assert result.exit_code == 0, result.stderr
    assert str(case.out / "report.html") in "".join(result.stdout.split("\n"))
    page = (case.out / "report.html").read_text()
    document = load_report(case.out).document
    figures = json.loads((case.out / "result.json").read_text())
    assert document.repair.before.unfair_rows == figures["before"]["unfair_data_rows"]
    assert document.repair.after.accuracy == figures["after"]["accuracy"]
    assert f"{document.repair.claim} {document.repair.beyond}" == figures["guarantee"]
    hashes = {file.role: file.sha256 for file in document.origin.files}
    assert hashes["model"] == file_digest(case.model)
    assert hashes["data"] == file_digest(case.data)
    assert hashes["repaired model"] == file_digest(case.out / "model.onnx")
    assert hashes["certificate"] == file_digest(case.out / "certificate.json")
    assert document.origin.command == shlex.join(["fairmend", *case.arguments()])
    assert document.origin.seed == 0
    # The command in the report is one that works.
    checked = run(*shlex.split(document.repair.check)[1:])
    assert checked.exit_code == 0, checked.output

    (case.out / "report.html").unlink()
    again = run("report", case.out, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["report"] == str(case.out / "report.html")
    assert (case.out / "report.html").read_text() == page


def test_a_repair_that_proves_nothing_has_no_certificate_to_check(case):
    assert case.repair(method="flip", steps=3).exit_code in (0, 1)
    document = load_report(case.out).document
    assert (document.repair.certified is None) == (not (case.out / "certificate.json").exists())
    assert (document.repair.check is None) == (document.repair.certified is None)


def test_every_audit_writes_a_report_unless_told_otherwise(case):
    arguments = ["audit", case.model, "--spec", case.spec, "--data", case.data]
    result = run(*arguments)
    assert result.exit_code == 1
    assert "fairmend-audit/report.html" in result.stdout
    document = load_report(case.folder / "fairmend-audit").document
    assert document.audit.total == len(small_people())
    assert {file.role for file in document.origin.files} == {"model", "spec", "data"}
    shown = json.loads(run(*arguments, "--json", "--report", case.folder / "elsewhere").stdout)
    assert shown["report"] == str(case.folder / "elsewhere" / "report.html")
    assert load_report(case.folder / "elsewhere").document.audit.count == shown["count"]
    before = case.listing()
    assert json.loads(run(*arguments, "--json", "--no-report").stdout)["report"] is None
    assert case.listing() == before


def test_the_report_on_samples_is_about_the_samples_of_the_audit(case):
    assert run("audit", case.model, "--spec", case.spec, "--samples", 700, "--seed", 4).exit_code == 1
    document = load_report(case.folder / "fairmend-audit").document
    assert document.audit.looked_at == 700
    assert document.flips.looked_at == document.audit.count


def test_a_report_folder_that_cannot_be_written_is_refused_before_the_work(case):
    (case.folder / "taken").write_text("mine")
    result = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--report", case.folder / "taken")
    assert result.exit_code == 2
    assert "--report" in result.stderr
    assert (case.folder / "taken").read_text() == "mine"


def test_only_the_first_rows_of_a_long_file_are_examined_in_detail(case, monkeypatch):
    monkeypatch.setattr(sys.modules["fairmend.audit.run"], "_EXAMINED_ROWS", 50)
    assert run("audit", case.model, "--spec", case.spec, "--data", case.data).exit_code == 1
    document = load_report(case.folder / "fairmend-audit").document
    assert (document.audit.looked_at, document.audit.total) == (50, 200)
    assert document.flips.looked_at < document.audit.count == document.pairs.total
    page = " ".join((case.folder / "fairmend-audit" / "report.html").read_text().split())
    assert "among the first 50" in page


def test_a_network_with_several_classes_is_reported_too(case):
    small_network(3).save(case.model)
    case.write(small_people().assign(good=lambda f: f.index % 3))
    result = case.repair()
    assert result.exit_code == 0, result.stderr
    assert load_report(case.out).document.ranges.score == "lead"


def test_the_report_of_an_audit_warns_that_the_spec_does_not_fit_the_network(case):
    constant = Network([Affine(np.zeros((1, small_spec().width), np.float32), np.ones(1, np.float32))], [])
    constant.save(case.model)
    shown = json.loads(run("audit", case.model, "--spec", case.spec, "--data", case.data, "--json").stdout)
    (warning,) = shown["warnings"]
    assert "gives all 200 people one answer" in warning
    folder = case.folder / "fairmend-audit"
    assert json.loads((folder / "report.json").read_text())["warnings"] == [warning]
    assert warning in Page((folder / "report.html").read_text()).text


def test_audit_and_report_do_not_load_pytorch(case):
    # Finite neighbourhoods, that is: the bounds of continuous ones need it.
    for arguments in (
        ["audit", case.model, "--spec", case.spec, "--data", case.data],
        ["report", case.folder / "fairmend-audit"],
    ):
        code = (
            "import sys\nfrom fairmend.cli.main import main\n"
            f"try: main({[str(argument) for argument in arguments]!r})\n"
            "except SystemExit: pass\nprint('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "report.html" in done.stdout
        assert done.stdout.splitlines()[-1] == "False"
