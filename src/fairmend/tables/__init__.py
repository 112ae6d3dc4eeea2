"""Read tables of people from CSV, Parquet or Excel files, on disk or in an object store, and write CSV files."""

from fairmend.base.paths import TableSource
from fairmend.tables.csv_files import csv_text, write_csv
from fairmend.tables.files import TableFile, find_files, local_files
from fairmend.tables.stream import (
    FIRST_ROW,
    BrokenFile,
    TableSlice,
    TableStream,
    describe_broken,
    first_rows,
    read_table,
    stream_table,
)

__all__ = [
    "FIRST_ROW",
    "BrokenFile",
    "TableFile",
    "TableSlice",
    "TableSource",
    "TableStream",
    "csv_text",
    "describe_broken",
    "find_files",
    "first_rows",
    "local_files",
    "read_table",
    "stream_table",
    "write_csv",
]
