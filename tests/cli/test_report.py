"""`fairmend report` regenerates the page from its data."""

import json
from dataclasses import asdict

import pandas as pd
import pytest

from fairmend.report import load_report
from fairmend.spec import About
from support.cli_case import Case, refused, run, succeeded


@pytest.fixture
def folder(tmp_path):
    case = Case(tmp_path)
    arguments = ["--spec", case.spec, "--data", case.data, "--report", tmp_path / "audit"]
    assert run("audit", case.model, *arguments).exit_code == 1
    return tmp_path / "audit"


def test_the_page_is_regenerated_from_the_folder_or_from_the_file(folder):
    page = (folder / "report.html").read_text()
    for source in (folder, folder / "result.json"):
        (folder / "report.html").unlink()
        result = succeeded(run("report", source))
        assert "report.html" in result.stdout
        assert (folder / "report.html").read_text() == page


def test_out_names_another_file(folder, tmp_path):
    shown = json.loads(run("report", folder, "--out", tmp_path / "page.html", "--json").stdout)
    assert (shown["kind"], shown["report"]) == ("audit", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == (folder / "report.html").read_text()


def test_people_to_start_from_are_those_of_their_rows_in_the_file(folder, tmp_path):
    frame = pd.read_csv(tmp_path / "people.csv")
    listed = load_report(folder).document.page.what_if.people
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
    before = (folder / "result.json").read_text()
    refused(run("report", folder, "--out", folder / "result.json"), "would overwrite the report's data")
    assert (folder / "result.json").read_text() == before
    refused(run("report", folder / "nowhere"), "no such folder")


ABOUT = 'name = "Credit score"\nowner = "Credit risk"\n'


def test_a_model_card_and_json_come_from_the_same_data(folder, tmp_path):
    (tmp_path / "about.toml").write_text(ABOUT)
    assert run("report", folder, "--format", "md", "--about", tmp_path / "about.toml").exit_code == 0
    assert "| Owner | Credit risk |" in (folder / "report.md").read_text(encoding="utf-8")
    succeeded(
        run("report", folder, "--format", "json", "--about", tmp_path / "about.toml", "--out", tmp_path / "x.json")
    )
    plain, before = (json.loads(path.read_text()) for path in (tmp_path / "x.json", folder / "result.json"))
    assert plain["about"]["name"] == "Credit score"
    assert {**plain, "about": None} == {**before, "about": None}


def test_json_needs_a_file_of_its_own(folder):
    refused(run("report", folder, "--format", "json"), "--format json needs --out")


def test_an_unknown_key_about_the_model_is_named_and_nothing_written(folder, tmp_path):
    (tmp_path / "about.toml").write_text('ownr = "Credit risk"\n')
    (folder / "report.html").unlink()
    answer = run("report", folder, "--about", tmp_path / "about.toml")
    assert answer.exit_code == 2
    assert 'unknown key "ownr"' in " ".join(answer.stderr.split())
    assert not (folder / "report.html").exists()


def test_an_audit_shows_who_owns_the_model(tmp_path):
    case = Case(tmp_path)
    (tmp_path / "about.toml").write_text(ABOUT)
    arguments = ["--spec", case.spec, "--data", case.data, "--about", tmp_path / "about.toml"]
    result = run("audit", case.model, *arguments, "--report", tmp_path / "audit", "--json")
    assert json.loads(result.stdout)["about"] == asdict(About(name="Credit score", owner="Credit risk"))
    page = (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert "<dt>Owner</dt><dd>Credit risk</dd>" in page
    assert page.count('<span class="blank">') == 6  # version, contact, purpose, approval, its date, signature
    assert run("audit", case.model, *arguments, "--no-report").exit_code == 2


def test_a_page_that_is_a_link_out_of_the_folder_is_not_written(folder, tmp_path):
    """The folder may come from someone else, and the name of the page is not typed."""
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to(tmp_path / "profile")
    refused(run("report", folder), "report.html would be written outside of")
    assert not (tmp_path / "profile").exists()
    assert run("report", folder, "--out", folder / "report.html").exit_code == 0
    assert (tmp_path / "profile").exists()
