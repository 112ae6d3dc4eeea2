"""CSV files are read in pieces, compressed or not, and damaged ones are refused."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Label, Spec
from fairmend.tables import read_table
from fairmend.tables.csv_files import csv_pieces, examine_csv, read_csv, write_csv
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


SIGNS = ["=cmd|'/c calc'!A1", "+1+1", "-x", "@SUM(A1)", "\t=2", "\r=3", "a;=1", "'=1", "-", "plain"]


def people():
    return pd.DataFrame(
        {
            "=age": np.arange(20) - 9.5,
            "@group": SIGNS * 2,
            "kind": pd.Categorical(SIGNS * 2),
            "-paid": ["=yes", "=no"] * 10,
            "day": pd.date_range("2020-01-01", periods=20),
            "empty": [None] * 20,
        }
    )


def test_no_cell_that_is_written_is_a_formula(tmp_path):
    write_csv(tmp_path / "t.csv", people())
    for separator in ",;\t":
        with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
        texts = [cell for cell in cells if not cell.lstrip("-").replace(".", "", 1).isdigit()]
        starts = {text.lstrip(' "')[:1] for text in texts}
        assert not starts & set("=+@\t\r")
        assert separator != "," or "-" not in starts
    assert "\n-9.5," in (tmp_path / "t.csv").read_text()
    assert "2020-01-01," in (tmp_path / "t.csv").read_text()


def test_what_is_written_is_read_back_by_its_spec(tmp_path):
    """Categories, the names of columns and the label are found under the texts that a spreadsheet gets."""
    features = [
        Feature("=age", "continuous", range=(-10, 20)),
        Feature("@group", "categorical", categories=tuple(SIGNS), encoding="one-hot", protected=True),
        Feature("kind", "categorical", categories=tuple(SIGNS)),
    ]
    two = Spec(features, Label("-paid", "=yes"))
    several = Spec(features, Label("-paid", classes=("=no", "=yes", "=maybe")))
    write_csv(tmp_path / "t.csv", people())
    frame = read_table(tmp_path / "t.csv")
    for spec in (two, several):
        assert np.array_equal(spec.encode(frame), spec.encode(people()))
        assert np.array_equal(spec.labels(frame), spec.labels(people()))


def test_a_category_that_has_the_apostrophe_itself_is_not_confused():
    spec = Spec([Feature("g", "categorical", categories=("=a", "'=a", "''=a"), protected=True)])
    values = spec.encode(pd.DataFrame({"g": ["=a", "'=a", "''=a", "'''=a"]})).ravel().tolist()
    assert values == [0, 1, 2, 2]
