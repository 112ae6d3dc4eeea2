"""Footers of Parquet files say what they hold; damaged files are refused."""

import pandas as pd
import pytest

from fairmend.errors import FairmendError
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
