"""Read whole tables."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

import pandas as pd
from pandas.api.types import union_categoricals

from fairmend.base.data_source import DataURL
from fairmend.base.errors import FairmendError
from fairmend.tables.csv_files import read_csv
from fairmend.tables.files import find_files
from fairmend.tables.parquet_files import read_parquet
from fairmend.tables.stream import BrokenFile, stream_table

_logger = logging.getLogger(__name__)


def read_table(
    source: str | os.PathLike[str] | DataURL,
    *,
    needed: Collection[str] | None = None,
    useful: Collection[str] = (),
    broken: list[BrokenFile] | None = None,
) -> pd.DataFrame:
    """Return a table as a data frame; a table without rows is refused.

    With `needed`, only these columns and those of `useful` that exist are kept, and texts with few values are
    categoricals, which takes less memory; all columns as they are, if one that is needed does not exist. A file that
    cannot be read is refused as well, unless there is a list `broken`, which collects such files.
    """
    files = find_files(source)
    several = len(files) > 1 or bool(files[0].partition)
    if several or needed is not None:
        spool = {*(needed or ()), *useful}
        stream = stream_table(source, keep_going=several and broken is not None, spool=spool)
        chosen = stream.plain() if needed is None else stream.only(needed, useful)
        frame = _joined(list(chosen if chosen.columns is not None else chosen.plain()))
        if broken is not None:
            broken += stream.broken
    else:
        frame = read_csv(files[0]) if files[0].is_csv else read_parquet(files[0])
    if len(frame) == 0:
        raise FairmendError(f"{source}: the table has no rows; give at least one")
    _logger.info("read %d rows of %d columns from %s", *frame.shape, source)
    return frame


def _joined(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all pieces; a column that has a dictionary in each of them has one in the result."""
    if len(pieces) == 1:
        return pieces[0]
    coded = [name for name in pieces[0] if all(isinstance(piece[name].dtype, pd.CategoricalDtype) for piece in pieces)]
    others = pd.concat([piece.drop(columns=coded) for piece in pieces])
    for name in coded:
        others[name] = union_categoricals([piece[name] for piece in pieces])
    return others[list(pieces[0].columns)]
