"""A report: what it is about, and the two files that hold it."""

import json
from dataclasses import asdict

import pytest

from fairmend.report import load_report
from support.cli_case import Case, run
from support.report_cases import audit_of, hostile, repair_of

# Reading report.json: what was saved comes back, and a broken file is refused in a sentence.


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


MADE = {
    "repair": repair_of,
    "three classes": lambda: repair_of("prof", 3),
    "audit": audit_of,
    "samples": lambda: audit_of(sampled=True),
    "hostile": lambda: hostile()[0],
}


SCORES = {"on": "logit", "delta": 1, "largest": 2, "median": 0, "p90": 1, "edges": [0, 2], "counts": [3], "errors": {}}


@pytest.mark.parametrize("name", MADE)
def test_what_is_saved_is_what_is_read(name, tmp_path):
    report = MADE[name]()
    report.save_data(tmp_path / "report.json")
    again = load_report(tmp_path)
    assert again.document == report.document
    assert again.html == report.html


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no report.json"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not the data of a report"),
        ('{"format": "fairmend report", "version": 99}', "has version 99"),
        ('{"format": "fairmend report", "version": 2}', "kind: the field is missing"),
        ('{"format": "fairmend report", "version": 2, "evil": 1}', "evil: unknown field"),
    ],
)
def test_a_folder_without_good_data_is_exit_2(case, content, message):
    if content is not None:
        (case.folder / "report.json").write_text(content)
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (case.folder / "report.html").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(repair=None), "either a repair or an audit"),
        (lambda d: d.update(kind="audit"), "either a repair or an audit"),
        (lambda d: d.update(kind="other"), "either a repair or an audit"),
        (lambda d: d.update(answers=["yes"]), "answers: at least two"),
        (lambda d: d["ranges"].update(score="<b>"), "ranges.score"),
        (lambda d: d["ranges"]["before"][0].update(state="x"), "a state is not one of"),
        (lambda d: d["pairs"]["rows"][0]["values"].pop(), "pairs.rows[0]"),
        (lambda d: d["pairs"]["rows"][1].update(answers=[1]), "pairs.rows[1]"),
        (lambda d: d["pairs"]["rows"][0].update(answers_after=None), "pairs.rows[0]"),
        (lambda d: d["outcomes"]["tables"][0]["groups"][0].update(values=[]), "outcomes of 'age'"),
        (lambda d: d["outcomes"]["tables"][0]["groups"][0].update(after=None), "outcomes of 'age'"),
        (lambda d: d["about"].update(boss="x"), "about.boss: unknown field"),
        (lambda d: d["repair"]["candidates"][0].update(guarantee="all"), "a guarantee is not one of"),
        (lambda d: d["repair"]["policy"].update(prefer="<b>"), "repair.policy.prefer"),
        (lambda d: d["repair"].update(scores_after=SCORES | {"on": "<b>"}), "repair.scores_after: no claim"),
        (lambda d: d["repair"].update(scores_before=SCORES | {"counts": []}), "repair.scores_before: the edges"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(case, change, message):
    plain = json.loads(json.dumps(asdict(repair_of().document)))
    change(plain)
    (case.folder / "report.json").write_text(json.dumps(plain))
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "bug" not in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "<b>"}, "on = '<b>' is not one of"),
        ({"counts": []}, "the edges and the counts do not fit"),
        ({"unequal": []}, "the thresholds and the shares do not fit"),
        ({"threshold": None}, "the thresholds and the shares do not fit"),
        ({"threshold": 0.123}, "the threshold that decides is not one of"),
    ],
)
def test_a_score_disparity_that_does_not_fit_is_refused(case, change, message):
    plain = json.loads(json.dumps(asdict(audit_of().document)))
    plain["audit"]["disparity"].update(change)
    (case.folder / "report.json").write_text(json.dumps(plain))
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert f"audit.disparity: {message}" in " ".join(result.stderr.split())


def test_an_audit_of_an_older_version_has_no_score_disparity(tmp_path):
    plain = json.loads(json.dumps(asdict(audit_of().document)))
    del plain["audit"]["disparity"]
    (tmp_path / "report.json").write_text(json.dumps(plain))
    assert "Score disparity" not in load_report(tmp_path).html


def test_a_file_of_an_older_version_of_fairmend_is_read(tmp_path):
    """Fields that came later have a default."""
    plain = json.loads(json.dumps(asdict(repair_of().document)))
    for name in ("blind_features", "collapsed", "unlabelled_rows", "policy"):
        del plain["repair"][name]
    for candidate in plain["repair"]["candidates"]:
        for name in ("accuracy", "blind_features", "collapsed", "on_frontier", "ran"):
            del candidate[name]
    (tmp_path / "report.json").write_text(json.dumps(plain))
    html = load_report(tmp_path).html
    assert "does not depend on age or gender" in html
    assert "Candidates, and how one was selected" in html


def test_its_repr_names_the_kind_the_network_and_the_date():
    report = audit_of()
    assert repr(report) == f"Report(audit of model.onnx, {report.document.origin.created})"


def test_the_page_and_the_data_are_saved(tmp_path):
    report = audit_of()
    report.save(tmp_path / "page.html")
    report.save_data(tmp_path / "data.json")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    assert json.loads((tmp_path / "data.json").read_text()) == asdict(report.document)
