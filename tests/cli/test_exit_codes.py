"""The exit codes that docs/reference/cli.md promises to scripts."""

import re
from pathlib import Path

import pytest

from fairmend.cli.group import COULD_NOT_ANSWER, INTERRUPTED
from support.cli_case import Case, make_fair, run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
GOOD, BAD = 0, 1


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


def test_the_page_lists_the_codes_there_are():
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert listed == {GOOD, BAD, COULD_NOT_ANSWER, INTERRUPTED}


@pytest.mark.parametrize("command", ["certify", "audit", "search"])
def test_good_bad_and_none(case, command):
    arguments = [command, case.model, "--spec", case.spec, "--data", case.data]
    arguments += ["--seeds", 20, "--local-steps", 5] if command == "search" else []
    assert run(*arguments).exit_code == BAD
    make_fair(case)
    assert run(*arguments).exit_code == GOOD
    case.data.write_text("age\n1\n")
    assert run(*arguments).exit_code == COULD_NOT_ANSWER


def test_repair_and_check(case):
    assert case.repair().exit_code == GOOD
    certificate = case.out / "certificate.json"
    assert run("check", certificate, case.out / "model.onnx").exit_code == GOOD
    assert run("check", certificate, case.model).exit_code == BAD
    assert run("check", case.folder / "nowhere.json", case.model).exit_code == COULD_NOT_ANSWER
    assert case.repair(method="flip", steps=1).exit_code == BAD


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["certify"], ["certify", "--nonsense"]])
def test_wrong_usage(case, arguments):
    assert run(*arguments).exit_code == COULD_NOT_ANSWER
