"""`repair --candidate` takes another network of the table, and `--keep-candidates` writes them all, each checked."""

import json

import numpy as np
import pytest

import fairmend
from support.cli_case import Case, refused, run, succeeded


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("candidates"))


def repair(case, out, *more):
    call = ("repair", case.model, "--spec", case.spec, "--data", case.data, "--out", case.folder / out)
    return run(*call, "--repair-rows", "20", *more)


@pytest.fixture(scope="module")
def kept(case):
    done = repair(case, "kept", "--keep-candidates", "--json")
    return json.loads(done.stdout)


def test_other_candidates_are_written_with_valid_certificates(case, kept):
    others = [n for n, each in enumerate(kept["candidates"], 1) if each["proven"] and not each["chosen"]]
    assert others
    for number in others:
        model, certificate = (
            case.folder / "kept" / f"candidate-{number}.{end}" for end in ("onnx", "certificate.json")
        )
        assert run("check", certificate, model).exit_code == 0
        assert {model.name, certificate.name} <= set(kept["files"])


def test_a_candidate_is_taken_by_its_number(case, kept):
    (number, *_) = [n for n, each in enumerate(kept["candidates"], 1) if each["proven"] and not each["chosen"]]
    done = repair(case, "other", "--candidate", str(number), "--json")
    document = json.loads(done.stdout)
    assert [each["chosen"] for each in document["candidates"]].index(True) == number - 1
    assert document["candidates"][number - 1]["reason"] == f"asked for as candidate {number}"
    same, taken = (
        fairmend.load_network(path)
        for path in (case.folder / "kept" / f"candidate-{number}.onnx", case.folder / "other" / "model.onnx")
    )
    X = np.random.default_rng(0).uniform(size=(50, same.inputs)).astype(np.float32)
    assert (same.logits(X) == taken.logits(X)).all()
    succeeded(run("check", case.folder / "other" / "certificate.json", case.folder / "other" / "model.onnx"))


def test_the_next_repair_of_the_folder_removes_them(case, kept):
    out = case.folder / "twice"
    assert repair(case, "twice", "--keep-candidates").exit_code == 0
    assert list(out.glob("candidate-*"))
    assert repair(case, "twice", "--method", "blind").exit_code == 0
    assert not list(out.glob("candidate-*"))


def test_a_number_without_a_network_is_refused(case, kept):
    many = len(kept["candidates"])
    refused(
        repair(case, "none", "--candidate", str(many + 1)),
        f"candidate {many + 1}: there are candidates 1 to {many}; choose ",
    )
    assert not (case.folder / "none").exists()
    unproven = [n for n, each in enumerate(kept["candidates"], 1) if not each["proven"]]
    for number in unproven[:1]:
        refused(repair(case, "none", "--candidate", str(number)), f"candidate {number}: ", "has no proven network")


def test_other_methods_have_no_candidates(case):
    refused(repair(case, "none", "--method", "blind", "--candidate", "1"), "candidate")


def test_the_help_shows_what_people_use_and_all_on_demand():
    usual, whole = (run("repair", option).stdout for option in ("--help", "--help-all"))
    assert usual.count("\n  --") <= 13
    assert "--help-all" in usual
    assert "--learning-rate" not in usual
    assert "--learning-rate" in whole
    assert "fairmend spec init" in run("--help").stdout
