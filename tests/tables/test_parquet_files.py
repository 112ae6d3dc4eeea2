"""Footers of Parquet files say what they hold; damaged files are refused."""

import pandas as pd
import pytest
from pyarrow.parquet import ParquetFile

from fairmend.base.errors import FairmendError
from fairmend.tables.files import TableFile
from fairmend.tables.parquet_files import examine_parquet, parquet_pieces, read_all_pages, read_parquet

FRAME = pd.DataFrame(
    {"n": [1, 2, 3, 4], "x": [0.5, None, 1, 2], "who": ["a", "b", None, "c"], "yes": [True, False, True, True]}
)


@pytest.fixture
def file(tmp_path):
    frame = FRAME.assign(cat=pd.Categorical(["u", "v", "u", "v"]), none=pd.Series([None] * 4, dtype=object))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=3)
    return TableFile(str(tmp_path / "t.parquet"))


def test_the_footer_says_what_a_file_holds(file):
    contents = examine_parquet(file)
    assert contents.groups == (3, 1)
    assert contents.types == {
        "n": "number",
        "x": "number",
        "who": "text",
        "yes": "truth",
        "cat": "text",
        "none": "nothing",
    }


def test_pieces_of_row_groups_are_read(file):
    pieces = list(parquet_pieces(file, 2))
    assert max(map(len, pieces)) == 2
    assert pd.concat(pieces)["n"].tolist() == [1, 2, 3, 4]
    (last,) = parquet_pieces(file, 2, [1], ["who", "n"])
    assert last.to_dict("list") == {"n": [4], "who": ["c"]}
    assert read_parquet(file)[["n", "x"]].equals(FRAME[["n", "x"]])


def test_a_damaged_page_is_found_by_decoding(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"who": [f"person {n}" for n in range(3000)]}).to_parquet(path)
    content = bytearray(path.read_bytes())
    content[100:2000] = bytes(1900)
    path.write_bytes(content)
    file = TableFile(str(path))
    assert examine_parquet(file).groups == (3000,)
    with pytest.raises(FairmendError, match=r"t\.parquet: not a readable Parquet table"):
        read_all_pages(file, 1000)


@pytest.mark.parametrize("columns", [None, ["who", "n"], ["who"]])
def test_categoricals_are_those_of_pyarrow(tmp_path, columns):
    text = pd.Series(["a", "b", None, "b"] * 3 + ["c", "a", "b", "d"], dtype=object)
    sizes = pd.Categorical(text.fillna("a"), categories=["d", "c", "b", "a"], ordered=True)
    frame = pd.DataFrame({"n": range(16), "who": text, "size": sizes, "some": pd.array([1, None] * 8, dtype="Int64")})
    frame.index = pd.Index(text.fillna("x"), name="key")
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=6)
    with ParquetFile(tmp_path / "t.parquet", read_dictionary=["who", "size", "key"]) as parquet:
        expected = [batch.to_pandas() for batch in parquet.iter_batches(3, columns=columns)]
    pieces = parquet_pieces(TableFile(str(tmp_path / "t.parquet")), 3, None, columns, ["who", "size", "key"])
    for piece, given in zip(pieces, expected, strict=True):
        pd.testing.assert_frame_equal(piece, given.reset_index(drop=True))


def test_pieces_with_one_dictionary_share_a_type(tmp_path):
    pd.DataFrame({"who": ["a", "b"] * 4}).to_parquet(tmp_path / "t.parquet")
    first, second = parquet_pieces(TableFile(str(tmp_path / "t.parquet")), 4, None, None, ["who"])
    assert first["who"].dtype is second["who"].dtype
