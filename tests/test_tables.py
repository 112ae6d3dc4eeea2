"""Tables are read back as they were written, and a file that is no table is refused with its path."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.errors import FairmendError
from fairmend.tables import read_table, stream_table, write_csv


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
        ("t.csv", b"a,b,a\n1,2,3\n", 'two columns "a"'),
        ("t.csv", b"a,b\n\xff\xfe,1\n", "not UTF-8"),
        ("t.parquet", b"a,b\n1,2\n", "not a readable Parquet"),
        ("t.parquet", b"", "the file is empty"),
        ("t.xlsx", b"a,b\n1,2\n", "read from .csv or .parquet"),
        ("table", b"a,b\n1,2\n", "read from .csv or .parquet"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_path(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FairmendError, match=message) as caught:
        read_table(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FairmendError, match="no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FairmendError, match="is a folder"):
        read_table(tmp_path / "folder.csv")


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
        ("t.csv", b"a,b,a\n1,2,3\n", 'two columns "a"'),
        ("t.parquet", b"a,b\n1,2\n", "not a readable Parquet"),
        ("t.xlsx", b"a,b\n1,2\n", "read from .csv or .parquet"),
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
