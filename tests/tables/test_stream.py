"""A stream holds the values of its table, and its slices are read by any process."""

import math
import os
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.tables import read_table, stream, stream_table, write_csv
from fairmend.tables.stream import describe_files, read_from_elsewhere, require_visible


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [1, 2, 3]}).to_parquet("people.parquet")
    return stream_table("people.parquet")


def test_a_relative_path_is_read_from_another_folder(table, tmp_path, monkeypatch):
    sent = read_from_elsewhere(table)
    monkeypatch.chdir(os.sep)
    (part,) = sent.slices()
    assert part.file.name == "people.parquet"  # as messages and files name it
    assert part.file.place == str(tmp_path / "people.parquet")
    require_visible(part)
    assert pd.concat(list(part))["a"].tolist() == [1, 2, 3]


def test_a_file_that_is_not_there_is_named_with_what_workers_need(table):
    (part,) = read_from_elsewhere(table).slices()
    gone = replace(part, file=replace(part.file, base=f"{part.file.base}/other"))
    with pytest.raises(FairmendError, match=r"other/people\.parquet: the worker on .* or give the URL"):
        require_visible(gone)
    require_visible(replace(part, file=replace(part.file, name="s3://bucket/people.parquet")))


def test_the_description_changes_with_the_file(table):
    before = describe_files(table)
    assert describe_files(stream_table("people.parquet")) == before
    pd.DataFrame({"a": [1, 2, 4]}).to_parquet("people.parquet")
    assert describe_files(stream_table("people.parquet")) != before
    os.remove("people.parquet")
    with pytest.raises(FairmendError, match=r"people\.parquet: cannot read the data"):
        describe_files(table)


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.integers(-(2**53), 2**53)), min_size=1))
def test_numbers_survive_a_csv_bit_by_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    frame = pd.DataFrame(rows, columns=["a", "b"])
    write_csv(path, frame)
    back = read_table(path)
    assert np.array_equal(back["a"].to_numpy(float), frame["a"].to_numpy())
    assert np.array_equal(back["b"].to_numpy(), frame["b"].to_numpy())


def test_parquet_is_read(tmp_path):
    frame = pd.DataFrame({"age": [20, 30], "gender": ["f", "m"]})
    frame.to_parquet(tmp_path / "t.PARQUET")
    assert read_table(tmp_path / "t.PARQUET").to_dict() == frame.to_dict()


def test_only_empty_fields_are_missing_and_na_is_a_value(tmp_path):
    (tmp_path / "t.csv").write_text("housing, job\nNone,NA\nnull, \n")
    frame = read_table(tmp_path / "t.csv")
    assert frame.columns.tolist() == ["housing", "job"]
    assert frame["housing"].tolist() == ["None", "null"]
    assert frame["job"].isna().tolist() == [False, True]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfage,x\r\n3,4\r\n")
    assert read_table(tmp_path / "t.csv").to_dict("list") == {"age": [3], "x": [4]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"age,gender\n", "has no rows"),
        ("t.csv", b"\n\n", "not a readable CSV"),
        ("t.csv", b'a,b\n1,2\n"3,4\n5,6\n', "not a readable CSV"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n", "not a readable CSV table .*line 3"),
        ("t.csv", b"a,b\n1,2,3\n", "more fields than the header"),
        ("t.csv", b"a,b\n1,2,\n2,3,\n3,4,\n4,5,\n", "more fields than the header"),
        ("t.csv", b"a,b,a\n1,2,3\n", 'two columns "a"'),
        ("t.csv", b"a,b\n\xff\xfe,1\n", "not UTF-8"),
        ("t.parquet", b"a,b\n1,2\n", "not a readable Parquet"),
        ("t.parquet", b"", "the file is empty"),
        ("t.ods", b"a,b\n1,2\n", "read from .csv, .csv.gz, .parquet or .xlsx"),
        ("table", b"a,b\n1,2\n", "read from .csv, .csv.gz, .parquet or .xlsx"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_path(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FairmendError, match=message) as caught:
        read_table(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path):
    with pytest.raises(FairmendError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FairmendError, match="the folder has no table files"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_only_some_columns_are_kept_if_they_exist(tmp_path, kind):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5], "d": [3, 4]})
    path = tmp_path / ("people.csv" if kind == "csv" else "people.parquet")
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    if kind == "folder":
        frame.to_parquet(tmp_path / "more.parquet")
        path = tmp_path
    assert list(read_table(path, needed=["c", "a"], useful=["b", "none"]).columns) == ["a", "b", "c"]
    assert read_table(path, needed=["c", "a"])["c"].tolist()[:2] == [0.5, 1.5]
    assert list(read_table(path, needed=["c", "missing"]).columns) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_texts_with_few_values_are_kept_once_in_tables_of_some_columns(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(stream, "PIECE", 100)
    rng = np.random.default_rng(0)
    jobs, ids = rng.choice(["cook", "judge", "clerk"], 2000), [f"p{number}" for number in range(2000)]
    frame = pd.DataFrame({"job": jobs, "id": ids, "age": rng.integers(18, 80, 2000), "other": 1})
    path = tmp_path / f"people.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, row_group_size=700)
    found = read_table(path, needed=["age", "job", "id"])
    assert list(found.columns) == ["job", "id", "age"]
    assert isinstance(found["job"].dtype, pd.CategoricalDtype)
    assert found["job"].cat.codes.dtype == np.int8
    assert all(found[name].tolist() == frame[name].tolist() for name in found)
    assert found.index.equals(frame.index)


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
        ("t.ods", b"a,b\n1,2\n", "read from .csv, .csv.gz, .parquet or .xlsx"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_the_first_piece(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FairmendError, match=message) as caught:
        stream_table(tmp_path / name, rows=2)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("separator", [";", "\t"])
def test_another_separator_is_found(tmp_path, separator):
    path = tmp_path / "t.csv"
    path.write_text(f"age{separator}gender\n20{separator}f\n30,5{separator}m\n")
    for read in (read_table, lambda path: pd.concat(stream_table(path))):
        assert read(path).to_dict("list") == {"age": [20, 30.5], "gender": ["f", "m"]}


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
    assert all(part.file.name == str(tmp_path / "t.parquet") for part in slices)
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
