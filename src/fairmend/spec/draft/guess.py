"""Guess the feature in a column of data, and how a model reads all columns together.

The first goes by the values: kind, range, categories, scale, and what replaces a missing value. The second by the
number of columns that the model reads.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, listed
from fairmend.spec.draft.draft import Draft, DraftFeature, count_rows
from fairmend.spec.draft.steps import MISSING
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd


_FEW_VALUES = 10  # whole numbers with at most this many values may be codes of categories
_MANY_CATEGORIES = 50  # more need a review
_ENOUGH_ROWS = 20  # with fewer, different values in all rows say little
_MOST_CATEGORIES = 6  # shown in a note
_TEXTS_READ = 1_000  # different texts that are enough to see that they are numbers
_EXACT = 2.0**53
# Ages, years, counts, percentages and credit scores span less; amounts of money span more. As continuous numbers, the
# latter allow more people as similar, not fewer, and a tolerance of 10,000 is one interval instead of 20,001 values.
_WIDEST_INTEGER = 1_000
_VALUES = (str, bool, int, float, np.generic, datetime.date, decimal.Decimal)
_ID_NAME = re.compile(r"(?:^|[_\-. ])(?:id|index|uuid|guid|nr|no|number|key)$|^unnamed: ?\d*$", re.IGNORECASE)


def guess_kind(low: float, high: float, whole: bool) -> tuple[str, str]:
    """Return the kind of numbers from ``low`` to ``high``, and the reason; ``whole`` says whether all are whole."""
    extent = f"from {low:.10g} to {high:.10g}"
    if not whole or max(-low, high) > _EXACT:
        return "continuous", f"continuous: some values are fractions, {extent}"
    if high - low > _WIDEST_INTEGER:
        return "continuous", (
            f"continuous: whole numbers {extent}, such as amounts of money; run spec init with --integer if only whole "
            "numbers are possible"
        )
    return "integer", f"integer: all values are whole numbers, {extent}"


def guess_feature(
    name: str, column: pd.Series[Any], protected: bool, scale: str | Mapping[str, float], kind: str | None = None
) -> DraftFeature:
    """Return the feature in a column that has at least one value, with the reasons for every guess.

    ``scale`` is "none", "standard", "min-max" or the scale itself; ``kind`` is the kind of the feature, if it is known.
    """
    import pandas as pd

    rows, gaps = len(column), int(column.isna().sum())
    present = _present_values(name, column)
    distinct = f"{present.nunique()} different values" if present.nunique() > 1 else "one value"
    notes = [f"{distinct} in {rows} rows" + (f", {gaps} missing" if gaps else "")]
    review: list[str] = []
    if present.nunique() == 1:
        if protected:
            raise FairmendError(
                f'protected column "{name}" is {as_text(present.iloc[0])} in every row. Pass data in which it differs, '
                "or write the spec's range or categories by hand."
            )
        review.append("it is constant in the data. Check that the model reads it, and add its other possible values.")
    numeric = pd.api.types.is_numeric_dtype(present.dtype) and not pd.api.types.is_bool_dtype(present.dtype)
    if kind == "integer" and not numeric:
        raise FairmendError(f'column "{name}" holds text, so it cannot be an integer. Remove it from --integer.')
    if numeric and kind != "categorical":
        feature = _guess_number(name, present, gaps, protected, scale, kind, notes, review)
    else:
        feature = _guess_categories(name, present, gaps, protected, notes, review)
    commonest = as_text(present.value_counts().index[0]) if feature.categories else None
    return DraftFeature(feature, tuple(notes), tuple(review), commonest)


# "€17,012.64", "17.012,64 EUR", "1 200 $" or "12.5 %": a currency or a percent sign beside digits, or groups of three
_CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|TRY|BRL|MXN|ZAR|KRW"
_CURRENCY = rf"(?:[$%£¥€₹₩₺₽₴₪₫฿₦]|{_CODES}|kr\.?|zł|Kč|Ft|R\$)"
_DIGITS = r"[-+−]?\d[\d.,'’ \u00a0\u202f]*"
_GROUPS = r"[-+−]?\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?:[.,]\d+)?"
_NUMBER_AS_TEXT = re.compile(rf"\s*(?:{_CURRENCY}\s?{_DIGITS}|{_DIGITS}\s?{_CURRENCY}|{_GROUPS})\s*")


def number_as_text(values: pd.Series[Any]) -> str | None:
    """Return an example if nearly all texts are numbers that Python does not read, such as "€17,012.64"; else None."""
    texts = [text for text in map(as_text, values.unique()[:_TEXTS_READ]) if text]
    found = [text for text in texts if _NUMBER_AS_TEXT.fullmatch(text)]
    return found[0] if found and len(found) >= 0.9 * len(texts) else None


# "1990-12-31", also with a time, "31.12.1990" or "12/31/1990"
_DATE = re.compile(r"\s*(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[T ]\d{1,2}:\d{2}.*)?|\d{1,2}[./-]\d{1,2}[./-]\d{4})\s*")


def _date(values: pd.Series[Any]) -> str | None:
    """Return an example if the values are dates, too many for categories; else None."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or values.nunique() <= _MANY_CATEGORIES:
        return None
    texts = [as_text(value) for value in values.unique()[:_TEXTS_READ]]
    return texts[0] if all(_DATE.fullmatch(text) for text in texts) else None


