"""Every kind of data source gives the result of one file with the same rows; what is wrong with one file is named."""

import gzip
import json
import re
from itertools import pairwise

import fsspec
import numpy as np
import pandas as pd
import pytest

from fairmend.report import load_report
from fairmend.tables import write_csv
from support.cli_case import Case, run, small_people


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where reports go
    monkeypatch.setattr("fairmend.tables.stream.PIECE", 30)
    case = Case(tmp_path)
    case.write(small_people())
    return case


@pytest.fixture
def store():
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/people", recursive=True)


def write_parts(folder, suffix, parts=4):
    """Write the people into several files of a folder; every second file has its columns in another order."""
    folder.mkdir(exist_ok=True)
    ends = np.linspace(0, len(small_people()), parts + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(ends)):
        frame = small_people().iloc[start:end]
        frame = frame[frame.columns[::-1]] if number % 2 else frame
        file = folder / f"part-{number}{suffix}"
        if suffix == ".parquet":
            frame.to_parquet(file, index=False, row_group_size=20)
        elif suffix == ".csv.gz":
            file.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
        else:
            write_csv(file, frame)
    return folder


def audit(case, data, *more):
    return run("audit", case.model, "--spec", case.spec, "--data", data, *more)


def figures(case, data, *more):
    """Return all that the command prints but the time it took, the name of the data and the warning that names it."""
    result = audit(case, data, "--json", *more)
    assert result.exit_code == 1, result.stderr
    shown = json.loads(result.stdout)
    return {name: value for name, value in shown.items() if name not in ("seconds", "title", "origin", "files")}


