"""Parquet files: their footers say what they hold, and their row groups are read in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.tables.files import TableFile

if TYPE_CHECKING:
    import pyarrow as pa


_NUMBERED = 3.0  # bytes for each value: a number below 65,536 takes two, and text itself four and its letters


@dataclass(frozen=True)
class ParquetContents:
    """What the footer of a Parquet file says: the rows of each row group, and the type of each column.

    A type is "number", "truth", "text", "nothing" (a column without values) or the name of another type of Arrow.
    `dictionaries` are columns of text with few different values, which are stored once and then only numbered.
    """

    groups: tuple[int, ...]
    types: dict[str, str]
    dictionaries: frozenset[str]


def examine_parquet(file: TableFile) -> ParquetContents:
    """Read the footer of a file, and none of its rows."""
    with _opened(file) as parquet:
        meta = parquet.metadata
        groups = tuple(meta.row_group(group).num_rows for group in range(meta.num_row_groups))
        types = {column.name: _type_name(column.type) for column in parquet.schema_arrow}
        texts = {name for name, kind in types.items() if kind == "text"}
        return ParquetContents(groups, types, frozenset(texts & _with_few_values(meta)))


def read_all_pages(file: TableFile, piece: int) -> None:
    """Decode the whole file once: what the footer cannot tell is that a page is damaged."""
    for _ in _batches(file, piece):
        pass


def parquet_pieces(
    file: TableFile,
    piece: int,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
) -> Iterator[pd.DataFrame]:
    """Yield data frames of at most `piece` rows of the row groups, all by default.

    The columns `dictionaries` come as categoricals: their different values once, and a number for each row.
    """
    kinds: dict[str, tuple[pa.Array, pd.CategoricalDtype]] = {}
    for batch in _batches(file, piece, groups, columns, dictionaries):
        yield _as_frame(batch, _numbered(batch.schema, dictionaries), kinds)


def read_parquet(file: TableFile) -> pd.DataFrame:
    """Return the whole file."""
    with _opened(file) as parquet:
        frame: pd.DataFrame = parquet.read().to_pandas()
    return frame


def _batches(
    file: TableFile,
    piece: int,
    groups: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    from pyarrow import default_memory_pool

    wanted: dict[str, Any] = {
        "columns": None if columns is None else list(columns),
        "row_groups": None if groups is None else list(groups),
    }
    with _opened(file, dictionaries) as parquet:
        # Threads would decode all columns at once, which takes more memory.
        try:
            yield from parquet.iter_batches(batch_size=piece, use_threads=False, **wanted)
        finally:
            default_memory_pool().release_unused()  # pyarrow would keep it for later


def _numbered(schema: pa.Schema, dictionaries: Sequence[str]) -> list[str]:
    """Return the columns with a dictionary that `_as_frame` converts: none that pandas makes the index."""
    from pyarrow import types

    if len(set(schema.names)) < len(schema.names):
        return []
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    chosen = [name for name in schema.names if name in dictionaries and name not in index]
    return [name for name in chosen if types.is_dictionary(schema.field(name).type)]


def _as_frame(
    batch: pa.RecordBatch, numbered: Sequence[str], kinds: dict[str, tuple[pa.Array, pd.CategoricalDtype]]
) -> pd.DataFrame:
    """Return a batch as pandas has it; `kinds` keeps the types of categoricals, as batches share their dictionaries."""
    if not numbered:
        whole: pd.DataFrame = batch.to_pandas()
        return whole
    others = batch.select([name for name in batch.schema.names if name not in numbered]).to_pandas(split_blocks=True)
    columns: dict[str, Any] = {}
    for name in batch.schema.names:
        if name in others.columns:
            columns[name] = others[name].array
        elif name in numbered:
            columns[name] = _categorical(name, batch.column(name), kinds)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(batch)), copy=False)


def _categorical(name: str, column: Any, kinds: dict[str, tuple[pa.Array, pd.CategoricalDtype]]) -> pd.Categorical:
    if name not in kinds or not kinds[name][0].equals(column.dictionary):
        values = column.dictionary
        kinds[name] = (values, pd.CategoricalDtype(values.to_pandas(), ordered=column.type.ordered))
    codes = column.indices.cast("int64").fill_null(-1) if column.null_count else column.indices
    return pd.Categorical.from_codes(codes.to_numpy(), dtype=kinds[name][1], validate=False)


@contextmanager
def _opened(file: TableFile, dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """Open a file, and turn the errors of reading it into a FairmendError."""
    from pyarrow.parquet import ParquetFile

    with file.open() as source:
        try:
            with ParquetFile(source, read_dictionary=list(dictionaries)) as parquet:
                yield parquet
        except FairmendError:
            raise
        except Exception as error:  # pyarrow raises errors of its own, and OSError for damaged files
            reason = first_line(error)
            raise FairmendError(f"{file.name}: not a readable Parquet table ({reason}); save it again") from error


def _with_few_values(meta: Any) -> set[str]:
    """Return the columns whose values take so few bytes in every row group that they must be numbers of others."""
    sizes: dict[str, float] = {}
    for group in range(meta.num_row_groups):
        for number in range(meta.num_columns):
            chunk = meta.row_group(group).column(number)
            share = chunk.total_uncompressed_size / max(1, chunk.num_values)
            sizes[chunk.path_in_schema] = max(share, sizes.get(chunk.path_in_schema, 0.0))
    return {name for name, share in sizes.items() if share < _NUMBERED}


def _type_name(kind: pa.DataType) -> str:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "truth"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "nothing" if types.is_null(kind) else str(kind)
