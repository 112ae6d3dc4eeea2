"""Split data into repair inputs, calibration rows, rows used without labels, and rows to measure the repair on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.metrics import r2
from fairmend.base.paths import DataSource
from fairmend.base.text import shown
from fairmend.evaluate.groups import GroupColumn, group_columns, protected_columns, require_group_columns
from fairmend.evaluate.people import RowNumbers, naming_file, take_people
from fairmend.evaluate.utility import auc_by_chance, utility_of
from fairmend.network import Model
from fairmend.network.model import ScoredRows
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange, label_warnings, regression_warnings, spec_warnings
from fairmend.spec.read_values import RowNumber, raise_for_rows

# Fewer rows than this are too few to calibrate with, or to measure accuracy on.
_ENOUGH_ROWS = 50

# At least this many rows are held out, if there are; of more than twice as many, one half, and the others are used
# without their labels. Accuracy on 1,000 rows has a standard error of at most 1.6 points.
_SCORED_FIRST = 1_000


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows that neither the training nor the repair used: encoded, with their classes or numbers to predict."""

    X: FloatArray
    y: npt.NDArray[Any]


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class DataSplit:
    """Encoded data, and which rows are used for what.

    Attributes
    ----------
    frame, X, y : the data in the user's values, as the network reads it, and its classes or numbers to predict
    repair_frame, X_repair : the repair inputs, in the same two forms
    scored : the rows of the data on which accuracy is measured
    held_out : whether the scored rows are used for nothing else
    repair : the rows of the data that are repair inputs; None if they come from elsewhere
    calibration : the rows of the data that calibrate the repair
    unlabelled : the rows of the data that the repair may use without their labels. They do not depend on the method, so
        that all methods are measured on the same rows
    warnings : about the data and the split
    rows : the row numbers and ids of the people in the data
    out_of_range : what was done about values out of range
    test : rows from elsewhere on which accuracy is measured instead of the scored rows; None without them
    source : where the data is from, for messages
    columns : columns that the model does not read, with their values in the scored rows
    """

    spec: Spec
    frame: pd.DataFrame
    X: FloatArray
    y: npt.NDArray[np.integer] | FloatArray
    repair_frame: pd.DataFrame
    X_repair: FloatArray
    scored: Ints
    held_out: bool
    repair: Ints | None = None
    calibration: Ints = field(default_factory=_no_rows)
    unlabelled: Ints = field(default_factory=_no_rows)
    warnings: tuple[str, ...] = ()
    rows: RowNumbers = field(default_factory=RowNumbers)
    out_of_range: OutOfRange = field(default_factory=lambda: OutOfRange("refuse"))
    test: TestRows | None = None
    source: DataSource | str = "the data"
    columns: tuple[GroupColumn, ...] = ()

    def compared_columns(self) -> list[GroupColumn]:
        """Return the columns whose groups are compared, with their values in the scored rows."""
        return [*protected_columns(self.spec, self.X_scored), *self.columns]

    @property
    def X_scored(self) -> FloatArray:  # noqa: N802, an array of inputs is called X
        """The inputs on which accuracy is measured."""
        return self.X[self.scored] if self.test is None else self.test.X

    @property
    def y_scored(self) -> npt.NDArray[Any]:
        """Their classes or numbers to predict."""
        return self.y[self.scored] if self.test is None else self.test.y

    def describe_scored(self) -> str:
        """Return which rows the figures of accuracy come from, after "on" or "measured on"."""
        return describe_scored(len(self.X_scored), test=self.test is not None, held_out=self.held_out)


