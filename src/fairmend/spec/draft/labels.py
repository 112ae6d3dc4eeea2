"""The label of a draft: the column with the outcome, and which of its values is positive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairmend.errors import FairmendError
from fairmend.spec.draft.draft import count_rows, require_columns
from fairmend.spec.features import Label
from fairmend.text import as_text, suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["guess_label", "label_from_options"]

_POSITIVE = (
    "1",
    "yes",
    "true",
    "y",
    "t",
    "good",
    "approved",
    "accepted",
    "granted",
    "hired",
    "positive",
    "pass",
    ">50k",
)
_MOST_VALUES = 8  # shown in a note or an error message


def guess_label(data: pd.DataFrame, column: str, positive: Any = None) -> tuple[Label, tuple[str, ...]]:
    """Return the label in a column, with notes; without ``positive``, the positive one of two values is guessed."""
    require_columns([column], list(data.columns), "label")
    values = data[column].astype(object)
    gaps = int(values.isna().sum())
    found = sorted({as_text(value) for value in values.dropna().unique()})
    if not found:
        raise FairmendError(f'the label "{column}" has no values. Choose another column.')
    counts = values.dropna().map(as_text).value_counts()
    shown = ", ".join(f'"{name}" ({count_rows(counts[name])})' for name in found[:_MOST_VALUES])
    shown += f", … ({len(found)} values)" if len(found) > _MOST_VALUES else ""
    notes = [f"{len(found)} values: {shown}" + (f"; {count_rows(gaps)} without a value" if gaps else "")]
    if positive is not None:
        wanted = as_text(positive)
        if wanted not in found:
            raise FairmendError(
                f'the label "{column}" is never "{wanted}"{suggest(wanted, found)}. Its values are {shown}.'
            )
        return Label(column, wanted), tuple(notes)
    if len(found) < 2:
        raise FairmendError(f'the label "{column}" is "{found[0]}" in every row. Choose another column.')
    if len(found) > 2 and found != [str(i) for i in range(len(found))]:
        raise FairmendError(
            f'the label "{column}" has {len(found)} values: {shown}. Name the positive one with --positive.'
        )
    likely = [name for name in found if name.casefold() in _POSITIVE]
    if len(found) > 2:
        chosen, why = "1", "the values are the class numbers of a model with several classes"
    elif len(likely) == 1:
        chosen, why = likely[0], "guessed from its name"
    else:
        chosen, why = found[-1], "guessed: the second of two in sorted order, which is class 1 in scikit-learn"
    notes.append(f"positive: {why}. Check that the model calls it class 1.")
    return Label(column, chosen), tuple(notes)


def label_from_options(column: str | None, positive: object, data: pd.DataFrame | None) -> Label | None:
    """Return the label with this column and positive value; with data, a missing positive value is guessed."""
    if column is None:
        return None
    if data is not None:
        return guess_label(data, column, positive)[0]
    return Label(column, "1" if positive is None else str(positive))
