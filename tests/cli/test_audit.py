"""`fairmend audit` from the shell: what it counts, shows and writes, and how it ends."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.auditing import plan, slices
from fairmend.auditing.neighbours import find_unequal
from fairmend.base.text import percent
from fairmend.evaluate.utility import utility
from fairmend.network import Affine, Network
from fairmend.report import load_report
from fairmend.spec import Spec
from fairmend.tables import FIRST_ROW, read_table
from support.cli_case import Case, refused, refused_in_one_line, run, small_network, small_people, small_spec, succeeded
from support.grade_case import GRADES, GradeCase, grade_spec, graded_people
from support.peak_memory import SCRIPT, needs_proc
from support.price_case import PriceCase


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the report goes
    return Case(tmp_path)


def audit(case, *more, data=True):
    files = ["--data", case.data] if data else []
    return run("audit", case.model, "--spec", case.spec, *files, *more)


def document(case, *more, **options):
    result = audit(case, "--json", *more, **options)
    assert result.stderr == ""
    return json.loads(result.stdout)


def indifferent():
    """Return a network that reads only income."""
    weight = np.zeros((1, small_spec().width), np.float32)
    weight[0, 3] = 1
    return Network([Affine(weight, np.zeros(1, np.float32))], [])


def narrow():
    """Return a network that reads fewer columns than the spec describes."""
    return Network([Affine(np.ones((1, 3), np.float32), np.ones(1, np.float32))], [])


def test_unequal_people_are_exit_1_with_count_share_and_described_pairs(case):
    result = audit(case, "--pairs", "3")
    net, spec, people = small_network(), small_spec(), small_people()
    unequal = find_unequal(net, spec, people)
    assert result.exit_code == 1, result.stderr
    for words in ("Treated unequally", f"{unequal.count}", percent(unequal.rate, 2), "The same person", "instead of"):
        assert words in result.stdout
    for words in ("Accuracy", "Balanced accuracy", "AUC", "Gaps by age in 4 bins", "Gaps by gender"):
        assert words in result.stdout
    assert result.stdout.count("row ") == 5  # three pairs, the largest score disparity, and how rows are numbered
    assert "confidence interval" not in result.stdout
    assert "IDI" not in result.stdout  # the paper's names stay in its tables, in the JSON and in the report


def test_no_one_unequal_is_exit_0(case):
    indifferent().save(case.model)
    result = succeeded(audit(case))
    assert re.search(rf"Share treated unequally +{percent(0)} *\n", result.stdout)
    assert "instead of" not in result.stdout


def test_json_is_one_document_and_its_figures_are_true(case):
    shown = document(case)
    net, spec, people = small_network(), small_spec(), small_people()
    X, y = spec.encode(people), spec.labels(people)
    assert shown["count"] == find_unequal(net, spec, X).count
    assert (shown["total"], shown["exact"], shown["sampled"], shown["interval"]) == (len(X), True, False, None)
    figures = utility(net, X, y)
    assert shown["utility"]["auc"] == pytest.approx(figures.auc)
    assert shown["utility"]["accuracy"] == pytest.approx(figures.accuracy)
    assert [group["feature"] for group in shown["groups"]] == ["age", "gender"]
    assert [group["binned"] for group in shown["groups"]] == [True, False]
    for pair in shown["pairs"]:
        both = spec.encode(pd.DataFrame([pair["values"], pair["other_values"]]))
        assert net.predict(both).tolist() == pair["answers"]
        assert people["age"].iloc[pair["row"] - FIRST_ROW] == pair["values"]["age"]


def test_without_data_the_input_space_is_sampled(case):
    shown = document(case, "--samples", "2000", "--seed", "5", data=False)
    report = fairmend.audit(small_network(), small_spec(), samples=2000, seed=5)
    assert (shown["count"], shown["total"], shown["sampled"]) == (report.count, 2000, True)
    assert shown["interval"] == list(report.interval)
    assert shown["utility"] is None
    text = audit(case, "--samples", "2000", data=False)
    assert "Treated unequally" in text.stdout
    assert "95 % confidence interval" in text.stdout


def test_a_continuous_protected_feature_is_decided_exactly_or_sampled_and_that_is_said(case, monkeypatch):
    small_spec(kind="continuous").save(case.spec)
    result = audit(case)
    assert result.exit_code == 1, result.stderr
    assert "at least" not in result.stdout.partition("Score disparity")[0]
    monkeypatch.setattr(plan, "EXACT_SECONDS", 0.0)
    monkeypatch.setattr(plan._Costs, "sampling", lambda _: 0.0)
    result = audit(case)
    words = " ".join(result.stdout.split())
    assert result.exit_code == 1, result.stderr
    assert "at least" in words
    assert re.search(r"Only random counterfactuals were tried.* would take about .*: pass --method exact", words)


def test_a_long_audit_says_how_long_it_takes(case, monkeypatch):
    monkeypatch.setattr("fairmend.cli.results._LONG", 0.0)
    result = audit(case, "--method", "exact", "--no-report")
    assert re.search(r"About 1 s: 200 rows, \d+ neighbours each, by enumeration. --method sample", result.stderr)
    assert document(case, "--method", "branch")["method"] == "branch"


def test_parquet_gives_the_same_as_csv(case):
    before = document(case)
    case.data = case.folder / "people.parquet"
    small_people().to_parquet(case.data)
    after = document(case)
    for key in ("seconds", "origin", "title"):
        before.pop(key), after.pop(key)
    assert before == after


def test_every_unequal_row_is_written_with_a_neighbour(case):
    out = case.folder / "unequal.csv"
    out.write_text("old")
    result = audit(case, "--out", out)
    assert result.exit_code == 1
    assert "unequal.csv" in "".join(result.stdout.split())
    table, people, net, spec = read_table(out), small_people(), small_network(), small_spec()
    unequal = find_unequal(net, spec, people)
    assert table["row"].tolist() == (np.flatnonzero(unequal.rows) + FIRST_ROW).tolist()
    names = [f.name for f in spec.features]
    assert table["age"].tolist() == people["age"].iloc[table["row"] - FIRST_ROW].tolist()
    called = np.array(["not yes", "yes"])
    assert called[net.predict(spec.encode(table[names]))].tolist() == table["answer"].tolist()
    others = table[names].assign(age=table["other_age"], gender=table["other_gender"])
    assert called[net.predict(spec.encode(others))].tolist() == table["other_answer"].tolist()
    assert (table["answer"] != table["other_answer"]).all()
    assert net.probabilities(spec.encode(others)) == pytest.approx(table["other_score"].to_numpy(), abs=1e-6)
    indifferent().save(case.model)
    assert audit(case, "--out", out).exit_code == 0
    assert out.read_text().splitlines() == [",".join(table.columns)]


def test_no_label_no_utility_and_missing_labels_are_left_out(case):
    case.write(small_people().drop(columns="good"))
    assert document(case)["utility"] is None
    case.write(small_people().assign(good=lambda f: f["good"].where(f.index >= 50)))
    shown = document(case)
    assert shown["labelled_rows"] == len(small_people()) - 50
    assert shown["total"] == len(small_people())


def test_one_class_of_labels_has_no_auc_and_no_crash(case):
    case.write(small_people().assign(good="yes"))
    shown = document(case)
    assert shown["utility"]["auc"] is None
    assert all("has the label" in group["reason"] for group in shown["groups"])
    result = audit(case)
    assert result.exit_code == 1
    assert "AUC" not in result.stdout


def test_several_outputs(case):
    small_network(3).save(case.model)
    case.write(small_people().assign(good=lambda f: f.index % 3))
    shown = document(case)
    assert shown["count"] == find_unequal(small_network(3), small_spec(), small_people()).count
    assert 0 < shown["utility"]["auc"] < 1
    assert all("two classes" in group["reason"] for group in shown["groups"])


def test_the_figures_of_a_sorted_file_are_those_of_all_rows(case, monkeypatch):
    """Sorted by label and gender, the first rows have one label and one gender."""
    monkeypatch.setattr("fairmend.tables.stream.PIECE", 30)
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 64)
    monkeypatch.setattr(slices, "_EXAMINED_ROWS", 50)
    frame, net, spec = small_people().sort_values(["good", "gender"]), small_network(), small_spec()
    case.write(frame)
    shown = document(case)
    X, y = spec.encode(frame), spec.labels(frame)
    assert shown["labelled_rows"] == len(frame)
    assert shown["utility"]["accuracy"] == utility(net, X, y).accuracy
    assert shown["utility"]["auc"] == pytest.approx(utility(net, X, y).auc)
    groups = {group["feature"]: group["groups"] for group in shown["groups"]}
    assert {group["name"]: group["rows"] for group in groups["gender"]} == frame["gender"].value_counts().to_dict()
    found = load_report(case.folder / "fairmend-audit").document
    unequal, predicted = find_unequal(net, spec, frame).rows, net.predict(X)
    (gender,) = [each for each in found.groups if each.feature == "gender"]
    for group in gender.groups:
        mine = (frame["gender"] == group.name).to_numpy()
        assert group.rows == mine.sum()
        assert group.selection_rate == pytest.approx(predicted[mine].mean())
        assert group.unfair_rate == pytest.approx(unequal[mine].mean())
    assert found.class_names == ["no", "yes"]
    assert found.page.looked_at == 50
    rows = np.array([pair.row for pair in found.page.pairs.rows]) - FIRST_ROW
    assert unequal[rows].all()
    assert (rows > 100).any()


def test_a_label_that_is_never_positive_is_a_warning(case):
    case.write(small_people().assign(good="maybe"))
    (warning,) = [text for text in document(case)["warnings"] if "never" in text]
    assert 'the label "good" is never "yes" in ' in warning
    assert '(it is "maybe")' in warning
    assert "Warning: the label" in audit(case).stdout


def test_bad_rows_are_named_by_file_and_row(case, monkeypatch):
    monkeypatch.setattr("fairmend.tables.stream.PIECE", 30)
    case.write(small_people().assign(age=lambda f: f["age"].where(f.index != 77, 300)))
    result = audit(case)
    assert result.exit_code == 2
    assert f'{case.data}: feature "age", row 79: 300 is above the range' in " ".join(result.stderr.split())


def test_all_bad_rows_of_the_file_are_counted(case, monkeypatch):
    monkeypatch.setattr("fairmend.tables.stream.PIECE", 30)
    case.write(small_people().assign(age=lambda f: f["age"].where(f.index < 77, 300)))
    result = audit(case)
    assert result.exit_code == 2
    assert "123 of all 200 rows have this problem." in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.data.unlink(), "no such file"),
        (lambda c: c.data.write_text(""), "the file is empty"),
        (lambda c: c.spec.unlink(), "cannot read the spec"),
        (lambda c: c.model.unlink(), "model.onnx"),
        (lambda c: c.write(small_people().drop(columns="age")), 'no column "age"'),
        (lambda c: narrow().save(c.model), "reads 3 columns"),
    ],
)
def test_bad_input_is_exit_2_and_no_traceback(case, change, message):
    change(case)
    out = case.folder / "unequal.csv"
    result = audit(case, "--out", out)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert [path.name for path in case.folder.iterdir() if "unequal" in path.name] == []


def test_an_out_that_cannot_be_written_is_refused(case):
    for out, message in (
        (case.folder / "none" / "x.csv", "cannot write there"),
        (case.folder / "x.txt", "written as CSV"),
        (case.data, "would overwrite an input"),
    ):
        result = audit(case, "--out", out)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


MEMORY = f"""
import sys
from pathlib import Path
{SCRIPT}from fairmend.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 1, end.code
print(peak_megabytes(), file=sys.stderr)
"""


@needs_proc
def test_a_long_file_takes_less_than_500_mb(case):
    people = small_people().drop(columns=["good", "remark"])
    part = people.to_csv(index=False)
    case.data.write_text(part + part.partition("\n")[2] * 999)
    arguments = ["audit", case.model, "--spec", case.spec, "--data", case.data, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *map(os.fspath, arguments)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["total"] == len(people) * 1000
    assert float(done.stderr) < 500


def test_scores_are_audited_with_their_largest_difference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = PriceCase(tmp_path, delta=30)
    common = ("audit", case.model, "--spec", case.spec, "--data", case.data, "--pairs", 2)
    result = run(*common, "--out", "pairs.csv")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "Allowed difference of the output 30" in text
    assert "Score disparity: largest 40" in text
    assert "differs by 40" in text
    assert "Mean absolute error" in text
    assert "class" not in text
    table = pd.read_csv("pairs.csv")
    assert len(table) == 60
    assert (table["other_score"] - table["score"] == 40).all()
    assert not [name for name in table if "answer" in name]
    document = json.loads(run(*common, "--no-report", "--json").stdout)
    assert document["scores"]["largest"] == 40
    assert (document["utility"]["accuracy"], document["utility"]["r2"] > 0.9) == (None, True)
    assert document["pairs"][0]["answers"] is None


def test_scores_within_delta_are_equal_treatment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = PriceCase(tmp_path, delta=40)
    assert run("audit", case.model, "--spec", case.spec, "--data", case.data, "--no-report").exit_code == 0


@pytest.mark.parametrize("line", ["delta = 0.0", "delta = -3", "delta = nan", "kind = 'scores'", "on = 'score'", ""])
@pytest.mark.parametrize("command", ["audit", "certify"])
def test_a_wrong_claim_is_refused_in_one_line_and_nothing_is_written(command, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = PriceCase(tmp_path)
    key = line.partition(" ")[0] or "delta"
    kept = [f"{line}" if entry.startswith(f"{key} = ") else entry for entry in case.spec.read_text().splitlines()]
    # The kinds of features are left as they are: the claim comes before them.
    start = kept.index("[[feature]]")
    case.spec.write_text("\n".join([*kept[:start], *case.spec.read_text().splitlines()[start:]]))
    before = sorted(path.name for path in tmp_path.iterdir())
    refused_in_one_line(run(command, case.model, "--spec", case.spec, "--data", case.data), "[claim]")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def people_out_of_range():
    frame = small_people()
    frame.loc[[3, 30], "income"] = 500.5, -7
    return frame


@pytest.mark.parametrize(
    ("policy", "total", "words"),
    [
        ("clip", 200, "2 rows with a value out of range: the value was moved to the nearest end of the range (clip)"),
        ("skip", 198, "2 rows with a value out of range: left out (skip)"),
        ("widen", 200, "income: 1 below, 1 above, now -7 to 500.5"),
    ],
)
def test_values_out_of_range_are_handled_counted_and_reported(case, policy, total, words):
    case.write(people_out_of_range())
    assert audit(case).exit_code == 2
    result = audit(case, "--out-of-range", policy)
    assert words in " ".join(result.stdout.split())
    assert words in " ".join(Path("fairmend-audit/report.html").read_text(encoding="utf-8").split())
    shown = document(case, "--out-of-range", policy, "--report", "other")
    assert shown["total"] == total
    assert shown["out_of_range"]["features"] == {"income": {"below": 1, "above": 1, "unknown": 0}}
    if policy == "widen":
        assert shown["files"]["spec.toml"] == str(Path("other", "spec.toml"))
        assert Spec.load("other/spec.toml").features[2].range == (-7, 500.5)
    else:
        assert "spec.toml" not in shown["files"]


def test_rows_after_a_row_that_was_left_out_keep_their_numbers(case):
    case.write(people_out_of_range())
    out = case.folder / "unequal.csv"
    audit(case, "--out-of-range", "skip", "--out", out)
    table = read_table(out)
    assert table["age"].tolist() == small_people()["age"].iloc[table["row"] - FIRST_ROW].tolist()
    assert not {3 + FIRST_ROW, 30 + FIRST_ROW} & set(table["row"])


def test_samples_are_never_out_of_range(case):
    refused(audit(case, "--out-of-range", "clip", data=False), "--out-of-range needs --data")


def test_classes_codes_and_ids_are_called_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case, people, net, spec = GradeCase(tmp_path), graded_people(), small_network(6, seed=8), grade_spec()
    result = case.run("audit", "--out", "unequal.csv", "--pairs", 3)
    assert result.exit_code == 1, result.stderr
    words = " ".join(result.stdout.split())
    shown = json.loads(case.run("audit", "--json", "--no-report", "--pairs", 3).stdout)
    for pair in shown["pairs"]:
        position = pair["row"] - FIRST_ROW
        assert pair["id"] == people["customer"][position]
        assert pair["answer_names"] == [GRADES[answer] for answer in pair["answers"]]
        assert f'row {pair["row"]} ({pair["id"]}): "{pair["answer_names"][0]}"' in words
    assert "gender male instead of female" in words
    table = read_table("unequal.csv")
    assert table["customer"].tolist() == people["customer"].iloc[table["row"] - FIRST_ROW].tolist()
    answers = net.predict(spec.encode(table))
    assert table["answer"].tolist() == [GRADES[answer] for answer in answers]
    page = Path("fairmend-audit/report.html").read_text(encoding="utf-8")
    assert '<th scope="col">customer</th>' in page
    assert f"<td>{shown['pairs'][0]['id']}</td>" in page
    predicted = np.array(GRADES)[net.predict(spec.encode(people))]
    gender = next(group for group in shown["groups"] if group["feature"] == "gender")
    rates = {group["name"]: group["class_rates"] for group in gender["groups"]}
    for code, name in ((1, "male"), (2, "female")):
        mine = predicted[people["gender"] == code]
        assert rates[name] == pytest.approx([(mine == grade).mean() for grade in GRADES])
    found = next(group for group in load_report("fairmend-audit").document.groups if group.feature == "gender")
    assert [group.name for group in found.groups] == ["male", "female"]
    assert found.groups[0].class_rates == rates["male"]


def test_labels_that_are_no_class_are_counted_as_missing_and_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = GradeCase(tmp_path)
    people = graded_people()
    people.loc[[4, 9], "grade"] = "G"
    people.to_csv(case.data, index=False)
    shown = json.loads(case.run("audit", "--json", "--no-report").stdout)
    assert shown["labelled_rows"] == 198
    assert any('with the label "G" count as' in warning for warning in shown["warnings"])


def test_a_wrong_column_of_ids_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = GradeCase(tmp_path)
    graded_people().rename(columns={"customer": "Customer"}).to_csv(case.data, index=False)
    refused(case.run("audit"), 'no column "customer" for the ids (did you mean "Customer"?)')


@pytest.mark.parametrize(("labels", "name"), [(("yes", "no"), "no"), (("yes", "no", "maybe"), "not yes")])
def test_the_other_class_is_called_by_the_other_value_of_two(case, labels, name):
    people = small_people()
    case.write(people.assign(good=[labels[row % len(labels)] for row in range(len(people))]))
    shown = json.loads(audit(case, "--json", "--no-report").stdout)
    assert {pair["answer_names"][pair["answers"].index(0)] for pair in shown["pairs"]} == {name}
    quoted = '"no" (' if name == "no" else 'not "yes" ('
    assert quoted in audit(case, "--no-report").stdout


def test_files_are_audited_in_processes_and_resumed_with_the_same_report(case, tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    frame = small_people().assign(customer=[f"C-{row}" for row in range(200)])
    frame.loc[150, "income"] = 500.0
    for number in range(4):
        frame.iloc[50 * number :][:50].to_parquet(folder / f"{number}.parquet")
    Spec(small_spec().features, small_spec().label, id_column="customer").save(case.spec)
    case.data, resume = folder, ["--resume", tmp_path / "parts"]
    common, found = ["--out-of-range", "widen", "--no-report", "--out", tmp_path / "unequal.csv"], []
    for options in ([], ["--jobs", "2"], resume, resume):
        report = document(case, *common, *options)
        del report["seconds"], report["origin"]
        found.append((report, (tmp_path / "unequal.csv").read_text()))
    assert all(each == found[0] for each in found)
    assert (found[0][0]["total"], found[0][0]["out_of_range"]["rows"], found[0][0]["labelled_rows"]) == (200, 1, 200)
    refused(
        audit(case, *common, *resume, "--seed", "3"),
        "parts: holds results for another set of options; choose another folder",
    )


def test_a_folder_of_another_model_is_refused_for_the_model_alone(case, tmp_path):
    """A network that reads no protected feature needs no range, so values out of range are treated otherwise."""
    options = ["--no-report", "--resume", tmp_path / "parts"]
    assert audit(case, *options).exit_code == 1
    weight = np.zeros((1, small_spec().width), np.float32)
    weight[0, 3] = 1
    Network([Affine(weight, np.zeros(1, np.float32))], []).save(case.model)
    refused(audit(case, *options), "parts: holds results for another model; choose another folder")


def test_a_scheduler_that_does_not_answer_is_one_line(case, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"tcp://127.0.0.1:{sock.getsockname()[1]}"
    done = audit(case, "--cluster", address, "--out", tmp_path / "unequal.csv")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {address}: nothing answers there (")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "unequal.csv").exists()
    assert "--jobs has no effect with --cluster" in audit(case, "--cluster", address, "--jobs", "2").stderr


def test_it_shows_who_loses_and_by_how_much(case):
    shown = audit(case, "--no-report").stdout
    assert "Mean effect of each value" in shown
    assert 'on the probability of "yes" and the share who get it' in shown
    gender = next(each for each in document(case, "--no-report")["effects"] if each["feature"] == "gender")
    assert [value["direction"] for value in gender["values"]] == ["gains", "loses"]
    assert f"{100 * gender['values'][0]['decision']['mean']:+.1f}" in shown


def test_a_column_that_the_model_does_not_read_has_groups_and_proxies(case):
    people = small_people()
    case.write(people.assign(race=np.where(people["income"] > 50, "white", "black")))
    shown = document(case, "--group", "race", "--no-report")
    race = next(group for group in shown["groups"] if group["feature"] == "race")
    predicted = small_network().predict(small_spec().encode(people))
    for group in race["groups"]:
        members = (people["income"] > 50).to_numpy() == (group["name"] == "white")
        assert group["selection_rate"] == pytest.approx(predicted[members].mean())
    assert ["race"] in [table["features"] for table in shown["outcomes"]["tables"]]
    (proxy,) = shown["proxies"]
    assert (proxy["column"], proxy["features"][0]["feature"]) == ("race", "income")
    assert proxy["auc"] > 0.99
    text = audit(case, "--group", "race").stdout
    assert "The features predict race with an AUC of" in " ".join(text.split())
    assert "Features that stand for others" in (case.folder / "fairmend-audit/report.html").read_text(encoding="utf-8")
    halves = document(case, "--group", "race", "--no-report", "--jobs", "2")
    assert halves["groups"] == shown["groups"]


def test_a_group_that_cannot_be_compared_is_refused(case):
    assert "the data has no such column" in audit(case, "--group", "rcae").stderr
    assert "--group needs --data" in audit(case, "--group", "race", data=False).stderr