def split_data(
    spec: Spec,
    net: Model,
    frame: pd.DataFrame,
    *,
    source: DataSource | str = "the data",
    repair_frame: pd.DataFrame | None = None,
    repair_source: DataSource | str = "the repair data",
    repair_rows: int = 100,
    calibration_rows: int = 500,
    seed: int = 0,
    policy: str = "refuse",
    test_frame: pd.DataFrame | None = None,
    test_source: DataSource | str = "the test data",
    groups: Sequence[str] = (),
) -> DataSplit:
    """Encode the data and draw repair inputs and calibration rows from it, disjoint if there are enough rows.

    `source`, `repair_source` and `test_source` name the data in messages. `repair_frame` gives the repair inputs;
    without it, `repair_rows` of them are drawn from the data. `policy` says what to do about values out of range; the
    spec of the split has wider ranges if it is "widen". `test_frame` gives rows to measure accuracy on; without it,
    some rows of the data are left aside for that. `groups` are columns that the model does not read.
    """
    require_group_columns(groups, spec, (frame if test_frame is None else test_frame).columns)
    people = take_people(frame, source, spec, net, policy)
    spec, frame, X, done = people.spec, people.frame, people.X, people.out_of_range
    y = read_labels(spec, net, frame, source, people.rows)
    warnings: list[str] = []
    order = np.random.default_rng(seed).permutation(len(X)).astype(np.int64)
    if repair_frame is None:
        repair, rest = order[:repair_rows], order[repair_rows:]
        if len(repair) < repair_rows:
            warnings.append(
                f"{source} has only {len(repair):,} rows, fewer than the {repair_rows:,} repair inputs you asked for"
            )
        repair_frame, X_repair = frame.iloc[repair], X[repair]
    else:
        repair, rest = None, order
        listed = take_people(repair_frame, repair_source, spec, net, policy, need_ids=False)
        spec, repair_frame, X_repair, done = listed.spec, listed.frame, listed.X, done + listed.out_of_range
    if len(rest) >= min(calibration_rows, _ENOUGH_ROWS):
        calibration = rest[:calibration_rows]
    else:
        calibration = order[::-1][:calibration_rows]
        warnings.append(
            f"{source} has too few rows to calibrate on rows other than the repair inputs; some rows are used for both"
        )
    test, test_people = None, None
    if test_frame is not None:
        test_people = take_people(test_frame, test_source, spec, net, policy, need_ids=False)
        spec, done = test_people.spec, done + test_people.out_of_range
        test = TestRows(test_people.X, read_labels(spec, net, test_people.frame, test_source, test_people.rows))
    unused = rest[~np.isin(rest, calibration)]
    held_out = len(unused) >= _ENOUGH_ROWS
    measured = max(_SCORED_FIRST, len(unused) // 2) if test is None else 0
    scored = np.sort(unused[:measured]) if held_out else np.arange(len(X), dtype=np.int64)
    unlabelled = np.sort(unused[measured:])
    return DataSplit(
        spec,
        frame,
        X,
        y,
        repair_frame,
        X_repair,
        scored,
        held_out,
        repair,
        calibration,
        unlabelled,
        tuple(warnings),
        people.numbers,
        done,
        test,
        source,
        group_columns(groups, frame.iloc[scored] if test_people is None else test_people.frame),
    )


def describe_scored(rows: int, *, test: bool, held_out: bool) -> str:
    """Return which rows the figures of accuracy come from, after "on" or "measured on"."""
    if test:
        return f"the {rows:,} rows of the test data"
    which = (
        f"a random sample of {rows:,} rows of the data that the repair did not use"
        if held_out
        else f"the {rows:,} rows of the data, including those used for repair and calibration"
    )
    return f"{which}; they may have been used for training the network"


def read_labels(
    spec: Spec, net: Model, frame: pd.DataFrame, source: DataSource | str, first_row: RowNumber = 0
) -> npt.NDArray[np.integer] | FloatArray:
    """Return the label of each row (rows,): the number to predict, or the class.

    It is 1 for the positive label, or with more than two classes the number of the class.
    """
    with naming_file(source):
        if not spec.regression:
            spec.require_outputs(net.outputs)
        y = spec.labels(frame, first_row=first_row)
    if spec.regression or net.outputs <= 2 or (spec.label is not None and spec.label.classes):
        return y
    label = spec.label
    assert label is not None
    numbers = pd.to_numeric(frame[label.column], errors="coerce").to_numpy(np.float64)
    with naming_file(source):
        raise_for_rows(
            "label",
            ~np.isin(numbers, np.arange(net.outputs)),
            lambda row: (
                f'"{shown(frame[label.column].iloc[row])}" is not a class number; the network has {net.outputs} '
                f"classes. List their names in [label]: classes = [...], or use 0 to {net.outputs - 1}"
            ),
            first_row,
        )
    return numbers.astype(np.int64)


def class_warnings(split: DataSplit, everyone: ScoredRows) -> list[str]:
    """Return the signs that spec or labels do not describe the network; `everyone` are the rows of the data."""
    spec, net = split.spec, everyone.net
    if spec.regression:
        return regression_warnings(r2(split.y, everyone.logits), len(split.y))
    auc, by_chance = utility_of(everyone.logits, split.y).auc, auc_by_chance(split.y, net.outputs)
    found = spec_warnings(everyone.classes, auc, spec.classes, by_chance=by_chance)
    if net.outputs > 2 or spec.label is None:
        return found
    labels = split.frame[spec.label.column].unique().tolist()
    return [*label_warnings(spec, bool(split.y.any()), labels, split.source), *found]
