"""Pieces of CSV files come back from the spool as they were parsed, and files are parsed once."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest

from fairmend.tables import csv_files, spool, stream_table
from fairmend.tables.stream import describe_files, read_from_elsewhere

COLUMNS = ("job", "age", "share", "member", "id", "note")


def people(rows=50):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "job": rng.choice(["cook", "judge", "", "01"], rows),
            "age": rng.integers(18, 80, rows),
            "other": rng.integers(0, 9, rows),
            "share": np.where(rng.random(rows) < 0.2, np.nan, rng.random(rows)),
            "member": rng.random(rows) < 0.5,
            "id": [f"p{number}" for number in range(rows)],
            "note": [""] * rows,
        }
    )


@pytest.fixture
def file(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def plain(stream):
    """The values of a stream, texts as texts."""
    frame = pd.concat([piece.astype(dict.fromkeys(piece.select_dtypes("category"), object)) for piece in stream])
    return {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame}, list(frame.index)


def parses(monkeypatch):
    """Count how often a file is parsed."""
    seen, original = [], csv_files._parsing
    monkeypatch.setattr(csv_files, "_parsing", lambda file, *how: (seen.append(file.name), original(file, *how))[1])
    return seen


def test_values_are_those_of_the_file_which_is_parsed_once(file, monkeypatch):
    expected = plain(stream_table(file, 16).only(COLUMNS))
    seen = parses(monkeypatch)
    table = stream_table(file, 16, spool=COLUMNS).only(COLUMNS)
    assert plain(table) == expected
    assert plain(table) == expected  # it can be read again
    assert plain(table.only(("age", "job"))) == plain(stream_table(file, 16).only(("age", "job")))
    assert len(seen) == 3
    kinds = next(iter(table)).dtypes
    assert (kinds["job"], kinds["age"], kinds["member"]) == ("category", "int64", "bool")


def test_compressed_files_and_folders_are_parsed_once(file, tmp_path, monkeypatch):
    folder = tmp_path / "country=DE"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(file.read_bytes()))
    wanted = (*COLUMNS, "country")
    expected = plain(stream_table(tmp_path / "*" / "*.gz", 16).only(wanted))
    seen = parses(monkeypatch)
    assert plain(stream_table(tmp_path / "*" / "*.gz", 16, spool=wanted).only(wanted)) == expected
    assert len(seen) == 2


def test_other_columns_are_parsed_again(file, monkeypatch):
    seen = parses(monkeypatch)
    table = stream_table(file, 16, spool=COLUMNS)
    assert plain(table) == plain(stream_table(file, 16))
    assert plain(table.only(("other",))) == plain(stream_table(file, 16).only(("other",)))
    assert len(seen) == 7


def test_numbers_that_are_texts_in_another_piece_are_read_from_the_file(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code\n" + "007\n" * 16 + "x7\n")
    assert plain(stream_table(path, 16, spool=["code"]).only(["code"]))[0] == {"code": ["007"] * 16 + ["x7"]}


def test_a_column_with_many_values_stays_text(file, monkeypatch):
    monkeypatch.setattr(spool, "_MOST_VALUES", 20)
    table = stream_table(file, 16, spool=COLUMNS).only(COLUMNS)
    assert [isinstance(piece["id"].dtype, pd.CategoricalDtype) for piece in table] == [True, False, False, False]
    assert plain(table) == plain(stream_table(file, 16).only(COLUMNS))


def test_a_full_disk_means_that_files_are_parsed_again(file, monkeypatch, caplog):
    def write(descriptor, data, place):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool.os, "pwrite", write)
    table = stream_table(file, 16, spool=COLUMNS).only(COLUMNS)
    assert plain(table) == plain(stream_table(file, 16).only(COLUMNS))
    assert "No space left on device" in caplog.text


def test_a_disk_that_was_full_for_a_while_mixes_no_pieces_up(monkeypatch):
    space, write = [5, 0, 100], os.pwrite

    def scarce(descriptor, data, place):
        if not space[0]:
            space.pop(0)
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: space.pop(0)], place)

    store = spool.PrivateStore()
    monkeypatch.setattr(spool.os, "pwrite", scarce)
    with pytest.raises(OSError, match="No space"):
        store.append(b"first piece")
    assert store.read(store.append(b"second piece")) == b"second piece"


def test_a_spool_does_not_travel_and_changes_no_digest(file):
    table = stream_table(file, 16, spool=COLUMNS).only(COLUMNS)
    assert all(part.spooled is None for part in read_from_elsewhere(table).parts)
    assert describe_files(table) == describe_files(stream_table(file, 16).only(("age",)))
