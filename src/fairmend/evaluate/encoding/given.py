"""What the model itself gave, its scores or the matrix that it read, and whether spec and network reproduce it.

This is the check that a wrong spec does not pass. Accuracy can look plausible with two columns exchanged. The scores
cannot: to reproduce all of them to rounding, every column must be where the model reads it, encoded as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.text import count, first_line, listed, short
from fairmend.network import Model, Network
from fairmend.network.model import scores_of
from fairmend.spec import Label, Spec
from fairmend.spec.read_values import RowNumber
from fairmend.tables import read_table

_NEAR = 1e-5  # frameworks compute in float32 and in another order; measured rounding is added to it
_SAFETY = 4.0  # times the rounding that is measured on the given rows
_MOST_ROUNDING = 1e-3  # of the spread of the scores: measured rounding beyond it excuses nothing
_MOST_DIGITS = 12
_COARSEST = 0.02  # the last digit of rounded scores, as a share of their spread
_FEWEST_ROWS = 10
_SAMPLE = 1_000  # rows that a command compares before it starts

_FORMS = {
    "score": "scores in the unit of the model",
    "probability": "the probability of the positive class",
    "logit": "the logit",
    "output": "the output",
    "probabilities": "the probabilities of the classes",
    "logits": "the logits of the classes",
    "log_probability": "the logarithm of the probability of the positive class",
    "log_probabilities": "the logarithms of the probabilities of the classes",
}


_RELATIVE = 2e-6  # rounding of a number in float32, with a margin
_OF_SPREAD = 5e-5  # rounding of scaling in float32, relative to the spread of the column


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


def read_matrix_names(path: Path) -> list[str] | None:
    """Return the names of the columns of encoded inputs in a table; None of an array, which has none."""
    if path.suffix.lower() == ".npy":
        return None
    return [str(name) for name in _plain_table(path).columns]


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
    """Return the numbers in a table."""
    return _numbers(_plain_table(path), str(path))


def _plain_table(path: Path) -> pd.DataFrame:
    """Return a table without the row numbers that pandas writes by default."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise FairmendError(f"{path}: is read from .csv, .parquet or .npy files; convert it first")
    frame = read_table(path)
    first = frame.iloc[:, 0]
    numbered = str(frame.columns[0]).startswith("Unnamed:") and frame.shape[1] > 1
    if numbered and pd.api.types.is_integer_dtype(first.dtype):
        frame = frame.iloc[:, 1:]
    return frame


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


def describe_form(form: str) -> str:
    """Return what the scores turned out to be, in words."""
    return _FORMS[form]


@dataclass(frozen=True, eq=False)
class ScoreMatch:
    """How the scores of the network compare with those that the model gave.

    Attributes
    ----------
    rows : how many rows have a given score
    form : what the given scores are, of the forms that fit best: "probability", "logit", "output", "probabilities",
        "logits", and "log_probability" or "log_probabilities", which a closing LogSoftmax gives
    largest : the largest difference
    tolerance : the largest difference that rounding explains
    differing : the numbers of the rows that differ by more, the worst first
    ours, given : the two scores of these rows
    opposite : whether they are the probabilities of the other class instead
    """

    rows: int
    form: str
    largest: float
    tolerance: float
    differing: npt.NDArray[np.int64]
    ours: Floats
    given: Floats
    opposite: bool = False

    @property
    def verified(self) -> bool:
        """Whether the network reproduces every score to rounding."""
        return self.largest <= self.tolerance

    def __str__(self) -> str:
        """Return the result as one sentence without the final stop."""
        if self.verified:
            return (
                f"verified: {count(self.rows)} rows, largest difference {self.largest:.1g} ({describe_form(self.form)})"
            )
        if self.opposite:
            return (
                "not verified: the scores are the probabilities of the other class. Give those of the class that the "
                "network calls 1, and check `positive`"
            )
        return (
            f"not verified: {count(len(self.differing))} of {count(self.rows)} rows differ from the model's own "
            f"scores, most in row {self.differing[0]}: {self.ours[0]:.4g} instead of {self.given[0]:.4g} "
            f"({describe_form(self.form)})"
        )


