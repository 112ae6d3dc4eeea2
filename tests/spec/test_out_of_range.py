"""Values out of range are refused, moved, left out or let in, and every one of them is counted."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fairmend.cli.main import main
from fairmend.report import load_report
from fairmend.spec import Spec
from fairmend.spec.out_of_range import (
    OutOfRange,
    Outside,
    apply_policy,
    find_wider_ranges,
    regression_warnings,
    spec_warnings,
)
from support.cli_case import Case, run, small_people
from support.spec_cases import refused
from support.strategies import random_network


def test_a_constant_prediction_and_a_low_auc_get_a_warning():
    assert spec_warnings(np.array([0, 1] * 20), 0.9, by_chance=0.6) == []
    assert spec_warnings(np.ones(5, int), 0.1, by_chance=0.6) == []  # too few people to say anything
    (one,) = spec_warnings(np.ones(30, int))
    assert one.startswith("The network gives all 30 people the same prediction (class 1). Check that")
    (against,) = spec_warnings(np.array([0, 1] * 20), 0.04, by_chance=0.6)
    assert "against their labels (AUC 0.040)" in against
    for auc in (0.45, 0.6):
        (chance,) = spec_warnings(np.array([0, 1] * 20), auc, by_chance=0.6)
        assert "not better than chance" in chance


def test_a_regression_network_that_is_worse_than_the_mean_gets_a_warning():
    assert regression_warnings(0.1, 100) == regression_warnings(-1.0, 5) == regression_warnings(None, 100) == []
    assert "worse than the mean of the targets (R² -0.250)" in regression_warnings(-0.25, 100)[0]


@pytest.mark.parametrize("command", ["audit", "repair"])
def test_labels_without_a_relation_to_the_scores_are_a_warning_above_every_figure(tmp_path, command):
    case = Case(tmp_path)
    frame = small_people(400)
    case.write(frame.assign(good=np.random.default_rng(1).permutation(frame["good"])))
    report = tmp_path / "out"
    if command == "repair":
        result = case.repair()
        text = result.output
    else:
        text = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--report", report).output
    doubt = text.index("not better than chance on the labels")
    assert text.count("not better than chance") == 1
    assert doubt < text.index("reated unequally"), text
    document = load_report(report).document
    assert document.doubts == document.warnings[:1]
    page = (report / "report.html").read_text()
    assert page.index("not better than chance") < page.index("<h1>")
    assert page.count("not better than chance") == 1


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    from fairmend.cli.demo import run_demo

    folder = tmp_path_factory.mktemp("warnings") / "demo"
    run_demo(folder, json_output=True, rows=600, epochs=4, method="blind")
    text = (folder / "spec.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("scale")]
    (folder / "unscaled.toml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", [["audit", "--no-report"], ["certify", "--rows", "50"]])
def test_a_spec_without_its_scales_gets_a_warning(command, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "applicants.csv", "unscaled.toml"):
        shutil.copy(demo / name, tmp_path)
    arguments = [command[0], "model.onnx", "--data", "applicants.csv", "--spec", "unscaled.toml", *command[1:]]
    shown = CliRunner().invoke(main, arguments)
    assert "Warning: The network gives all" in " ".join(shown.stdout.split())
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert any("same prediction" in warning for warning in document["warnings"])


def test_spec_check_says_how_well_the_network_does(demo):
    files = [str(demo / name) for name in ("spec.toml", "applicants.csv", "model.onnx")]
    shown = CliRunner().invoke(main, ["spec", "check", files[0], "--data", files[1], "--model", files[2]])
    assert shown.exit_code == 0
    words = " ".join(shown.stdout.split())
    assert "the model has accuracy" in words
    assert "Warning" not in words
    wrong = CliRunner().invoke(main, ["spec", "check", str(demo / "unscaled.toml"), "--data", files[1], "--model", files[2]])  # noqa: E501  # fmt: skip
    assert "Warning: The network gives all 600 people the same prediction" in " ".join(wrong.stdout.split())


@pytest.fixture
def wrong(frame):
    frame["age"] = [61, 130, 16]
    frame["hours"] = [40, 1, 101]
    return frame


def test_refuse_is_the_default_and_says_what_else_there_is(spec, wrong):
    with refused('"age"', "row 1", "130", "--out-of-range clip, skip or widen"):
        spec.encode(wrong)
    with refused("row 1"):
        spec.bring_into_range(wrong)
    with refused('must be one of refuse, clip, skip, widen, got "clp"', 'did you mean "clip"'):
        spec.bring_into_range(wrong, "clp")


def test_clip_moves_values_to_the_nearest_end(spec, wrong):
    inside = spec.bring_into_range(wrong, "clip")
    assert inside.frame["age"].tolist() == [61, 90, 17]
    assert inside.frame["hours"].tolist() == [40, 1, 100]
    assert inside.frame["age"].dtype == np.int64
    assert wrong["age"].tolist() == [61, 130, 16]  # the user's own data is not changed
    assert inside.kept.all()
    assert inside.spec == spec
    assert asdict(inside.done) == {
        "policy": "clip",
        "rows": 2,
        "features": {
            "age": {"below": 1, "above": 1, "unknown": 0},
            "hours": {"below": 0, "above": 1, "unknown": 0},
        },
        "ranges": {},
    }
    np.testing.assert_array_equal(spec.encode(wrong, out_of_range="clip"), spec.encode(inside.frame))


def test_skip_leaves_out_rows_with_values_out_of_range_and_unknown_categories(spec, wrong):
    wrong["race"] = ["White", "White", "Martian"]
    inside = spec.bring_into_range(wrong, "skip")
    assert inside.kept.tolist() == [True, False, False]
    assert inside.frame["age"].tolist() == [61]
    assert inside.done.features["race"] == Outside(unknown=1)
    assert "2 rows with a value out of range: left out (skip). age: 1 below, 1 above" in inside.done.describe()
    assert len(spec.encode(wrong, out_of_range="skip")) == 1
    wrong["age"] = 200
    with refused("every row has a value out of range"):
        spec.bring_into_range(wrong, "skip")


def test_widen_widens_the_range_of_the_spec_and_nothing_else(spec, wrong):
    inside = spec.bring_into_range(wrong, "widen")
    ranges = {f.name: f.range for f in inside.spec.features}
    assert ranges["age"] == (16, 130)
    assert ranges["hours"] == (1, 101)
    assert inside.frame is wrong
    assert inside.spec.widen({"age": (17, 90), "hours": (1, 100)}) == spec
    assert "age: 1 below, 1 above, now 16 to 130" in inside.done.describe()
    same = spec.bring_into_range(wrong.assign(age=50, hours=50), "widen")
    assert same.spec is spec
    assert same.done.describe() == ""


@pytest.mark.parametrize(("policy", "why"), [("clip", "no nearest one"), ("widen", "was not trained on")])
def test_an_unknown_category_cannot_be_moved_or_let_in(spec, frame, policy, why):
    frame["race"] = ["White", "Martian", "White"]
    with refused('"race"', "row 1", '"Martian"', f"{policy} cannot help", why, "--out-of-range skip"):
        spec.bring_into_range(frame, policy)


@pytest.mark.parametrize("policy", ["clip", "skip", "widen"])
@pytest.mark.parametrize(("value", "words"), [(None, "missing"), ("thirty", "not a number"), (20.5, "whole number")])
def test_no_policy_lets_in_values_that_are_wrong_in_another_way(spec, frame, policy, value, words):
    frame["age"] = pd.Series([61, value, 200], dtype=object)
    with refused('"age"', "row 1", words):
        spec.bring_into_range(frame, policy)


def test_infinity_is_moved_or_left_out_but_is_in_no_range(spec, frame):
    frame["gain"] = [0.0, np.inf, -np.inf]
    assert spec.bring_into_range(frame, "clip").frame["gain"].tolist() == [0.0, 0.1, 0.0]
    assert spec.bring_into_range(frame, "skip").kept.tolist() == [True, False, False]
    with refused('"gain"', "row 1", "infinity is in no range"):
        spec.bring_into_range(frame, "widen")


def test_text_and_categories_are_clipped_too(spec, frame):
    for values in (pd.Series(["61", " 34", "130.0"]), pd.Series([61, 34, 130], dtype="category")):
        moved = spec.bring_into_range(frame.assign(age=values), "clip").frame
        assert spec.decode(spec.encode(moved))["age"].tolist() == [61, 34, 90]


def test_parts_of_the_data_add_up(spec, wrong):
    parts = [wrong.iloc[:2], wrong.iloc[2:]]
    whole = find_wider_ranges(spec.features, wrong)
    assert sum((find_wider_ranges(spec.features, part) for part in parts), OutOfRange("widen")) == whole
    clipped = apply_policy(spec.features, wrong, "clip")[2]
    assert sum((apply_policy(spec.features, part, "clip")[2] for part in parts), OutOfRange("clip")) == clipped


def test_a_widened_spec_keeps_everything_else(spec):
    named = Spec(spec.features, spec.label, spec.claim, spec.links, "customer")
    wide = named.widen({"age": (0, 120)})
    assert (wide.id_column, wide.label, wide.links) == ("customer", spec.label, spec.links)


# Ranges that spec init took from one file are widened to the next one.


@pytest.fixture
def drafted(tmp_path):
    """A spec from the first rows, and other rows with an income and an age that the first ones do not reach."""
    case = Case(tmp_path)
    frame = small_people(200).drop(columns="remark")
    frame[:100].to_csv(tmp_path / "train.csv", index=False)
    later = frame[100:].reset_index(drop=True)
    later.loc[:2, "income"] = [120.5, -3.0, 140.0]
    later.loc[5, "age"] = 17
    case.write(later)
    case.spec.unlink()
    run("spec", "init", tmp_path / "train.csv", "--label", "good", "--protected", "gender", "--out", case.spec)
    network = random_network(np.random.default_rng(3), Spec.load(case.spec).width, [6])
    network.save(case.model)
    return case


def test_a_guessed_range_is_widened_with_a_note(drafted):
    assert Spec.load(drafted.spec).guessed_ranges
    assert Spec.from_dict(Spec.load(drafted.spec).to_dict()).guessed_ranges
    found = run("audit", drafted.model, "--spec", drafted.spec, "--data", drafted.data, "--no-report")
    assert found.exit_code in (0, 1), found.output
    words = " ".join(found.output.split())
    assert "4 rows with a value out of range: the range was widened (widen)" in words
    assert "income: 1 below, 2 above, now -3 to 140" in words
    checked = run("spec", "check", drafted.spec, "--data", drafted.data, "--json")
    assert json.loads(checked.output)["data"]["fits"]


def test_a_repair_takes_test_rows_out_of_a_guessed_range_and_its_certificate_is_valid(drafted):
    train = drafted.folder / "train.csv"
    options = {"--data": train, "--test-data": drafted.data, "--spec": drafted.spec, "--out": drafted.out}
    flat = [part for option in options.items() for part in option]
    found = run("repair", drafted.model, *flat, "--repair-rows", 20, "--calibration-rows", 60, "--method", "prof")
    assert found.exit_code in (0, 1), found.output
    assert "the range was widened" in " ".join(found.output.split())
    assert run("check", drafted.out / "certificate.json", drafted.out / "model.onnx").exit_code == 0


def test_a_range_that_is_not_guessed_is_refused_and_the_way_out_is_said_once(drafted):
    text = drafted.spec.read_text()
    assert 'ranges = "guessed"' in text
    drafted.spec.write_text(text.replace('ranges = "guessed"', ""))
    found = run("audit", drafted.model, "--spec", drafted.spec, "--data", drafted.data, "--no-report")
    assert (found.exit_code, found.output.count("--out-of-range")) == (2, 1)
    checked = run("spec", "check", drafted.spec, "--data", drafted.data).output
    assert checked.count("is above the range") + checked.count("is below the range") == 2
    assert checked.count("--out-of-range") == 1


def test_ranges_can_only_be_guessed():
    with refused('ranges can only be "guessed"'):
        Spec.from_dict({"table": {"ranges": "sure"}, "feature": []})
