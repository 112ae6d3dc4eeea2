"""Pairs of similar people who are treated unequally: the table of a report, and a CSV file written during a run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import plain_value, short
from fairmend.evaluate.document import NearestPair, PairTable
from fairmend.evaluate.nearest_counterfactuals import NearestCounterfactuals
from fairmend.evaluate.people import RowNumbers
from fairmend.network import Model
from fairmend.network.model import ScoredRows, compute_scores
from fairmend.spec import Spec
from fairmend.spec.own_values import OwnValues, imputed_values, user_values
from fairmend.tables import TableStream, csv_text

# The table of pairs: people and their counterfactuals with another prediction, in the user's own values.


_MOST_PAIRS, _MOST_COLUMNS = 1_000, 16


def tabulate_pairs(
    found: NearestCounterfactuals,
    spec: Spec,
    before: Model,
    after: Model | None = None,
    *,
    total: int,
    exact: bool,
    numbers: RowNumbers,
) -> PairTable:
    """Return the pairs with the largest differences in score; `total` people are treated unequally."""
    chosen = found.take(np.argsort(-found.gap, kind="stable")[:_MOST_PAIRS])
    varying = {f.name for f in spec.varying}
    features = sorted(spec.features, key=lambda f: (f.name not in varying, not f.protected))
    names = [f.name for f in features[:_MOST_COLUMNS]]
    rows: list[NearestPair] = []
    if len(chosen.rows):
        own = None if numbers.read is None else OwnValues(spec, numbers.read(chosen.rows), chosen.X.dtype)
        mine, theirs = (_named(spec, user_values(spec, side, own)) for side in (chosen.X, chosen.other))
        answers, values = _predictions_and_scores(before, chosen)
        later = None if after is None else _predictions_and_scores(after, chosen)
        ids = numbers.ids(chosen.rows)
        for i, row in enumerate(numbers.numbers(chosen.rows).tolist()):
            differs = [name for name, is_so in zip(chosen.features, chosen.differs[i], strict=True) if is_so]
            rows.append(
                NearestPair(
                    row,
                    [plain_value(mine[name][i]) for name in names],
                    [_other_value(mine[name][i], theirs[name][i]) if name in differs else None for name in names],
                    [short(name) for name in differs],
                    answers[i],
                    values[i],
                    None if later is None else later[0][i],
                    None if later is None else later[1][i],
                    None if (person := ids[i]) is None else short(person, 40),
                )
            )
    first = sum(name in varying for name in names)
    column = None if numbers.id_column is None else short(numbers.id_column)
    columns = [short(name) for name in names]
    return PairTable(total, exact, columns, first, len(features) - len(names), rows, column, numbers.first)


def _named(spec: Spec, values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return values by feature, each under its name if it has one."""
    return {f.name: [f.called(value) for value in values[f.name]] for f in spec.features}


def _predictions_and_scores(net: Model, pairs: NearestCounterfactuals) -> tuple[list[list[int]], list[list[float]]]:
    """Return the predictions for both people of each pair, and the scores of the first one's class for both."""
    own, other = ScoredRows.of(net, pairs.X), ScoredRows.of(net, pairs.other)
    values = np.stack([side.probability(own.classes) for side in (own, other)], axis=1)
    return np.stack([own.classes, other.classes], axis=1).tolist(), values.tolist()


def _other_value(mine: object, theirs: object) -> str:
    """Return the counterfactual's value with as many digits as it takes to tell it from the person's."""
    text = plain_value(theirs)
    return repr(theirs) if isinstance(theirs, float) and text == plain_value(mine) else text


# Write pairs of similar people who are treated unequally to a CSV file while an audit or a search runs.


