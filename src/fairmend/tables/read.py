"""Read whole tables."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

import pandas as pd

from fairmend.data_source import DataURL
from fairmend.errors import FairmendError
from fairmend.tables.csv_files import read_csv
from fairmend.tables.files import find_files
from fairmend.tables.parquet_files import examine_parquet, read_parquet
from fairmend.tables.stream import BrokenFile, stream_table

__all__ = ["read_table"]

_logger = logging.getLogger(__name__)


def read_table(
    source: str | os.PathLike[str] | DataURL,
    *,
    needed: Collection[str] | None = None,
    useful: Collection[str] = (),
    broken: list[BrokenFile] | None = None,
) -> pd.DataFrame:
    """Return a table as a data frame; a table without rows is refused.

    With `needed`, only these columns and those of `useful` that exist are kept, which takes less memory; all columns,
    if one that is needed does not exist. A file that cannot be read is refused as well, unless there is a list
    `broken`, which collects such files.
    """
    files = find_files(source)
    if len(files) > 1 or files[0].partition:
        stream = stream_table(source, keep_going=broken is not None)
        stream = stream if needed is None else stream.only(needed, useful)
        frame = pd.concat(list(stream.plain()))
        if broken is not None:
            broken += stream.broken
    elif files[0].is_csv:
        frame = read_csv(files[0])  # all columns: a row with surplus fields is an error
        frame = frame[_chosen([str(name) for name in frame.columns], needed, useful)]
    else:
        frame = read_parquet(files[0], _chosen(list(examine_parquet(files[0]).types), needed, useful))
    if len(frame) == 0:
        raise FairmendError(f"{source}: the table has no rows; give at least one")
    _logger.info("read %d rows of %d columns from %s", *frame.shape, source)
    return frame


def _chosen(names: list[str], needed: Collection[str] | None, useful: Collection[str]) -> list[str]:
    """Return the columns to keep."""
    if needed is None or not set(needed) <= set(names):
        return names
    return [name for name in names if name in needed or name in useful]
