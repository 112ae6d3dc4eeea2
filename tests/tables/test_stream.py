"""A stream holds the values of its table, and its slices are read by any process."""

import math
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmend.base.errors import FairmendError
from fairmend.tables import read_table, stream_table, write_csv


def joined(path, rows):
    stream = stream_table(path, rows)
    frames = list(stream)
    assert all(len(frame) <= rows for frame in frames)
    assert stream.total == sum(map(len, frames))
    return pd.concat(frames)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_stream_holds_the_same_values_as_the_table(tmp_path, suffix, rows):
    frame = pd.DataFrame({"age": [20, 30, 40, 50], "gender": ["f", "m", "f", None], "x": [1, 2.5, math.nan, 1e-7]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    pieces = joined(path, rows)
    assert pieces.index.tolist() == [0, 1, 2, 3]
    assert pieces.astype(object).where(pieces.notna(), None).to_dict() == (
        read_table(path).astype(object).where(frame.notna(), None).to_dict()
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_stream_reads_only_the_columns_that_are_asked_for(tmp_path, suffix):
    frame = pd.DataFrame({"id": ["007", "8", "x"], "age": [20, 30, 40], "other": ["a", "b", "c"], "label": [1, 0, 1]})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    stream = stream_table(path, 2)
    assert stream.names == tuple(frame.columns)
    some = pd.concat(stream.only({"age", "id"}, {"label", "score"}))
    assert some.to_dict("list") == frame[["id", "age", "label"]].to_dict("list")
    assert stream.only({"age", "Id"}) is stream  # the error about "Id" names all columns


def test_a_code_stays_text_also_in_pieces_that_hold_only_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("code,flag,n\n007,True,1\n008,False,2\nabc,maybe,3\n,True,\n")
    for rows in (1, 2, 3):
        pieces = joined(path, rows)
        assert pieces["code"].tolist()[:3] == ["007", "008", "abc"] == read_table(path)["code"].tolist()[:3]
        assert pieces["flag"].tolist() == ["True", "False", "maybe", "True"] == read_table(path)["flag"].tolist()
        assert pieces["n"].tolist()[:3] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"age,gender\n", "has no rows"),
        ("t.csv", b"a,b\n1,2\n3,4\n5,6\n7,8,9\n", "not a readable CSV table .*line 5"),
        ("t.csv", b"a,b\n1,2\n3,4\n5,6\n\xff\xfe,1\n", "not UTF-8"),
        ("t.csv", b"a,b\n1,2,3\n", "more fields than the header"),
        ("t.csv", b"a,b\n1,2,\n2,3,\n3,4,\n4,5,\n", "more fields than the header"),
        ("t.csv", b"a,b,a\n1,2,3\n", 'two columns "a"'),
        ("t.parquet", b"a,b\n1,2\n", "not a readable Parquet"),
        ("t.xlsx", b"a,b\n1,2\n", "read from .csv, .csv.gz or .parquet"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_the_first_piece(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FairmendError, match=message) as caught:
        stream_table(tmp_path / name, rows=2)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(("separator", "words"), [(";", '";"'), ("\t", "tabs")])
def test_another_separator_is_named(tmp_path, separator, words):
    path = tmp_path / "t.csv"
    path.write_text(f"age{separator}gender\n20{separator}f\n30,5{separator}m\n")
    for read in (read_table, lambda path: list(stream_table(path))):
        with pytest.raises(FairmendError, match=f"separated by {words}; save it with commas"):
            read(path)


def people(rows, start=0):
    numbers = np.arange(start, start + rows)
    return pd.DataFrame({"age": numbers % 60 + 18, "code": [f"0{n}" for n in numbers], "x": numbers / 7})


def write_groups(path, sizes):
    """Write a Parquet file with row groups of these sizes."""
    table = pa.Table.from_pandas(people(sum(sizes)), preserve_index=False)
    with pq.ParquetWriter(path, table.schema) as writer:
        for end, size in zip(np.cumsum(sizes), sizes, strict=True):
            writer.write_table(table.slice(end - size, size), row_group_size=max(1, size))


def test_slices_are_disjoint_small_and_together_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("fairmend.tables.stream._SLICE", 10)
    write_groups(tmp_path / "t.parquet", [4, 5, 3, 12, 2, 0, 8])
    stream = stream_table(tmp_path / "t.parquet", 3)
    slices = stream.slices()
    assert [(part.first, part.rows, part.groups) for part in slices] == [
        (0, 9, (0, 1)),
        (9, 3, (2,)),
        (12, 12, (3,)),
        (24, 10, (4, 5, 6)),
    ]
    assert all(part.source == str(tmp_path / "t.parquet") for part in slices)
    frames = [frame for part in slices for frame in part]
    assert [frame.index.tolist() for frame in frames] == [frame.index.tolist() for frame in stream]
    assert pd.concat(frames).equals(people(34))


def test_a_csv_file_is_one_slice(tmp_path):
    write_csv(tmp_path / "t.csv", people(7))
    (part,) = stream_table(tmp_path / "t.csv", 3).only({"age"}).slices()
    assert (part.first, part.rows, part.groups, part.columns) == (0, 7, None, ("age",))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_slice_is_read_elsewhere_after_pickling(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_csv(path, people(7)) if suffix == ".csv" else write_groups(path, [4, 3])
    stream = stream_table(path, 3).only({"code", "age"})
    parts = pickle.loads(pickle.dumps(stream.slices()))
    assert all(a.equals(b) for a, b in zip(stream, (frame for part in parts for frame in part), strict=True))
    assert len(pickle.dumps(parts)) < 2_000


def test_a_file_that_changed_after_its_rows_were_counted_is_refused(tmp_path):
    write_csv(tmp_path / "t.csv", people(7))
    stream = stream_table(tmp_path / "t.csv")
    write_csv(tmp_path / "t.csv", people(6))
    with pytest.raises(FairmendError, match=r"t\.csv: the file was changed"):
        list(stream)


def test_few_different_texts_are_read_by_number_and_many_as_they_are(tmp_path):
    frame = pd.DataFrame({"job": [f"job {n % 5}" for n in range(5000)], "id": [f"person {n}" for n in range(5000)]})
    frame.loc[3, "job"] = None
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=1500)
    stream = stream_table(tmp_path / "t.parquet", 400)
    assert {part.dictionaries for part in stream.slices()} == {("job",)}
    for piece in stream:
        assert isinstance(piece["job"].dtype, pd.CategoricalDtype)
        assert not isinstance(piece["id"].dtype, pd.CategoricalDtype)
    values = pd.concat([piece.astype(object) for piece in stream])
    assert values.where(values.notna(), None).equals(frame.astype(object).where(frame.notna(), None))
    plain = pd.concat(stream.plain())
    assert plain["job"].dtype == pd.read_parquet(tmp_path / "t.parquet")["job"].dtype
