"""CSV files are read in pieces, compressed or not, and damaged ones are refused."""

import csv
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Label, Spec
from fairmend.tables import read_table, stream_table
from fairmend.tables.csv_files import CsvRange, csv_pieces, examine_csv, find_ranges, read_csv, write_csv
from fairmend.tables.files import TableFile
from support.examples import examples

HEADERS = [
    b"a,b\n",
    b"a,b\r\n",
    b"\xef\xbb\xbfa,b\n",
    b'\xef\xbb\xbf"a","b"\r\n',
    b"\n \t\r\na, b\n",
    b' "a" ,b\n',
    b'"a\nx",b\n',
    b"a,b\r",
    b"a,\n",
    b'a"b,"c\n',
    b"a\n",
]
FIELDS = [
    b"1",
    b"2.5",
    b"",
    b"x",
    b" y",
    b"\xc3\xa9",
    b"007",
    b"\tz",
    b'"p"',
    b'"q,r"',
    b'"s\nt"',
    b' "u"',
    b'"v""w"',
    b"1 2",
]
ENDS = [b"\n", b"\n", b"\n", b"\n\n", b"\r\n", b"\n \n"]
ODD = [
    b'a"b,c\n',
    b'"d"e"f",g\n',
    b"h\r",
    b"\r",
    b'"',
    b'  "i",j\n',
    b"5,6,7\n",
    b"8\n",
    b"\xff",
    b"\0",
    b" \t\n",
    b"\n ",
]
"""What may stand between rows: letters that look like quotes, other line ends, and mistakes."""

ROWS = st.tuples(st.sampled_from(FIELDS), st.sampled_from(FIELDS), st.sampled_from(ENDS)).map(
    lambda row: row[0] + b"," + row[1] + row[2]
)
BODIES = st.tuples(st.lists(ROWS, max_size=12), st.lists(st.sampled_from(ODD), max_size=1), st.lists(ROWS, max_size=6))


def outcome(path, range_bytes, block=1 << 20):
    """The values of a table in files, or the error about it, and the number of slices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairmend.tables.csv_files.RANGE_BYTES", range_bytes)
        patch.setattr("fairmend.tables.csv_files._BLOCK", block)
        try:
            stream = stream_table(path, 3)
            return values(pd.concat([frame.astype(object) for frame in stream])), len(stream.parts)
        except FairmendError as error:
            return str(error), 0


def values(frame):
    return [
        (name, [None if pd.isna(value) else value if isinstance(value, str) else float(value) for value in frame[name]])
        for name in frame
    ]


def whole(path):
    try:
        return values(read_table(path))
    except FairmendError as error:
        return str(error)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("ranges") / "t.csv"


@examples(60)
@given(header=st.sampled_from(HEADERS), body=BODIES, range_bytes=st.integers(1, 20), block=st.integers(12, 60))
def test_ranges_give_the_values_or_the_error_of_the_whole_file(path, header, body, range_bytes, block):
    path.write_bytes(header + b"".join(b"".join(part) for part in body))
    found, _ = outcome(path, range_bytes, block)
    assert found == outcome(path, 1 << 30)[0]
    if not isinstance(found, str):
        assert found == whole(path)


def ranges(path, content, range_bytes, block=1 << 20):
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairmend.tables.csv_files.RANGE_BYTES", range_bytes)
        patch.setattr("fairmend.tables.csv_files._BLOCK", block)
        return list(find_ranges(TableFile(str(path))))


def test_a_range_ends_at_the_first_row_end_after_its_size(path):
    content = b"a,b\n" + b"1,2\n" * 6
    assert ranges(path, content, 6) == [
        CsvRange(0, 12, 4, False),
        CsvRange(12, 20, 4, False),
        CsvRange(20, 28, 4, False),
    ]
    assert ranges(path, content, 100) == [None]
    assert [part.padded for part in ranges(path, b"a,b\n1,2\n1, 2\n3,4\n", 4, block=4)] == [False, True, False]
    assert [part.padded for part in ranges(path, b"a, b\n1,2\n3,4\n", 4)] == [True, True]


@pytest.mark.parametrize(
    ("content", "cuts"),
    [
        (b'a,b\n1,"x\ny"\n2,3\n4,5\n', [12, 16]),  # a line end in a quoted field is none
        (b'a,b\n1,"x ""y"""\n2,3\n4,5\n', [16, 20]),
        (b'a,b\n1, "x,\n"\n2,3\n4,5\n', [13, 17]),
        (b'a,b\n1,2\n3,x"y\n4,5\n', []),  # a letter: what follows cannot be told from quoted fields
        (b"a,b\r1,2\r3,4\r", []),
        (b'"a\nb",c\n1,2\n3,4\n', []),
    ],
)
def test_rows_are_never_cut(path, content, cuts):
    assert [part.end for part in ranges(path, content, 2)][:-1] == cuts


def test_cuts_before_a_doubtful_quote_stay(path):
    content = b"a,b\n" + b"1,2\n" * 6 + b'x"y,3\n' + b"1,2\n" * 3
    assert [part.end for part in ranges(path, content, 4, block=8)] == [8, 12, 16, 20, 24, len(content)]


def test_a_compressed_file_is_read_as_a_whole(tmp_path):
    assert ranges(tmp_path / "t.csv.gz", b"anything\n" * 10, 1) == [None]


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


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("header", [["age", "code"], ["age", "job, branch", "code"]])
def test_other_separators_are_found_even_if_a_name_has_a_comma(tmp_path, separator, header):
    rows = [header, ["1,5"] * len(header)]
    file = written(tmp_path / "t.csv", "".join(separator.join(row) + "\n" for row in rows).encode())
    frame = read_csv(file)
    assert frame.columns.tolist() == header
    assert frame.iloc[0].tolist() == [1.5] * len(header)


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