def require_informative(given: Floats, source: str) -> None:
    """Raise an error for scores (rows, columns) that verify nothing: too few, equal, classes, or rounded coarsely."""
    known = given[np.isfinite(given).all(axis=1)]
    if len(known) < _FEWEST_ROWS:
        raise FairmendError(
            f"{source}: has {len(known)} scores, too few to verify a spec. Give at least {_FEWEST_ROWS}."
        )
    spread = float(np.ptp(known, axis=0).max())
    if spread == 0:
        raise FairmendError(f"{source}: all scores are equal, which verifies nothing. Give the scores of other rows.")
    if _quantum(known) > _COARSEST * spread:
        raise FairmendError(
            f"{source}: the scores are classes, or rounded too much to verify a spec. Give the probabilities or the "
            "raw outputs of the model with more digits."
        )


def match_scores(net: Model, X: FloatArray, given: Floats, *, regression: bool = False) -> ScoreMatch:
    """Compare the scores of the network for X (rows, inputs) with given ones (rows, 1 or classes); NaN is skipped.

    The form of the given scores is the one that fits best.
    """
    rows = np.flatnonzero(np.isfinite(given).all(axis=1))
    X, given = X[rows], given[rows]
    if isinstance(net, Network):
        exact = net.astype(np.float64).logits(X.astype(np.float64))
        rough = net.astype(np.float32).logits(X.astype(np.float32))
    else:  # it has one precision
        exact = rough = net.logits(X)
    ours, rounded = (_forms(outputs, given.shape[1], regression) for outputs in (exact, rough))
    if isinstance(net, Network) and net.rescaling is not None and given.shape[1] == 1:
        one = replace(net.rescaling, both=False)
        for each in (ours, rounded):
            each["score"] = np.asarray(one.scores(each["probability"]), np.float64)
    found = [_compare(rows, form, ours[form], rounded[form], given) for form in ours]
    best = min(found, key=lambda match: match.largest / match.tolerance)
    if not best.verified and "probability" in ours:
        other = _compare(rows, "probability", ours["probability"], rounded["probability"], 1 - given)
        best = replace(best, opposite=other.verified)
    return best


def require_scores(
    spec: Spec, net: Model, frame: pd.DataFrame, X: FloatArray, source: object, *, first_row: RowNumber = 0
) -> None:
    """Raise an error if the data has the scores that [label] names, and spec and network do not reproduce them.

    X (rows, inputs) is the frame, encoded. A random sample of the rows is compared. Error messages count rows from
    ``first_row``, or call them by it.
    """
    given = read_score_column(spec.label, frame)
    if given is None:
        return
    known = np.flatnonzero(np.isfinite(given).all(axis=1))
    if len(known) > _SAMPLE:
        known = np.sort(np.random.default_rng(0).choice(known, _SAMPLE, replace=False))
    if len(known) == 0:
        return
    assert spec.label is not None
    where = f'{source}, column "{spec.label.score}"'
    if len(known) >= _FEWEST_ROWS and np.ptp(given[known]) > 0:
        require_informative(given[known], where)
    match = match_scores(net, X[known], given[known], regression=spec.regression)
    if not match.verified:
        rows = known[match.differing]
        match = replace(match, differing=first_row + rows if isinstance(first_row, int) else first_row[rows])
        raise FairmendError(
            f"{where}: {match}. Correct the spec with fairmend spec check, or pass --ignore-scores if another model "
            "gave the scores."
        )


