"""`fairmend report` regenerates the page from its data."""

import json

import pandas as pd
import pytest

from fairmend.report import load_report
from support.cli_case import Case, run


@pytest.fixture
def folder(tmp_path):
    case = Case(tmp_path)
    arguments = ["--spec", case.spec, "--data", case.data, "--report", tmp_path / "audit"]
    assert run("audit", case.model, *arguments).exit_code == 1
    return tmp_path / "audit"


def test_the_page_is_regenerated_from_the_folder_or_from_the_file(folder):
    page = (folder / "report.html").read_text()
    for source in (folder, folder / "report.json"):
        (folder / "report.html").unlink()
        result = run("report", source)
        assert result.exit_code == 0, result.stderr
        assert "report.html" in result.stdout
        assert (folder / "report.html").read_text() == page


def test_out_names_another_file(folder, tmp_path):
    shown = json.loads(run("report", folder, "--out", tmp_path / "page.html", "--json").stdout)
    assert (shown["kind"], shown["report"]) == ("audit", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == (folder / "report.html").read_text()


def test_people_to_start_from_are_those_of_their_rows_in_the_file(folder, tmp_path):
    frame = pd.read_csv(tmp_path / "people.csv")
    listed = load_report(folder).document.what_if.people
    assert {person.unequal for person in listed} == {True, False}
    for person in listed:
        row = frame.iloc[int(person.name.removeprefix("Row ")) - 2]  # row 1 of the file is its header
        assert person.values == [row["age"], ["f", "m"].index(row["gender"]), row["income"], row["credits"]]


def test_networks_and_rows_are_left_out_of_the_page_if_asked(folder, tmp_path):
    assert "whatIfModel" in (folder / "report.html").read_text()
    assert run("report", folder, "--no-what-if", "--out", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "whatIfModel" not in page
    assert "<h2>What if?</h2>" not in page


def test_the_data_is_not_overwritten_and_a_missing_folder_is_named(folder):
    before = (folder / "report.json").read_text()
    refused = run("report", folder, "--out", folder / "report.json")
    assert refused.exit_code == 2
    assert "would overwrite the report's data" in refused.stderr
    assert (folder / "report.json").read_text() == before
    missing = run("report", folder / "nowhere")
    assert missing.exit_code == 2
    assert "no such folder" in missing.stderr
