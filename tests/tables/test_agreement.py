"""Files of one table have the same columns, with the same types."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.tables.agreement import Columns
from fairmend.tables.files import TableFile

A, B = TableFile("a"), TableFile("b")


def test_the_order_of_columns_and_columns_without_values_agree():
    columns = Columns()
    columns.add_parquet(A, {"age": "number", "who": "nothing"})
    columns.add_parquet(B, {"who": "text", "age": "nothing"})
    assert columns.names == ("age", "who")
    with pytest.raises(FairmendError, match='c: column "who" has the type number, but text in b'):
        columns.add_parquet(TableFile("c"), {"who": "number", "age": "number"})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"age": "number"}, 'b: has no column "who", which a has'),
        ({"age": "number", "Who": "text"}, 'b: has no column "who", which a has .did you mean "Who"'),
        ({"age": "number", "who": "text", "x": "text"}, 'b: has a column "x", which a does not have'),
        ({"age": "text", "who": "text"}, 'b: column "age" has the type text, but number in a'),
    ],
)
def test_a_difference_is_named_with_file_and_column(types, message):
    columns = Columns()
    columns.add_parquet(A, {"age": "number", "who": "text"})
    with pytest.raises(FairmendError, match=message):
        columns.add_parquet(B, types)


def test_what_all_csv_files_hold_decides_what_is_text():
    columns = Columns()
    columns.add_csv(A, {"code": {"number"}, "age": {"number"}})
    columns.add_csv(TableFile("empty"), {})
    columns.add_csv(B, {"code": {"text"}, "age": set()})
    assert columns.texts == ("code",)


def test_a_column_of_a_folder_must_not_be_in_its_files():
    file = TableFile("year=1/a", (("year", 1),))
    columns = Columns()
    columns.add_parquet(file, {"age": "number"})
    assert columns.names == ("age", "year")
    with pytest.raises(FairmendError, match='has a column "year", and so has its folder'):
        columns.add_parquet(file, {"age": "number", "year": "number"})
