"""A report and its file: what was saved comes back, and a broken result.json is refused in a sentence."""

import json
from dataclasses import asdict

import pytest

from fairmend.report import load_report
from support.cli_case import Case, run
from support.report_cases import audit_of, hostile, repair_of


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


SCORES = {"on": "logit", "delta": 1, "largest": 2, "median": 0, "p90": 1, "edges": [0, 2], "counts": [3]}


@pytest.mark.parametrize("name", MADE)
def test_what_is_saved_is_what_is_read(name, tmp_path):
    report = MADE[name]()
    report.save_data(tmp_path / "result.json")
    again = load_report(tmp_path)
    assert again.document == report.document
    assert again.html == report.html


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no result.json"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a result of fairmend"),
        ('{"format": "fairmend result", "version": 99}', "has version 99"),
        ('{"format": "fairmend result", "version": 2}', "kind is None; only a repair, an audit and quantify"),
        ('{"format": "fairmend result", "version": 2, "kind": "search"}', "kind is 'search'; only a repair"),
        ('{"format": "fairmend result", "version": 2, "kind": "audit"}', "fairmend: the field is missing"),
        ('{"format": "fairmend result", "version": 2, "kind": "audit", "evil": 1}', "evil: unknown field"),
    ],
)
def test_a_folder_without_good_data_is_exit_2(case, content, message):
    if content is not None:
        (case.folder / "result.json").write_text(content)
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (case.folder / "report.html").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("page"), "page: the field is missing"),
        (lambda d: d.update(page=None), "page: nothing to draw a page from"),
        (lambda d: d["page"].update(pairs=None), "page: ranges, flips and pairs must be given"),
        (lambda d: d.update(kind="audit"), ": unknown field"),
        (lambda d: d.update(kind="other"), "only a repair, an audit and quantify have a page"),
        (lambda d: d.update(class_names=["yes"]), "class_names: at least two"),
        (lambda d: d["page"]["ranges"].update(score="<b>"), "page.ranges.score"),
        (lambda d: d["page"]["ranges"]["before"][0].update(state="x"), "a state is not one of"),
        (lambda d: d["page"]["pairs"]["rows"][0]["values"].pop(), "page.pairs.rows[0]"),
        (lambda d: d["page"]["pairs"]["rows"][1].update(answers=[1]), "page.pairs.rows[1]"),
        (lambda d: d["page"]["pairs"]["rows"][0].update(answers_after=None), "page.pairs.rows[0]"),
        (lambda d: d["outcomes"]["tables"][0]["groups"][0].update(values=[]), "outcomes of 'age'"),
        (lambda d: d["outcomes"]["tables"][0]["groups"][0].update(after=None), "outcomes of 'age'"),
        (lambda d: d["about"].update(boss="x"), "about.boss: unknown field"),
        (lambda d: d["candidates"][0].update(guarantee="all"), "a guarantee is not one of"),
        (lambda d: d["policy"].update(prefer="<b>"), "policy.prefer"),
        (lambda d: d.update(policy=None), "policy: must be given with candidates"),
        (lambda d: d["claim"].update(on="<b>"), "claim"),
        (lambda d: d["after"]["groups"].pop(), "groups: those before and after do not fit"),
        (lambda d: d["after"].update(scores=SCORES), "after.scores: must be given for a claim about scores"),
        (lambda d: d["before"].update(scores=SCORES | {"counts": []}), "before.scores: must be given for a claim"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(case, change, message):
    plain = json.loads(json.dumps(asdict(repair_of().document)))
    change(plain)
    (case.folder / "result.json").write_text(json.dumps(plain))
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "bug" not in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "<b>"}, "on = '<b>' is not one of"),
        ({"counts": []}, "the edges and the counts do not fit"),
        ({"curve": []}, "the threshold and the curve do not fit"),
        ({"threshold": None}, "the threshold and the curve do not fit"),
        ({"above": []}, "the shares above 1, 5 and 10 points are needed"),
        ({"threshold": 0.123}, "the threshold that decides is not one of"),
    ],
)
def test_a_score_disparity_that_does_not_fit_is_refused(case, change, message):
    plain = json.loads(json.dumps(asdict(audit_of().document)))
    plain["disparity"].update(change)
    (case.folder / "result.json").write_text(json.dumps(plain))
    result = run("report", case.folder)
    assert result.exit_code == 2
    assert f"disparity: {message}" in " ".join(result.stderr.split())


def test_its_repr_names_the_kind_the_network_and_the_date():
    report = audit_of()
    assert repr(report) == f"Report(audit of model.onnx, {report.document.origin.created})"


def test_the_page_and_the_data_are_saved(tmp_path):
    report = audit_of()
    report.save(tmp_path / "page.html")
    report.save_data(tmp_path / "data.json")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    assert json.loads((tmp_path / "data.json").read_text()) == asdict(report.document)