_SHOW = "; to name people by it in reports, set id in [table]"


def reason_for_id(name: str, column: pd.Series[Any]) -> str | None:
    """Return why a column looks like an id of the row, or a date, which no model should read; None if it does not."""
    import pandas as pd

    present = _present_values(name, column)
    if len(present) < _ENOUGH_ROWS:
        return None
    example = _date(present)
    if example is not None:
        return f'dates, such as "{example}"; if the model reads a number made of them, such as an age, add its column'
    if present.nunique() < len(present):
        return None
    if not pd.api.types.is_numeric_dtype(column.dtype):
        example = number_as_text(present)
        if example is not None:
            return f'numbers written as text, such as "{example}"; if the model reads them, write them as plain numbers'
        return f"text that differs in every row, such as a name, a date or an id{_SHOW}"
    if pd.api.types.is_integer_dtype(column.dtype):
        steps = np.diff(present.to_numpy())
        if _ID_NAME.search(name) or bool((steps == 1).all()):
            reads = "if the model reads the column, add it by hand"
            return f"numbers that differ in every row and look like ids; {reads}{_SHOW}"
    return None


# The signs between the name of a column and its category that get_dummies, OneHotEncoder and people write.
_JOINTS = ("__", "_", "=", ": ", ":", ".", "-", " ")


