"""A spec from data: kinds, ranges and categories are guessed from the values, and every guess says why."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.errors import FairmendError
from fairmend.spec.draft.draft import Draft, Part, known_columns
from fairmend.spec.draft.labels import guess_label
from fairmend.spec.draft.steps import MISSING
from fairmend.spec.features import Feature
from fairmend.text import as_text

if TYPE_CHECKING:
    import pandas as pd

FEW = 10  # whole numbers of so few values may be codes of categories
MANY = 50  # categories; more are worth a look
_ENOUGH = 20  # rows; of fewer it says little that all values differ
_EXACT = 2.0**53
_VALUES = (str, bool, int, float, np.generic, datetime.date, decimal.Decimal)
SCALES = ("none", "standard", "min-max")
_SCALED = {
    "none": "numbers are read as they are; add scale = {mean = ..., std = ...} or {min = ..., max = ...} if the model "
    "reads scaled ones (spec init --scale standard or min-max takes them from the data)",
    "standard": "the mean and standard deviation of this data",
    "min-max": "the lowest and highest value of this data",
}
_ID_NAME = re.compile(r"(?:^|[_\-. ])(?:id|index|uuid|guid|nr|no|number|key)$|^unnamed: ?\d*$", re.IGNORECASE)


@dataclass(frozen=True)
class Encodings:
    """How the categories are encoded: those of two values, and those of more; "drop" is one-hot without the first."""

    two: str
    more: str

    def __str__(self) -> str:
        """In words."""
        names = {"one-hot": "one-hot", "ordinal": "ordinal codes", "drop": "one-hot without the first category"}
        if self.two == self.more:
            return f"all categories as {names[self.more]}"
        return f"two categories as {names[self.two]}, more as {names[self.more]}"


DEFAULT = Encodings("ordinal", "one-hot")
CHOICES = (DEFAULT, Encodings("one-hot", "one-hot"), Encodings("ordinal", "ordinal"), Encodings("ordinal", "drop"))


def draft_from_data(
    data: pd.DataFrame,
    protected: Iterable[str],
    label: str | None = None,
    positive: Any = None,
    *,
    drop: Iterable[str] = (),
    inputs: int | None = None,
    scale: str = "none",
    leave_out: bool = True,
) -> Draft:
    """Return a spec that encodes this data.

    `drop` are columns that the model does not read, and `inputs` is how many the model reads, which may tell how
    categories are encoded. `scale` is "standard" for numbers with mean 0 and variance 1 in the data, "min-max" for
    numbers from 0 to 1, "none" for numbers as they are. What looks like an id is left out, unless `leave_out` is
    False.
    """
    if scale not in SCALES:
        raise FairmendError(f"scale is {scale!r}; it can be {', '.join(SCALES)}")
    columns = [str(name) for name in data.columns]
    for name in columns:
        if columns.count(name) > 1:
            raise FairmendError(f'the data has two columns "{name}"; rename or remove one')
    wanted = known_columns(protected, columns, "protected")
    dropped = known_columns(drop, columns, "drop")
    found, label_notes = (None, ()) if label is None else guess_label(data, label, positive)
    if not wanted:
        raise FairmendError("no protected column is named; name at least one, such as gender or age")
    for name in wanted:
        if name in dropped or name == label:
            raise FairmendError(f'"{name}" cannot be protected: it is {"dropped" if name in dropped else "the label"}')
    parts: list[Part] = []
    left_out = [(name, "dropped as you asked") for name in dropped if name != label]
    for name, column in zip(columns, (data.iloc[:, i] for i in range(len(columns))), strict=True):
        if name == label or name in dropped:
            continue
        if column.isna().all():
            raise FairmendError(f'column "{name}" holds no values at all; fill it in, or drop it (--drop)')
        why = _like_an_id(name, column) if leave_out and name not in wanted else None
        if why is not None:
            left_out.append((name, why))
        else:
            parts.append(_part(name, column, name in wanted, scale))
    draft = _encoded(Draft(tuple(parts), found, label_notes, tuple(left_out)), inputs)
    if all(part.feature.categories for part in draft.parts):
        return draft
    return replace(draft, look=(*draft.look, f"scale: {_SCALED[scale]}; it must be what the model was trained on"))


# One column


def _part(name: str, column: pd.Series[Any], protected: bool, scale: str) -> Part:
    import pandas as pd

    rows, gaps = len(column), int(column.isna().sum())
    present = _plain(name, column)
    several = f"{present.nunique()} different values" if present.nunique() > 1 else "one value"
    notes = [f"{several} in {rows} rows" + (f", {gaps} missing" if gaps else "")]
    look: list[str] = []
    if present.nunique() == 1:
        if protected:
            raise FairmendError(
                f'protected column "{name}" is {as_text(present.iloc[0])} in every row; give data in which it differs, '
                "or write the spec's range or categories by hand"
            )
        look.append("it is constant in the data; does the model read it, and can it be anything else?")
    if pd.api.types.is_numeric_dtype(present.dtype) and not pd.api.types.is_bool_dtype(present.dtype):
        feature = _number(name, present, gaps, protected, scale, notes, look)
    else:
        feature = _category(name, present, gaps, protected, notes, look)
    return Part(feature, tuple(notes), tuple(look))


def _plain(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """Return what is not missing, categories of pandas as their values; refuse what is no value at all."""
    import pandas as pd

    present = column.dropna()
    if isinstance(present.dtype, pd.CategoricalDtype):  # it also knows categories that no row has
        present = present.astype(object).infer_objects()
    if present.dtype == object and not all(isinstance(value, _VALUES) for value in present):
        odd = next(value for value in present if not isinstance(value, _VALUES))
        raise FairmendError(f'column "{name}" holds a {type(odd).__name__}, which is no value; drop it (--drop)')
    return present


def _number(
    name: str,
    present: pd.Series[Any],
    gaps: int,
    protected: bool,
    scaling: str,
    notes: list[str],
    look: list[str],
) -> Feature:
    values = present.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise FairmendError(
            f'column "{name}", row {int(present.index[~np.isfinite(values)][0])}: not finite; correct it'
        )
    low, high = float(values.min()), float(values.max())
    whole = bool((values == np.rint(values)).all()) and max(-low, high) <= _EXACT
    distinct = len(np.unique(values))
    if whole:
        notes.append(f"integer: all values are whole numbers, from {low:.10g} to {high:.10g}")
        if 2 < distinct <= FEW:
            notes.append('if they are codes of categories: kind = "categorical", categories = [...] in place of range')
    else:
        notes.append(f"continuous: there are fractions, from {low:.10g} to {high:.10g}")
        if distinct == 2:
            look.append("it has only two values; are they categories?")
    notes.append("range: what the data holds; widen it to what is possible")
    scale = None
    if scaling == "standard":
        spread = float(values.std())
        scale = {"mean": float(values.mean()), "std": spread if spread > 0 else 1.0}
    elif scaling == "min-max":
        scale = {"min": low, "max": high if high > low else low + 1.0}
    missing = None
    if gaps:
        middle = float(np.median(values))
        missing = float(np.rint(middle)) if whole else middle
        look.append(
            f"missing is {missing:.10g}, the median; put what the model's pipeline fills in, or drop those rows"
        )
    return Feature(
        name,
        "integer" if whole else "continuous",
        range=(low, high),
        scale=scale,
        protected=protected,
        missing=missing,
    )


def _category(
    name: str, present: pd.Series[Any], gaps: int, protected: bool, notes: list[str], look: list[str]
) -> Feature:
    counts = present.map(as_text).value_counts()
    if "" in counts.index or "nan" in counts.index:
        row = int(np.flatnonzero(present.map(as_text).isin(["", "nan"]))[0])
        raise FairmendError(
            f'column "{name}", row {present.index[row]}: "{present.iloc[row]}" can be no category; leave it empty'
        )
    categories = sorted(counts.index)
    _refuse_spoilt_numbers(name, counts)
    kinds = ", ".join(f"{category} ({counts[category]})" for category in categories[:6])
    notes.append(f"categorical: {kinds}{', …' if len(categories) > 6 else ''}")
    if len(categories) > MANY:
        look.append(f"{len(categories)} categories are many; are they categories, and does the model know all of them?")
    missing = None
    if gaps:
        if MISSING in categories:
            raise FairmendError(f'column "{name}" has both missing values and "{MISSING}"; rename the latter')
        categories.append(MISSING)
        missing = MISSING
        look.append(
            f'missing values are the category "{MISSING}", the last; put missing = "..." with another category if the '
            f'model\'s pipeline fills that in, or dropped = "{MISSING}" if all its one-hot columns are 0 then'
        )
    return Feature(name, "categorical", categories=tuple(categories), protected=protected, missing=missing)


def _refuse_spoilt_numbers(name: str, counts: pd.Series[Any]) -> None:
    """Refuse a column of numbers with some other text in it, "?" for example: as categories it would be nonsense."""
    import pandas as pd

    numeric = pd.to_numeric(pd.Series(counts.index, dtype=object), errors="coerce").notna().to_numpy(bool)
    others = counts[~numeric]
    if numeric.sum() > FEW and 0 < len(others) <= 0.1 * len(counts):
        raise FairmendError(
            f'column "{name}" holds numbers, but also "{others.index[0]}" ({others.iloc[0]} rows); leave the field '
            "empty where that means missing, or drop the column (--drop)"
        )


def _like_an_id(name: str, column: pd.Series[Any]) -> str | None:
    """Return why a column looks like a name or number of the row, which no model should read; None where not."""
    import pandas as pd

    present = _plain(name, column)
    if len(present) < _ENOUGH or present.nunique() < len(present):
        return None
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return "text that is different in every row, such as a name, a date or an id; the model cannot know its values"
    if pd.api.types.is_integer_dtype(column.dtype):
        steps = np.diff(present.to_numpy())
        if _ID_NAME.search(name) or bool((steps == 1).all()):
            return "numbers that are different in every row and look like ids; if the model reads it, add it by hand"
    return None


# All columns together


def _encoded(draft: Draft, inputs: int | None) -> Draft:
    """Return the draft with an encoding for its categories: the one that gives the model's width, where one does."""
    if inputs is None:
        several = any(len(part.feature.categories or ()) > 1 for part in draft.parts)
        look = (f"encoding: {DEFAULT}, a guess; it must be the model's own",) if several else ()
        return replace(_with(draft, DEFAULT), look=look)
    options = {choice: _with(draft, choice) for choice in CHOICES}
    fitting = {choice: made for choice, made in options.items() if made.spec.width == inputs}
    different = {tuple(part.feature for part in made.parts) for made in fitting.values()}
    if len(different) == 1:
        choice, made = next(iter(fitting.items()))
        categorical = any(part.feature.categories for part in made.parts)
        why = f"encoding: {choice}, the only one of the usual ones that gives the {inputs} columns the model reads"
        return replace(made, look=(why,) if categorical else ())
    widths = ", ".join(f"{made.spec.width} with {choice}" for choice, made in options.items())
    if fitting:
        choice, made = next(iter(fitting.items()))
        others = "; or ".join(str(other) for other in list(fitting)[1:])
        return replace(made, look=(f"encoding: {choice}, a guess; {others} also gives the model's {inputs} columns",))
    left = ", ".join(f'"{name}"' for name, _ in draft.left_out)
    hint = f"; {left} {'is' if len(draft.left_out) == 1 else 'are'} left out" if left else ""
    look = (
        f"DOES NOT FIT THE MODEL: it reads {inputs} columns, and the data gives {widths}{hint}. Leave out what the "
        "model does not read (--drop), and give each feature the encoding it was trained with",
    )
    return replace(_with(draft, DEFAULT), look=look)


def _with(draft: Draft, choice: Encodings) -> Draft:
    return replace(draft, parts=tuple(_encode(part, choice) for part in draft.parts))


def _encode(part: Part, choice: Encodings) -> Part:
    categories = part.feature.categories
    if categories is None:
        return part
    wanted = choice.two if len(categories) <= 2 else choice.more
    if wanted == "ordinal":
        notes = ("encoding: ordinal, the number of the category from 0 in this order; or one-hot?",)
        return replace(part, notes=(*part.notes, *notes))
    notes = ("encoding: one-hot, a column for each category in this order; or ordinal?",)
    dropped = categories[0] if wanted == "drop" else None
    return replace(
        part, feature=replace(part.feature, encoding="one-hot", dropped=dropped), notes=(*part.notes, *notes)
    )