def refusal(case, data, *more, command="audit"):
    """Return the one line of an error, after which nothing is written."""
    before = sorted(case.folder.rglob("*"))
    result = run(command, case.model, "--spec", case.spec, "--data", data, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sorted(case.folder.rglob("*")) == before
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_folders_and_patterns_give_the_figures_of_one_file(case, suffix):
    folder = write_parts(case.folder / "people", suffix)
    expected = figures(case, case.data, "--no-report")
    assert figures(case, folder, "--no-report") == expected
    assert figures(case, folder / f"part-*{suffix}", "--no-report") == expected


def test_an_object_store_gives_the_figures_of_one_file(case, store):
    for file in write_parts(case.folder / "people", ".parquet").iterdir():
        store.pipe(f"/people/{file.name}", file.read_bytes())
    expected = figures(case, case.data)
    assert figures(case, "memory://people") == expected
    (data,) = [file for file in load_report("fairmend-audit").document.origin.files if file.role == "data"]
    assert data.name == "people (4 files)"
    assert figures(case, "memory://people/part-?.parquet", "--no-report") == expected
    assert "memory://people/none.csv: no such file" in refusal(case, "memory://people/none.csv")


def test_names_of_folders_give_a_feature(case):
    for gender, frame in small_people().groupby("gender"):
        (case.folder / f"people/gender={gender}").mkdir(parents=True)
        frame.drop(columns="gender").to_parquet(case.folder / f"people/gender={gender}/a.parquet", index=False)
    case.write(small_people().sort_values("gender", kind="stable"))
    one, other = (figures(case, data, "--no-report") for data in (case.folder / "people", case.data))
    assert {**one, "title": None, "origin": None} == {**other, "title": None, "origin": None}


@pytest.mark.parametrize("command", ["certify", "search", "quantify", "export-vnnlib", "spec check"])
def test_every_command_reads_folders(case, command):
    folder = write_parts(case.folder / "people", ".parquet", parts=2)
    more = {
        "search": ["--seeds", 5, "--local-steps", 2],
        "certify": ["--rows", 5],
        "quantify": ["--seconds", 60, "--share", 0.99, "--samples", 100],
        "export-vnnlib": ["--rows", 2, "--out", case.folder / "out"],
    }.get(command, [])
    given = ["spec", "check", case.spec] if command == "spec check" else [command, case.model, "--spec", case.spec]
    shown = [json.loads(run(*given, "--data", data, "--json", *more).stdout) for data in (case.data, folder)]
    assert [len(document) > 3 for document in shown] == [True, True]
    for key in ("counts", "count", "rows", "problems"):
        assert shown[0].get(key) == shown[1].get(key)


def test_a_repair_reads_folders(case):
    folder = write_parts(case.folder / "people", ".csv", parts=2)
    result = run(*case.arguments(data=folder, test_data=folder / "*.csv", method="blind"))
    assert result.exit_code in (0, 1), result.stderr
    names = {file.role: file.name for file in load_report(case.out).document.origin.files}
    assert (names["data"], names["test data"]) == ("people (2 files)", "*.csv (2 files)")


def test_the_file_of_a_row_is_named_in_messages_and_files(case):
    folder = write_parts(case.folder / "people", ".csv")
    audit(case, folder, "--no-report", "--out", "unequal.csv")
    pairs = pd.read_csv("unequal.csv")
    for row, file, there, age in pairs[["row", "file", "row_in_file", "age"]].itertuples(index=False):
        assert pd.read_csv(file)["age"].iloc[there - 2] == age == small_people()["age"].iloc[row - 2]
    assert pairs["file"].nunique() == 4
    path = folder / "part-2.csv"
    write_csv(path, pd.read_csv(path).assign(age=lambda f: f["age"].where(f.index != 7, 300)))
    expected = f'people: feature "age", row 109: 300 is above .* Row 109 is row 9 of {path}.'
    for command in ("audit", "certify"):
        assert re.search(expected, refusal(case, folder, command=command))


def test_a_broken_file_is_named_and_nothing_is_written(case):
    folder = write_parts(case.folder / "people", ".parquet")
    (folder / "part-2.parquet").write_bytes((folder / "part-2.parquet").read_bytes()[:-30])
    for command in ("audit", "certify", "search", "quantify"):
        assert f"{folder}/part-2.parquet: not a readable Parquet table" in refusal(case, folder, command=command)


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".parquet", lambda content: content[:-30]),
        (".parquet", lambda content: content[:10] + bytes(len(content) // 4) + content[len(content) // 4 + 10 :]),
        (".csv.gz", lambda content: content[: len(content) // 2]),
        (".csv", lambda content: content + b"1,2,3,4,5,6,7,8,9\n"),
        (".csv", lambda content: b""),
    ],
)
def test_with_keep_going_the_rest_is_audited_and_called_partial(case, suffix, damage):
    folder = write_parts(case.folder / "people", suffix)
    path = folder / f"part-2{suffix}"
    path.write_bytes(damage(path.read_bytes()))
    case.write(small_people().drop(index=range(100, 150)))
    expected, shown = figures(case, case.data), figures(case, folder, "--keep-going")
    (warning,) = [text for text in shown.pop("warnings") if text not in expected["warnings"]]
    assert warning.startswith("the result is partial: 1 file of the data cannot be read and is left out: ")
    (broken,) = shown.pop("broken_files")
    assert broken["file"] == str(path)
    assert str(path) in broken["reason"]
    assert shown == {key: value for key, value in expected.items() if key not in ("warnings", "broken_files")}
    assert warning in load_report("fairmend-audit").document.warnings
    assert "the result is partial" in " ".join(audit(case, folder, "--keep-going", "--no-report").stdout.split())


def test_other_commands_keep_going_too(case):
    folder = write_parts(case.folder / "people", ".parquet")
    (folder / "part-0.parquet").write_bytes(b"PAR1")
    for command, more in {
        "certify": ["--rows", 5],
        "search": ["--seeds", 5, "--local-steps", 2],
        "quantify": ["--seconds", 60, "--share", 0.99, "--samples", 100],
    }.items():
        options = [command, case.model, "--spec", case.spec, "--data", folder, "--keep-going", *more]
        assert len(json.loads(run(*options, "--json").stdout)["broken_files"]) == 1
        assert "the result is partial" in " ".join(run(*options).stdout.split())
    assert "the result is partial" in (case.folder / "fairmend-quantify" / "result.json").read_text()


def test_sources_without_a_table_are_refused(case):
    (case.folder / "empty").mkdir()
    folder = write_parts(case.folder / "people", ".parquet")
    assert "empty: the folder has no table files" in refusal(case, case.folder / "empty")
    assert "no file matches the pattern" in refusal(case, folder / "*.csv")
    for file in folder.iterdir():
        file.write_bytes(b"PAR1")
    assert "none of its files can be read; the first:" in refusal(case, folder, "--keep-going")
    (folder / "more.csv").write_bytes(b"age\n1\n")
    assert "has CSV and Parquet files" in refusal(case, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="age"), 'part-1.parquet: has no column "age", which'),
        (lambda frame: frame.assign(age=frame["age"].astype(str)), 'column "age" has the type text, but number in'),
        (lambda frame: frame.assign(more=1), 'part-1.parquet: has a column "more", which'),
    ],
)
def test_a_file_with_other_columns_is_refused(case, change, message):
    folder = write_parts(case.folder / "people", ".parquet")
    path = folder / "part-1.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)
    assert message in refusal(case, folder)
    assert message in refusal(case, folder, "--keep-going")


def test_an_output_must_not_replace_a_file_of_the_data(case):
    folder = write_parts(case.folder / "people", ".csv")
    assert "would overwrite an input file" in refusal(case, folder, "--out", folder / "part-1.csv")
    assert "--keep-going needs --data" in " ".join(
        run("audit", case.model, "--spec", case.spec, "--keep-going").stderr.split()
    )