def one_hot_groups(data: pd.DataFrame, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups of neighbouring columns that are one-hot already, by their common name: "sex" of "sex_F".

    Their values are 0 and 1, and one of them is 1 in every row.
    """
    import pandas as pd

    marks = {}
    for name in names:
        column = data[name]
        if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
            values = column.to_numpy(np.float64, na_value=np.nan)
            if ((values == 0) | (values == 1)).all():
                marks[name] = values
    found: dict[str, tuple[str, ...]] = {}
    start = 0
    while start < len(names):
        group = _group_at(names, start, marks)
        if group is not None and group[0] not in (*data.columns, *found):
            found[group[0]] = tuple(names[start : start + group[1]])
        start += group[1] if group is not None else 1
    return found


def _group_at(names: Sequence[str], start: int, marks: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the common name and the number of one-hot columns that start here; None if none do."""
    for joint in _JOINTS:
        for place in [at.start() for at in re.finditer(re.escape(joint), names[start])][::-1]:
            prefix = names[start][: place + len(joint)]
            end, total = start, 0.0
            while end < len(names) and names[end] in marks and names[end].startswith(prefix) and names[end] != prefix:
                total = total + marks[names[end]]
                end += 1
                if end - start > 1 and np.all(total == 1):
                    return prefix.removesuffix(joint) or prefix, end - start
    return None


def grouped_feature(name: str, columns: Sequence[str], protected: bool) -> DraftFeature:
    """Return the feature of columns that are one-hot already; its categories are what their names do not share."""
    categories = tuple(column[len(name) :].lstrip("_=:.- ") or column for column in columns)
    if len(set(categories)) < len(categories):
        categories = tuple(columns)
    feature = Feature(
        name, "categorical", categories=categories, encoding="one-hot", protected=protected, columns=tuple(columns)
    )
    return DraftFeature(
        feature, (f"one-hot already: {len(columns)} columns of 0 and 1, of which one is 1 in every row",)
    )


def _present_values(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values that are not missing, with plain values for pandas categories; raise an error for others."""
    import pandas as pd

    present = column.dropna()
    if isinstance(present.dtype, pd.CategoricalDtype):  # it also lists categories that no row has
        present = present.astype(object).infer_objects()
    if present.dtype == object and not all(isinstance(value, _VALUES) for value in present):
        odd = next(value for value in present if not isinstance(value, _VALUES))
        raise FairmendError(
            f'column "{name}" contains a {type(odd).__name__}, which a spec cannot express. Drop it (--drop).'
        )
    return present


def _guess_number(
    name: str,
    present: pd.Series[Any],
    gaps: int,
    protected: bool,
    scaling: str | Mapping[str, float],
    kind: str | None,
    notes: list[str],
    review: list[str],
) -> Feature:
    values = present.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        row = int(present.index[~np.isfinite(values)][0])
        raise FairmendError(f'column "{name}", row {row}: not a finite number. Correct it.')
    low, high = float(values.min()), float(values.max())
    whole = bool((values == np.rint(values)).all())
    distinct = len(np.unique(values))
    if kind == "integer" and not whole:
        fraction = values[values != np.rint(values)][0]
        raise FairmendError(f'column "{name}" contains {fraction:.10g}, so it cannot be an integer (--integer).')
    guessed, reason = guess_kind(low, high, whole)
    notes.append(f"integer, as requested, from {low:.10g} to {high:.10g}" if kind == "integer" else reason)
    kind = kind or guessed
    if kind == "integer" and 2 < distinct <= _FEW_VALUES:
        notes.append('if they are codes of categories: kind = "categorical", categories = [...] instead of range')
    if not whole and distinct == 2:
        review.append("it has only two values. Check whether they are categories.")
    notes.append("range: the lowest and highest value in the data; widen it to all possible values")
    scale = dict(scaling) if isinstance(scaling, Mapping) else None
    if scaling == "standard":
        spread = float(values.std())
        scale = {"mean": float(values.mean()), "std": spread if spread > 0 else 1.0}
    elif scaling == "min-max":
        scale = {"min": low, "max": high if high > low else low + 1.0}
    missing = None
    if gaps:
        middle = float(np.median(values))
        missing = float(np.rint(middle)) if kind == "integer" else middle
        review.append(
            f"missing is {missing:.10g}, the median. Set it to the value that the model's pipeline fills in, or remove "
            "the rows with missing values."
        )
    return Feature(
        name,
        kind,
        range=(low, high),
        scale=scale,
        protected=protected,
        missing=missing,
    )


def _guess_categories(
    name: str, present: pd.Series[Any], gaps: int, protected: bool, notes: list[str], review: list[str]
) -> Feature:
    import pandas as pd

    counts = present.map(as_text).value_counts()
    if "" in counts.index or "nan" in counts.index:
        row = int(np.flatnonzero(present.map(as_text).isin(["", "nan"]))[0])
        raise FairmendError(
            f'column "{name}", row {present.index[row]}: "{present.iloc[row]}" cannot be a category. '
            "Leave the field empty."
        )
    numeric = pd.api.types.is_numeric_dtype(present.dtype) and not pd.api.types.is_bool_dtype(present.dtype)
    categories = sorted(counts.index, key=float) if numeric else sorted(counts.index)
    _require_no_spoilt_numbers(name, counts)
    examples = ", ".join(f"{category} ({counts[category]})" for category in categories[:_MOST_CATEGORIES])
    notes.append(f"categorical: {examples}{', …' if len(categories) > _MOST_CATEGORIES else ''}")
    if len(categories) > _MANY_CATEGORIES:
        review.append(
            f"it has {len(categories)} categories. Check that it is categorical and the model knows all of them."
        )
    example = None if numeric else number_as_text(present)
    if example is not None and len(categories) > _FEW_VALUES:
        review.append(f'it has numbers written as text, such as "{example}". Write them as plain numbers in the data.')
    missing = None
    if gaps:
        if MISSING in categories:
            raise FairmendError(f'column "{name}" has both missing values and "{MISSING}". Rename the latter.')
        categories.append(MISSING)
        missing = MISSING
        review.append(
            f'missing values are the last category, "{MISSING}". If the model\'s pipeline fills in another category, '
            f'set missing to it. If it makes all one-hot columns 0, set dropped = "{MISSING}".'
        )
    return Feature(name, "categorical", categories=tuple(categories), protected=protected, missing=missing)


def _require_no_spoilt_numbers(name: str, counts: pd.Series[Any]) -> None:
    """Raise an error for a column of numbers with a few other texts, such as "?": as categories it makes no sense."""
    import pandas as pd

    numeric = pd.to_numeric(pd.Series(counts.index, dtype=object), errors="coerce").notna().to_numpy(bool)
    others = counts[~numeric]
    if numeric.sum() > _FEW_VALUES and 0 < len(others) <= 0.1 * len(counts):
        raise FairmendError(
            f'column "{name}" contains numbers, but also "{others.index[0]}" ({count_rows(others.iloc[0])}). Leave the '
            "field empty if that means missing, or drop the column (--drop)."
        )


_MOST_NAMED = 4  # other encodings that would fit


@dataclass(frozen=True)
class _Encodings:
    """How features with two categories and with more are encoded; "drop" is one-hot without the first category.

    ``filled`` fills in the most frequent category for a missing one, which otherwise is a category of its own.
    ``indicators`` adds a column of 0 and 1 for each number with missing values.
    """

    two: str
    more: str
    filled: bool = False
    indicators: bool = False

    def __str__(self) -> str:
        names = {"one-hot": "one-hot", "ordinal": "ordinal codes", "drop": "one-hot without the first category"}
        words = f"all categories as {names[self.more]}"
        if self.two != self.more:
            words = f"two categories as {names[self.two]}, more as {names[self.more]}"
        words += ", missing categories filled in" if self.filled else ""
        return words + (", columns that mark missing numbers" if self.indicators else "")


_DEFAULT = _Encodings("ordinal", "one-hot")
_CHOICES = (("ordinal", "one-hot"), ("one-hot", "one-hot"), ("ordinal", "ordinal"), ("ordinal", "drop"))


def guess_encodings(draft: Draft, inputs: int | None) -> Draft:
    """Return the draft with an encoding for its categories: one that gives as many columns as the model reads, if any.

    Without ``inputs``, the number of columns that the model reads, the encoding is a guess. With missing values it is
    one too: what is filled in for a number does not change the number of columns.
    """
    if inputs is None:
        categorical = any(len(drafted.feature.categories or ()) > 1 for drafted in draft.features)
        review = (f"encoding: {_DEFAULT} (guessed). Check that the model was trained with it.",) if categorical else ()
        return replace(_encode(draft, _DEFAULT), review=review)
    options = {choice: _encode(draft, choice) for choice in _choices(draft)}
    fitting: dict[tuple[Feature, ...], _Encodings] = {}
    for choice, option in options.items():
        if option.spec.width == inputs:
            fitting.setdefault(tuple(drafted.feature for drafted in option.features), choice)
    if not fitting:
        return replace(_encode(draft, _DEFAULT), review=(_does_not_fit(draft, options, inputs),))
    choice, *others = fitting.values()
    option = options[choice]
    filled = [drafted.feature.name for drafted in option.features if drafted.feature.missing is not None]
    filled = [name for name in filled if name in _numbers_with_gaps(draft)]
    if others or filled:
        return replace(option, review=(_several(choice, others, filled, inputs),), several=True)
    categorical = any(drafted.feature.categories for drafted in option.features)
    reason = f"encoding: {choice}, the only common encoding that gives the {inputs} columns that the model reads."
    return replace(option, review=(reason,) if categorical else ())


def indicator_of(name: str, protected: bool = False) -> Feature:
    """Return the feature that marks the missing values of a column."""
    return Feature(f"{name} is missing", "integer", range=(0, 1), indicates=name, protected=protected)


def _choices(draft: Draft) -> list[_Encodings]:
    """Return the common encodings, without those that differ only in missing values which the data does not have."""
    categories = any(drafted.feature.missing == MISSING for drafted in draft.features)
    numbers = bool(_numbers_with_gaps(draft))
    kinds = product([False, True] if numbers else [False], [False, True] if categories else [False], _CHOICES)
    return [_Encodings(two, more, filled, indicators) for indicators, filled, (two, more) in kinds]


def _numbers_with_gaps(draft: Draft) -> list[str]:
    """Return the numbers of which missing values are filled in with a guess."""
    guessed = [drafted.feature for drafted in draft.features if drafted.review]
    return [feature.name for feature in guessed if feature.missing is not None and not feature.categories]


def _several(choice: _Encodings, others: list[_Encodings], filled: list[str], inputs: int) -> str:
    """Return why the encoding is not the only one that fits."""
    reason = f"encoding: {choice} (guessed)."
    if others:
        names = " and ".join(str(other) for other in others[:_MOST_NAMED])
        names += f" and {len(others) - _MOST_NAMED} others" if len(others) > _MOST_NAMED else ""
        reason += f" {names[0].upper()}{names[1:]} would also give the model's {inputs} columns."
    if filled:
        reason += f" What the model's pipeline fills in for a missing {listed(filled, 'or')} is a guess too."
    return reason


def _does_not_fit(draft: Draft, options: dict[_Encodings, Draft], inputs: int) -> str:
    widths = ", ".join(f"{option.spec.width} with {choice}" for choice, option in options.items())
    names = ", ".join(f'"{name}"' for name, _ in draft.left_out)
    hint = f"; {names} {'is' if len(draft.left_out) == 1 else 'are'} left out" if names else ""
    return (
        f"DOES NOT FIT THE MODEL: the model reads {inputs} columns, but the data gives {widths}{hint}. Drop the "
        "columns that the model does not read (--drop), and give each feature the encoding it was trained with."
    )


def _encode(draft: Draft, choice: _Encodings) -> Draft:
    features = [_encode_feature(drafted, choice) for drafted in draft.features]
    if choice.indicators:
        note = "marks missing values: 1 where the column is missing, 0 elsewhere"
        features += [DraftFeature(indicator_of(name), (note,)) for name in _numbers_with_gaps(draft)]
    return replace(draft, features=tuple(features))


def _encode_feature(drafted: DraftFeature, choice: _Encodings) -> DraftFeature:
    feature = drafted.feature
    if feature.categories is None or feature.columns is not None:
        return drafted
    if choice.filled and feature.missing == MISSING and len(feature.categories) > (2 if feature.protected else 1):
        known = tuple(category for category in feature.categories if category != MISSING)
        feature = replace(feature, categories=known, missing=drafted.commonest)
        review = (
            f'missing values become "{drafted.commonest}", the most frequent category. Check that the model does so.'
        )
        drafted = replace(drafted, review=(*drafted.review[:-1], review))
    assert feature.categories is not None
    encoding = choice.two if len(feature.categories) <= 2 else choice.more
    if encoding == "ordinal":
        note = "encoding: ordinal, the number of the category in this order, from 0"
        return replace(drafted, feature=feature, notes=(*drafted.notes, note))
    note = "encoding: one-hot, one column for each category in this order"
    dropped = feature.categories[0] if encoding == "drop" else None
    feature = replace(feature, encoding="one-hot", dropped=dropped)
    return replace(drafted, feature=feature, notes=(*drafted.notes, note))
