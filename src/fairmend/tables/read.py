"""Read whole tables."""

from __future__ import annotations

import logging
import os

import pandas as pd

from fairmend.data_source import DataURL
from fairmend.errors import FairmendError
from fairmend.tables.csv_files import read_csv
from fairmend.tables.files import find_files
from fairmend.tables.parquet_files import read_parquet
from fairmend.tables.stream import BrokenFile, stream_table

__all__ = ["read_table"]

_logger = logging.getLogger(__name__)


def read_table(source: str | os.PathLike[str] | DataURL, *, broken: list[BrokenFile] | None = None) -> pd.DataFrame:
    """Return a table as a data frame; a table without rows is refused.

    A file that cannot be read is refused as well, unless there is a list `broken`, which collects such files.
    """
    files = find_files(source)
    if len(files) > 1 or files[0].partition:
        stream = stream_table(source, keep_going=broken is not None)
        frame = pd.concat(list(stream.plain()))
        if broken is not None:
            broken += stream.broken
    else:
        frame = read_csv(files[0]) if files[0].is_csv else read_parquet(files[0])
    if len(frame) == 0:
        raise FairmendError(f"{source}: the table has no rows; give at least one")
    _logger.info("read %d rows of %d columns from %s", *frame.shape, source)
    return frame