def _compare(rows: npt.NDArray[np.int64], form: str, ours: Floats, rounded: Floats, given: Floats) -> ScoreMatch:
    spread = float(np.ptp(given, axis=0).max())
    size = 1.0 if form.startswith("probabilit") else max(1.0, float(np.abs(given).max()))
    rounding = min(_SAFETY * float(np.abs(ours - rounded).max()), _MOST_ROUNDING * spread)
    tolerance = _NEAR * size + rounding + _quantum(given)
    differences = np.abs(ours - given)
    column = differences.argmax(axis=1)
    largest = differences.max(axis=1)
    worst = np.argsort(-largest, kind="stable")
    worst = worst[largest[worst] > tolerance]
    return ScoreMatch(
        len(rows),
        form,
        float(largest.max()),
        tolerance,
        rows[worst],
        ours[worst, column[worst]],
        given[worst, column[worst]],
    )


def _forms(outputs: FloatArray, columns: int, regression: bool) -> dict[str, Floats]:
    """Return the scores (rows, columns) in each form that scores in so many columns can have."""
    logits = scores_of(outputs, "logit")
    if regression:
        return {"output": logits}
    shares = scores_of(outputs, "probability")
    if columns == 1 and logits.shape[1] <= 2:
        lead = logits[:, -1:] if logits.shape[1] == 1 else logits[:, 1:] - logits[:, :1]
        return {"probability": shares[:, -1:], "logit": lead, "log_probability": -np.logaddexp(0, -lead)}
    if logits.shape[1] == 1:
        return {"probabilities": np.hstack([1 - shares, shares])}
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return {"probabilities": shares, "logits": logits, "log_probabilities": logs}


def _quantum(given: Floats) -> float:
    """Return the last digit to which all scores are rounded, such as 0.001; 0 if they are not rounded."""
    for digits in range(-6, _MOST_DIGITS):
        if np.array_equal(np.round(given, digits), given):
            return float(10.0**-digits)
    return 0.0


@dataclass(frozen=True)
class ColumnDifference:
    """A column in which the two differ: how many rows, and the values of the row that differs most."""

    column: int
    name: str
    rows: int
    row: int
    ours: float
    given: float

    def __str__(self) -> str:
        """Return the difference as one clause."""
        return (
            f"column {self.column} ({short(self.name)}): {count(self.rows)} row{'s' if self.rows > 1 else ''}, most in "
            f"row {self.row}: {self.ours:.6g} instead of {self.given:.6g}"
        )


@dataclass(frozen=True)
class MatrixMatch:
    """How the encoded data compares with a given matrix; ``problem`` says why they cannot be compared at all."""

    rows: int
    columns: int
    largest: float
    differing: tuple[ColumnDifference, ...] = ()
    problem: str = ""

    @property
    def verified(self) -> bool:
        """Whether the spec reproduces the matrix to rounding."""
        return not self.differing and not self.problem

    def __str__(self) -> str:
        """Return the result as one sentence without the final stop."""
        if self.problem:
            return f"not verified: {self.problem}"
        if self.differing:
            return (
                f"not verified: {count(len(self.differing))} of {self.columns} columns differ from the encoded matrix"
            )
        return f"verified: {count(self.rows)} rows of {self.columns} columns, largest difference {self.largest:.1g}"


def match_matrix(ours: FloatArray, given: Floats, names: Sequence[str]) -> MatrixMatch:
    """Compare the encoded data with a given matrix, both (rows, columns); ``names`` are those of our columns."""
    rows, columns = ours.shape
    if given.shape != ours.shape:
        return MatrixMatch(
            rows,
            columns,
            float("nan"),
            problem=f"the matrix has {given.shape[1]} columns, the spec describes {columns}",
        )
    differences = np.abs(ours - given)
    allowed = _RELATIVE * np.abs(given) + _OF_SPREAD * given.std(axis=0) + np.finfo(np.float32).tiny
    far = differences > allowed
    found = []
    for column in np.flatnonzero(far.any(axis=0)).tolist():
        row = int(differences[:, column].argmax())
        found.append(
            ColumnDifference(
                column,
                names[column],
                int(far[:, column].sum()),
                row,
                float(ours[row, column]),
                float(given[row, column]),
            )
        )
    return MatrixMatch(rows, columns, float(differences.max()), tuple(found))
