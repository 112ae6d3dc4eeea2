"""The label of a data file: which of its values is the positive one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairmend.errors import FairmendError
from fairmend.spec.draft.draft import known_columns
from fairmend.spec.features import Label
from fairmend.text import as_text, suggest

if TYPE_CHECKING:
    import pandas as pd

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
_MANY = 8


def guess_label(data: pd.DataFrame, column: str, positive: Any = None) -> tuple[Label, tuple[str, ...]]:
    """Return the label in a column, and remarks; of two values the positive one is guessed where it is not given."""
    known_columns([column], list(data.columns), "label")
    values = data[column].astype(object)
    gaps = int(values.isna().sum())
    found = sorted({as_text(value) for value in values.dropna().unique()})
    if not found:
        raise FairmendError(f'the label "{column}" holds no values; name another column')
    counts = values.dropna().map(as_text).value_counts()
    shown = ", ".join(f'"{name}" ({counts[name]} rows)' for name in found[:_MANY])
    shown += f", … ({len(found)} values)" if len(found) > _MANY else ""
    notes = [f"{len(found)} values: {shown}" + (f"; {gaps} rows have none" if gaps else "")]
    if positive is not None:
        wanted = as_text(positive)
        if wanted not in found:
            raise FairmendError(f'the label "{column}" is never "{wanted}"{suggest(wanted, found)}; it is {shown}')
        return Label(column, wanted), tuple(notes)
    if len(found) < 2:
        raise FairmendError(f'the label "{column}" is "{found[0]}" in every row; name another column')
    if len(found) > 2 and found != [str(i) for i in range(len(found))]:
        raise FairmendError(
            f'the label "{column}" has {len(found)} values, {shown}; say which one is the positive answer (--positive)'
        )
    likely = [name for name in found if name.casefold() in _POSITIVE]
    if len(found) > 2:
        chosen, why = "1", "the values are class numbers, which a model of several classes is scored by"
    elif len(likely) == 1:
        chosen, why = likely[0], "a guess by its name"
    else:
        chosen, why = found[-1], "a guess: the last of two in order, as scikit-learn numbers classes"
    notes.append(f"positive: {why}; it must be what the model's output 1 means")
    return Label(column, chosen), tuple(notes)
