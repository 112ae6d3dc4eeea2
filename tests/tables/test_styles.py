"""The style of a CSV file is found only if nothing else fits; otherwise the error names the option that says it."""

import json

import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.tables import TableSource, csv_files, read_table, stream_table
from fairmend.tables.styles import CsvStyle, find_style
from support.cli_case import Case, run, small_people


@pytest.mark.parametrize(
    ("head", "style"),
    [
        ("a,b\n1.5,2\n", CsvStyle()),
        ("a\n1\n", CsvStyle()),
        ("a;b\n1,5;2\n3;4\n", CsvStyle(";", ",")),
        ("a;b\n1.5;2\n", CsvStyle(";", ".")),
        ("a;b\n0,125;2\n", CsvStyle(";", ",")),
        ("a\tb\n1,5\tx\n", CsvStyle("\t", ",")),
        ("a|b\n1|x\n", CsvStyle("|", ".")),
        ('"a;b;c",d\n"1;2;3",4\n', CsvStyle()),
        ("a,note\n1,x;y\n2,z\n", CsvStyle()),
        ('a;"note, in words"\n1;"x, y"\n2;z\n', CsvStyle(";", ".")),
        ("a;day\n1;12.03.2024\n2;13.03.2024\n", CsvStyle(";", ".")),
        ("score\n911,66\n1,5e-05\n\n7\n", CsvStyle(";", ",")),  # one column, which nothing separates
        ("score\n1,5\n1,2,3\n", CsvStyle()),  # pandas says that the rows have more fields than the header
        ("score\n1,5\nx,y\n", CsvStyle()),
    ],
)
def test_a_style_is_found(head, style):
    assert find_style("t.csv", head) == style


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("a;b;c,d\n1;2;3,4\n", 'may be separated by "," or ";"; say which with --sep "," or --sep ";"'),
        ("a;b\n1,234;2\n", '"1,234" in the column "a" may have a decimal comma or a comma between thousands; say'),
        (
            "a;b\n1,5;2.5\n",
            'some numbers have a comma .* and others a point .* say with --decimal "," or --decimal "."',
        ),
        ("score\n1,234\n", '"1,234" in the column "score" may have a decimal comma or a comma between thousands; say'),
        ("a;b\n1.234,50;2\n", '"1.234,50" in the column "a" has a mark between thousands'),
    ],
)
def test_what_may_mean_two_things_is_refused(tmp_path, head, message):
    path = tmp_path / "t.csv"
    path.write_text(head)
    for read in (read_table, stream_table):
        with pytest.raises(FairmendError, match=message) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))


def test_what_the_user_says_is_taken(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,234;2\n")
    for read in (read_table, lambda source: pd.concat(stream_table(source))):
        assert read(TableSource(path, decimal=",")).to_dict("list") == {"a": [1.234], "b": [2]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": "::"}, 'columns are separated by ",", ";", "|" or tab'),
        ({"decimal": ";"}, 'the decimal mark is "." or ","'),
        ({"sep": ",", "decimal": ","}, '"," cannot separate columns and be the decimal mark'),
        ({"sheet": "People"}, "--sheet is for .xlsx files; leave it out"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FairmendError, match=message.replace("|", r"\|")):
        read_table(TableSource(path, **options))


def test_a_large_file_is_cut_into_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "RANGE_BYTES", 200)
    frame = pd.DataFrame({"x": [i + 0.5 for i in range(300)], "text": [f'a; "{i}", b' for i in range(300)]})
    frame.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    table = stream_table(tmp_path / "t.csv")
    assert len(table.parts) > 3
    pd.testing.assert_frame_equal(pd.concat(table), frame)


def test_a_command_reads_it_and_says_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    call = ("audit", case.model, "--spec", case.spec, "--data", case.data, "--no-report")
    before = json.loads(run(*call, "--json").stdout)
    small_people().to_csv(case.data, sep=";", decimal=",", index=False)
    done = run(*call)
    assert 'columns are separated by ";", and numbers have a decimal comma' in done.stderr
    assert len(done.stderr.splitlines()) == 1
    said = run(*call, "--sep", ";", "--decimal", ",")
    assert said.stderr == ""
    after = json.loads(run(*call, "--json").stdout)
    assert after["pairs"] == before["pairs"]
    assert run(*call, "--sep", "x").exit_code == 2


def test_excel_files_are_read(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)
    people, path = small_people(60), tmp_path / "people.xlsx"
    people.loc[3, "income"] = None
    with pd.ExcelWriter(path) as book:
        people.to_excel(book, sheet_name="People", index=False)
        people.iloc[:5].to_excel(book, sheet_name="Few", index=False)
    pd.testing.assert_frame_equal(read_table(path), people, check_dtype=False)
    pd.testing.assert_frame_equal(pd.concat(stream_table(path, 7)), people, check_dtype=False)
    assert len(read_table(TableSource(path, sheet="Few"))) == 5
    with pytest.raises(FairmendError, match=r'no sheet "few".* it has'):
        read_table(TableSource(path, sheet="few"))
    case = Case(tmp_path)
    people.dropna().to_excel(path, index=False)
    done = run("audit", case.model, "--spec", case.spec, "--data", path, "--no-report", "--json")
    assert json.loads(done.stdout)["total"] == 59


def test_a_damaged_excel_file_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "t.xlsx").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(FairmendError, match=r"t\.xlsx: not a readable \.xlsx file"):
        read_table(tmp_path / "t.xlsx")


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(FairmendError, match=r"pip install 'fairmend\[excel\]'"):
        read_table(tmp_path / "t.xlsx")
