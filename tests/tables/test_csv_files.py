"""CSV files are read in pieces, compressed or not, and damaged ones are refused."""

import gzip

import pytest

from fairmend.errors import FairmendError
from fairmend.tables.csv_files import csv_pieces, examine_csv, read_csv
from fairmend.tables.files import TableFile

TEXT = b"age,code\n" + b"".join(b"%d,0%d\n" % (n % 60, n) for n in range(500)) + b",abc\n"


def written(path, content):
    path.write_bytes(content)
    return TableFile(str(path))


def test_a_compressed_file_holds_the_same_as_a_plain_one(tmp_path):
    plain, packed = written(tmp_path / "t.csv", TEXT), written(tmp_path / "t.csv.gz", gzip.compress(TEXT))
    assert read_csv(plain).equals(read_csv(packed))
    assert examine_csv(plain, 100) == examine_csv(packed, 100)
    pieces = zip(csv_pieces(plain, 90, ["code"], ["code"]), csv_pieces(packed, 90, ["code"], ["code"]), strict=True)
    assert all(a.equals(b) for a, b in pieces)


def test_what_columns_hold_is_found_over_all_pieces(tmp_path):
    contents = examine_csv(written(tmp_path / "t.csv", TEXT), 100)
    assert (contents.rows, contents.kinds) == (501, {"age": {"number"}, "code": {"number", "text"}})


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:200] + b"\xff" * 50 + b[250:], lambda b: TEXT]
)
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    file = written(tmp_path / "t.csv.gz", damage(gzip.compress(TEXT)))
    with pytest.raises(
        FairmendError, match=r"t\.csv\.gz: (the gzip file is damaged|cannot read the data: Not a gzipped)"
    ):
        examine_csv(file, 100)


@pytest.mark.parametrize(("separator", "word"), [(";", '";"'), ("\t", "tabs")])
@pytest.mark.parametrize("header", [["age", "code"], ["age", "job, branch", "code"]])
def test_other_separators_are_named_even_if_a_name_has_a_comma(tmp_path, separator, word, header):
    rows = [header, ["1,5"] * len(header)]
    file = written(tmp_path / "t.csv", "".join(separator.join(row) + "\n" for row in rows).encode())
    with pytest.raises(FairmendError, match=f"separated by {word}; save it with commas"):
        read_csv(file)


def test_other_separators_inside_of_fields_are_text(tmp_path):
    table = read_csv(written(tmp_path / "t.csv", b'"a;b;c",d;e\n"1;2;3",4\n5,6\n'))
    assert table.columns.tolist() == ["a;b;c", "d;e"]


@pytest.mark.parametrize("name", ["\r0", "\n", "a\r\nb", '"', "\r;\r", "a\tb"])
def test_a_name_may_hold_any_character(tmp_path, name):
    quoted = '"' + name.replace('"', '""') + '"'
    table = read_csv(written(tmp_path / "t.csv", f"{quoted},b\n1,2\n".encode()))
    assert table.columns.tolist() == [name, "b"]
