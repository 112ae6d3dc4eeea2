"""Tables are read back as they were written, and a file that is no table is refused with its path."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.tables import read_table, stream, write_csv


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
        ("t.xlsx", b"a,b\n1,2\n", "read from .csv, .csv.gz or .parquet"),
        ("table", b"a,b\n1,2\n", "read from .csv, .csv.gz or .parquet"),
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