class PairsTable:
    """Pairs as lines of a CSV file; it can be sent to another process."""

    def __init__(self, spec: Spec, net: Model, *, from_data: bool = False, table: TableStream | None = None) -> None:
        """Write pairs of people, which have ids if the spec names a column of them, and missing values if they may.

        Without `from_data`, the people are samples.
        If the rows are those of a table with several files, two columns tell the file of each row and its number there.
        """
        self._spec, self._net = spec, net
        self._table_read = table if table is not None and len(table.files) > 1 else None
        self._with_ids = from_data and spec.id_column is not None
        self._varying = [f.name for f in spec.varying]
        self._imputing = from_data and any(f.missing is not None for f in spec.features)

    def header(self) -> str:
        """Return the first line."""
        empty = np.zeros((0, self._spec.width), self._net.dtype)
        return csv_text(self._table(np.zeros(0, np.int64), empty, empty))

    def lines(
        self,
        rows: Ints,
        X: FloatArray,
        other: FloatArray,
        ids: Sequence[str | None] | None = None,
        values: OwnValues | None = None,
    ) -> str:
        """Return lines for rows (k,), their inputs X (k, width) and a neighbour of each `other` (k, width).

        `ids` are those of the people, and `values` what the data has of them.
        """
        return csv_text(self._table(rows, X, other, ids, values), header=False)

    def _table(
        self,
        rows: Ints,
        X: FloatArray,
        other: FloatArray,
        ids: Sequence[str | None] | None = None,
        values: OwnValues | None = None,
    ) -> pd.DataFrame:
        own, others = user_values(self._spec, X, values), user_values(self._spec, other, values)
        parts: list[pd.Series[Any]] = [pd.Series(rows, name="row")]
        if self._table_read is not None:
            places = self._table_read.locate(rows)
            parts.append(pd.Series([file for file, _ in places], name="file", dtype=object))
            parts.append(pd.Series([row for _, row in places], name="row_in_file", dtype=np.int64))
        if self._with_ids:
            parts.append(pd.Series(ids, name=self._spec.id_column, dtype=object))
        parts += [_column(column, name) for name, column in own.items()]
        parts += [_column(others[name], f"other_{name}") for name in self._varying]
        if self._imputing:
            parts.append(pd.Series([self._imputed(own, i) for i in range(len(rows))], name="imputed", dtype=object))
        claim = self._spec.claim
        for prefix, inputs in (("", X), ("other_", other)):
            if not self._spec.regression:
                parts.append(pd.Series(self._answers(inputs), name=f"{prefix}answer"))
            on = claim.on or "probability"
            scores = compute_scores(self._net, inputs, on)
            scores = scores if on == "probability" else scores.astype(self._net.dtype)
            names = ["score"] if self._net.outputs == 1 else [f"score_{k}" for k in range(self._net.outputs)]
            parts += [pd.Series(scores[:, k], name=f"{prefix}{name}") for k, name in enumerate(names)]
        return pd.concat(parts, axis=1)

    def _imputed(self, values: Mapping[str, Sequence[Any]], row: int) -> str:
        """Return what replaces the missing values of one person: "income = 52000, age = 37"."""
        found = imputed_values(self._spec, {name: column[row] for name, column in values.items()})
        return ", ".join(f"{name} = {plain_value(value)}" for name, value in found.items())

    def _answers(self, X: FloatArray) -> Sequence[Any] | Ints:
        """Return the predictions (k,) as the label calls them; numbers without a label that names classes."""
        answers, label = self._net.predict(X), self._spec.label
        if label is None or label.is_number or (self._net.outputs > 2 and not label.classes):
            return answers
        return [self._spec.name_class(int(answer), self._net.outputs) for answer in answers]


def _column(values: Sequence[Any], name: str) -> pd.Series[Any]:
    """Return a column; one of whole numbers stays so if some are missing."""
    some_missing = any(value is None for value in values)
    return pd.Series(values, name=name, dtype=object if some_missing else None)


class PairsFile:
    """A context manager that writes the whole file, or nothing if an error occurs; the path None writes no file.

    Attributes
    ----------
    table : writes pairs as lines; None if no file is written
    """

    def __init__(
        self,
        path: Path | None,
        spec: Spec,
        net: Model,
        inputs: Iterable[Path] = (),
        *,
        from_data: bool = False,
        table: TableStream | None = None,
    ) -> None:
        """Refuse a path that is no CSV file, or one of the inputs, before any work is done.

        `from_data` and `table` are those of `PairsTable`.
        """
        self._path = path
        self._stage: Path | None = None
        self.table = None if path is None else PairsTable(spec, net, from_data=from_data, table=table)
        if path is None:
            return
        if path.suffix.lower() != ".csv":
            raise FairmendError(f"{path}: pairs are written as CSV; choose a name for --out that ends in .csv")
        if path.is_dir():
            raise FairmendError(f"{path}: this is a folder; give --out the name of a file")
        if path.exists() and any(source.exists() and path.samefile(source) for source in inputs):
            raise FairmendError(f"{path}: would overwrite an input file; choose another --out")

    def __enter__(self) -> PairsFile:
        """Create a temporary file beside `path`, with the header."""
        if self._path is not None and self.table is not None:
            stage = self._path.absolute().with_name(f".{self._path.name}.{secrets.token_hex(8)}.tmp")
            try:
                stage.write_text(self.table.header(), encoding="utf-8", newline="")
            except OSError as error:
                reason = error.strerror or error
                raise FairmendError(f"{self._path}: cannot write there ({reason}); choose another --out") from error
            self._stage = stage
        return self

    def write(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Append rows (k,), their inputs X (k, width) and a neighbour of each `other` (k, width)."""
        assert self.table is not None
        self.append(self.table.lines(rows, X, other))

    def append(self, lines: str) -> None:
        """Append lines of the table."""
        assert self._stage is not None
        try:
            with open(self._stage, "a", encoding="utf-8", newline="") as file:
                file.write(lines)
        except OSError as error:
            raise FairmendError(f"{self._path}: cannot write: {error.strerror or error}") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Move the file to `path`, or delete it after an error."""
        if self._stage is None or self._path is None:
            return
        try:
            if error is None:
                os.replace(self._stage, os.path.realpath(self._path))
        finally:
            self._stage.unlink(missing_ok=True)
