"""Read what the model itself gave: its scores for the rows of the data, or the matrix that it read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, listed
from fairmend.spec import Label
from fairmend.tables import read_table


def read_scores(path: Path, rows: int, outputs: int) -> Floats:
    """Return the scores (rows, 1 or classes) in a .csv, .parquet or .npy file; a missing score is NaN.

    ``rows`` is the number of rows of the data, ``outputs`` the number of outputs of the network.
    """
    scores = _array(path) if path.suffix.lower() == ".npy" else _table(path)
    scores = scores[:, None] if scores.ndim == 1 else scores
    classes = max(2, outputs)
    if scores.ndim != 2 or scores.shape[1] not in (1, classes):
        raise FairmendError(
            f"{path}: has {scores.shape[1] if scores.ndim == 2 else scores.ndim} columns. Keep one column of scores, "
            f"or one for each of the {classes} classes."
        )
    if outputs > 2 and scores.shape[1] == 1:
        raise FairmendError(f"{path}: has one column of scores, but the network has {outputs}. Give one for each.")
    _require_rows(path, len(scores), rows)
    if not np.isfinite(scores).any():
        raise FairmendError(f"{path}: has no scores. Give the probabilities or the raw outputs of the model.")
    return scores


def read_score_column(label: Label | None, frame: pd.DataFrame) -> Floats | None:
    """Return the scores (rows, 1) in the column that [label] names; None if the spec names none, or the data has none.

    A missing score is NaN.
    """
    if label is None or label.score is None or label.score not in frame.columns:
        return None
    return _numbers(frame[[label.score]], "the data")


def read_matrix(path: Path, rows: int) -> Floats:
    """Return the encoded inputs (rows, columns) in a .npy, .csv or .parquet file."""
    matrix = _array(path) if path.suffix.lower() == ".npy" else _table(path)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FairmendError(f"{path}: has the shape {matrix.shape}. Give one row for each row of the data.")
    _require_rows(path, len(matrix), rows)
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        raise FairmendError(
            f"{path}, row {bad[0][0]}, column {bad[0][1]}: not a finite number. Save what the model read."
        )
    return matrix


def _array(path: Path) -> npt.NDArray[np.float64]:
    """Return the numbers in a .npy file; objects in it, which would run code, are not read."""
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise FairmendError(f"{path}: no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise FairmendError(
            f"{path}: not a readable .npy file of numbers ({first_line(error)}). Save it with numpy.save."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise FairmendError(f"{path}: holds no array of numbers. Save it with numpy.save.")
    return array.astype(np.float64)


def _table(path: Path) -> Floats:
    """Return the numbers in a table, without the row numbers that pandas writes by default."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise FairmendError(f"{path}: is read from .csv, .parquet or .npy files; convert it first")
    frame = read_table(path)
    first = frame.iloc[:, 0]
    numbered = str(frame.columns[0]).startswith("Unnamed:") and frame.shape[1] > 1
    if numbered and pd.api.types.is_integer_dtype(first.dtype):
        frame = frame.iloc[:, 1:]
    return _numbers(frame, str(path))


def _numbers(frame: pd.DataFrame, where: str) -> Floats:
    texts = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    texts = [name for name in texts if pd.to_numeric(frame[name], errors="coerce").isna().ne(frame[name].isna()).any()]
    if texts:
        hold = "holds" if len(texts) == 1 else "hold"
        columns = f"column{'' if len(texts) == 1 else 's'} {listed(texts)}"
        raise FairmendError(f"{where}: {columns} {hold} text. Keep only the numbers that the model gave.")
    return np.asarray(frame.apply(pd.to_numeric).to_numpy(np.float64, na_value=np.nan))


def _require_rows(path: Path, found: int, rows: int) -> None:
    if found == rows:
        return
    hint = " Does the file have a header?" if found == rows - 1 and path.suffix.lower() == ".csv" else ""
    raise FairmendError(
        f"{path}: has {found:,} rows, but the data has {rows:,}. Give one for each, in the same order.{hint}"
    )
