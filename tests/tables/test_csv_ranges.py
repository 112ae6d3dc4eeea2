"""Ranges of a CSV file hold the rows of the file: read one by one they give its values, or its errors."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.tables import csv_ranges, read_table, stream_table
from fairmend.tables.csv_ranges import CsvRange, find_ranges
from fairmend.tables.files import TableFile

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
        patch.setattr(csv_ranges, "RANGE_BYTES", range_bytes)
        patch.setattr(csv_ranges, "_BLOCK", block)
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


@settings(max_examples=60, deadline=None)
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
        patch.setattr(csv_ranges, "RANGE_BYTES", range_bytes)
        patch.setattr(csv_ranges, "_BLOCK", block)
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
