"""`fairmend quantify`: shares, map, JSON and exit codes."""

import json

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.spec import Claim, Spec
from support.cli_case import Case, refused, run, small_network, small_people, small_spec, succeeded


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


def quantify(case, *more):
    """Decide most people, instead of as many as a second allows."""
    more = more if "--report" in more or "--no-report" in more else (*more, "--no-report")
    return run("quantify", case.model, "--spec", case.spec, "--seconds", 60, "--share", 0.3, *more)


def save_linear(case, **weights):
    """Save a network that is a linear function of some features."""
    weight = np.zeros((1, small_spec().width), np.float32)
    for name, value in weights.items():
        weight[0, small_spec().columns(name)] = value
    Network([Affine(weight, np.array([0.1], np.float32))], []).save(case.model)


def test_unequal_people_exit_1_with_shares_and_a_map_in_words(case):
    result = quantify(case, "--data", case.data)
    assert result.exit_code == 1, result.stderr
    for words in ("Proven to be treated equally", "Proven to be treated unequally", "Undecided", "Rows of people.csv"):
        assert words in result.stdout
    assert "Where people are treated unequally" in result.stdout
    assert "decide" in result.stdout


def test_a_network_that_reads_nothing_protected_exits_0_at_once(case):
    save_linear(case, income=1)
    result = succeeded(quantify(case))
    assert "100 %" in result.stdout.replace("\u00a0", " ")


def test_undecided_people_exit_2_unless_their_share_is_small_enough(case):
    """The logit is 0 up to rounding wherever income is 50: there nothing can be proven."""
    save_linear(case, income=1, age=1e-30)
    result = quantify(case, "--samples", 0, "--seconds", 0.2, "--share", 0)
    assert result.exit_code == 2
    assert "random people" not in result.stdout
    assert quantify(case, "--share", 0.01).exit_code == 0


@pytest.mark.parametrize("option", [("--keep-going",), ("--out-of-range", "clip")])
def test_options_about_the_data_need_data(case, option):
    refused(quantify(case, *option), f"Error: {option[0]} needs --data")
    assert quantify(case, *option, "--data", case.data).exit_code == 1


def test_json_is_one_document(case):
    document = json.loads(quantify(case, "--data", case.data, "--boxes", 2, "--json").stdout)
    assert document["fair"] + document["unfair"] + document["undecided"] == pytest.approx(1)
    assert len(document["boxes"]) == 2
    assert document["rows"]["total"] == len(small_people())
    assert document["boxes"][0]["share"] >= document["boxes"][1]["share"] > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--seconds", 0), "--seconds"),
        (("--share", 2), "--share"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
        (("--cluster", "nowhere"), 'cluster "nowhere" is not known'),
        (("--cluster", "tcp://host:1", "--jobs", 2), "--jobs has no effect with --cluster"),
    ],
)
def test_bad_input_exits_2(case, more, message):
    refused(quantify(case, *more), message)


def test_a_network_with_many_classes_is_quantified(case):
    small_network(3).save(case.model)
    document = json.loads(quantify(case, "--json").stdout)
    assert document["fair"] + document["unfair"] + document["undecided"] == pytest.approx(1)
    assert document["fair"] > 0


def test_a_report_is_written_unless_it_is_declined(case):
    result = quantify(case, "--data", case.data, "--report", case.folder / "shares")
    page = (case.folder / "shares" / "report.html").read_text()
    assert "Where people are treated unequally" in page
    assert "report.html" in result.stdout
    assert json.loads(quantify(case, "--no-report", "--json").stdout)["files"] == {}
    assert not (case.folder / "fairmend-quantify").exists()
    assert quantify(case, "--report", "a", "--no-report").exit_code == 2


def test_a_certificate_is_written_that_the_checker_confirms(case):
    result = quantify(case, "--certificate", "shares.json")
    assert result.exit_code == 1, result.stderr
    assert "Certificate for" in result.stdout
    checked = run("check", "shares.json", case.model, "--spec", case.spec)
    assert checked.exit_code == 0, checked.stdout
    assert "Among all people" in checked.stdout
    assert "The checker counts" in checked.stdout


def test_the_certificate_claims_no_more_than_was_shown(case):
    document = json.loads(quantify(case, "--certificate", "shares.json", "--json").stdout)
    assert 0 < document["certificate"]["fair"] <= document["fair"]
    assert 0 < document["certificate"]["unfair"] <= document["unfair"]
    claimed = json.loads((case.model.parent / "shares.json").read_text())["shares"]
    assert all(claimed[name] == document["certificate"][name] for name in ("fair", "unfair"))


def test_everyone_is_certified_without_a_rest(case):
    save_linear(case, income=1)
    assert quantify(case, "--certificate", "shares.json").exit_code == 0
    checked = run("check", "shares.json", case.model).stdout
    assert "everyone keeps the same prediction" in checked
    assert "counts 100 % treated equally and 0 % unequally, in 1 box." in " ".join(checked.split())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--certificate", "missing/shares.json"), "no such folder"),
        (("--certificate", "shares.json"), "nothing is proven yet"),
    ],
)
def test_without_a_certificate_there_is_one_line_and_no_file(case, more, message):
    weight = np.zeros((1, small_spec().width), np.float32)
    weight[0, small_spec().columns("age")] = 1e-30
    Network([Affine(weight, np.zeros(1, np.float32))], []).save(case.model)
    result = refused(quantify(case, "--seconds", 0.2, *more), message)
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(case.model.parent.glob("**/shares.json"))


def test_warnings_are_in_the_json_as_in_the_terminal(case):
    save_linear(case, age=1e-9)
    assert "the same prediction" in quantify(case, "--data", case.data).stdout
    document = json.loads(quantify(case, "--data", case.data, "--json").stdout)
    assert "the same prediction" in document["warnings"][0]
    assert json.loads(quantify(case, "--json").stdout)["warnings"] == []


LINKED = [{"when": {"gender": "f"}, "then": {"credits": {"offset": 1}}}]


@pytest.mark.parametrize(
    ("changes", "words", "claimed"),
    [
        ({"links": LINKED}, "own values of gender, on which links depend", "with another gender, where gender is f"),
        ({"claim": Claim("score", 0.1, "probability")}, "change the score by more than 0.1", "differ by at most 0.1"),
    ],
    ids=["links", "scores"],
)
def test_links_and_score_claims_are_answered_reported_and_certified(case, changes, words, claimed):
    plain = small_spec()
    Spec(plain.features, plain.label, **changes).save(case.spec)
    result = quantify(
        case, "--data", case.data, "--share", 0.2, "--certificate", "c.json", "--report", case.out, "--json"
    )
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert document["unfair"] > 0
    assert document["boxes"][0]["decides"]
    assert document["certificate"]["unfair"] > 0
    page = " ".join((case.out / "report.html").read_text().split())
    assert words in page
    checked = run("check", "c.json", case.model, "--spec", case.spec)
    assert checked.exit_code == 0, checked.stdout
    assert claimed in " ".join(checked.stdout.split())


def test_an_error_of_the_certificate_does_not_cost_the_result(case, monkeypatch):
    def broken(*_, **__):
        raise FairmendError("the disk is full")

    monkeypatch.setattr("fairmend.workflows.quantify.confirmed_certificate", broken)
    result = refused(quantify(case, "--certificate", "shares.json"), "the disk is full")
    assert "Proven to be treated equally" in result.stdout
