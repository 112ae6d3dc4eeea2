"""The readings of each column, and the encodings that libraries commonly produce of all of them.

An encoding has one style for all numbers, one for all categories, and an order.

A style is tried only if it gives as many columns as the network reads. Columns of whole numbers may be categories, and
columns that look like ids may be read or not: the sets of them that give the right number of columns are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import pandas as pd

from fairmend.spec.draft.draft import Draft
from fairmend.spec.draft.guess import guess_feature, indicator_of
from fairmend.spec.draft.readings import (
    FILLS,
    WORDS_FOR_MISSING,
    Reading,
    category_readings,
    is_code,
    number_readings,
)

State = tuple[Reading, ...]
"""The readings of the columns, in the order of the network's inputs."""


_SCALES = ("standard", "none", "min-max", "robust", "max-abs", "min-max from -1")
_MORE_SCALES = ("standard, sample", "standard of the known values")
_ENCODINGS = (  # of two categories, and of more
    ("one-hot", "one-hot"),
    ("ordinal", "one-hot"),
    ("ordinal", "ordinal"),
    ("drop", "drop"),
    ("drop last", "drop last"),
    ("ordinal, standard", "ordinal, standard"),
    ("ordinal, min-max", "ordinal, min-max"),
    ("ordinal from 1", "ordinal from 1"),
)
_ORDERS = ("sorted", "by appearance", "by frequency")
_MISSING = ("missing: a category", "missing: no category", "missing: most frequent", "missing: code -1")
_MORE_MISSING = ("missing: the first category", *(f'missing: "{word}"' for word in WORDS_FOR_MISSING))
_ARRANGEMENTS = ("data", "numbers first", "categories first", "by name", "one-hot last", "one-hot first")
_INDICATORS = ("after the numbers", "after the numbers, standard", "after its column", "last", "first")
_MOST_CHANGED = 3  # columns that are read in another way than the others of their kind
_MOST_SETS = 40


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the data and its readings, by style.

    Attributes
    ----------
    name : its name
    numbers, categories : its readings as a number and as a category; empty if it cannot be one
    text : whether it is a category unless codes are meant
    optional : whether the model may not read it, such as an id
    gap_share : the share of missing values
    fixed : its only reading, where the data has it as the model reads it; several columns may be behind it
    """

    name: str
    numbers: Mapping[tuple[str, ...], Reading] = field(default_factory=dict)
    categories: Mapping[tuple[str, ...], Reading] = field(default_factory=dict)
    text: bool = False
    optional: bool = False
    gap_share: float = 0.0
    fixed: Reading | None = None

    @property
    def readings(self) -> list[Reading]:
        """All readings."""
        only = [] if self.fixed is None else [self.fixed]
        return [*only, *self.numbers.values(), *self.categories.values()]

    def indicator(self, standard: bool) -> Reading:
        """Return the column that marks missing values as a reading: 0 and 1, or standardized."""
        feature, share = indicator_of(self.name), self.gap_share
        if not standard:
            return Reading(feature, ("marks missing values",))
        scale = {"mean": share, "std": math.sqrt(share * (1 - share))}
        return Reading(replace(feature, scale=scale), ("marks missing values", "standard"))


def columns_of(
    draft: Draft,
    frame: pd.DataFrame,
    *,
    scales: Mapping[str, Mapping[str, float]] | None = None,
    codes: bool = True,
    optional: Sequence[str] = (),
) -> list[Column]:
    """Return the columns of a draft, in its order, and ``optional`` ones, which the model may read too.

    ``codes`` says whether whole numbers may be codes of categories. With ``scales``, those of the numbers are known.
    """
    found = []
    features = [drafted.feature for drafted in draft.features if drafted.feature.indicates is None]
    features += [guess_feature(name, frame[name], False, "none").feature for name in optional]
    for feature in features:
        if feature.as_is or feature.columns is not None:
            found.append(Column(feature.name, fixed=Reading(feature, ("as in the data",))))
            continue
        raw = frame[feature.name]
        rest = (feature.name in optional, float(raw.isna().mean()))
        if feature.categories:
            found.append(Column(feature.name, {}, category_readings(feature, raw), True, *rest))
            continue
        scale = None if scales is None else scales.get(feature.name, {"mean": 0.0, "std": 1.0})
        numbers = number_readings(replace(feature, scale=None, missing=None), raw, scale)
        categories = category_readings(feature, raw) if codes and scale is None and is_code(raw) else {}
        found.append(Column(feature.name, numbers, categories, False, *rest))
    if optional:  # in the order of the data, among the others
        first = {name: place for place, name in enumerate(frame.columns)}
        groups = {feature.name: feature.columns[0] for feature in features if feature.columns}
        found.sort(key=lambda column: first[groups.get(column.name, column.name)])
    return found


@dataclass(frozen=True)
class Style:
    """How all columns are read; ``changed`` are numbers read as categories, or optional columns that are read."""

    scale: str
    fill: str
    two: str
    more: str
    order: str
    missing: str
    indicators: str
    arrangement: str
    changed: frozenset[str] = frozenset()


def common_styles(columns: Sequence[Column], inputs: int, *, fixed_order: bool) -> Iterator[Style]:
    """Yield the styles that give ``inputs`` columns, the common ones first; finer choices have their first value."""
    gaps = [column for column in columns if column.numbers and column.gap_share > 0]
    missing = _MISSING if any(column.categories and column.gap_share > 0 for column in columns) else ("",)
    arrangements = ("data",) if fixed_order else _ARRANGEMENTS
    scales = ("as given",) if any(("as given", "") in c.numbers or _given(c) for c in columns) else _SCALES
    for (two, more), treated, marked in product(_ENCODINGS, missing, (False, True) if gaps else (False,)):
        first = Style(scales[0], FILLS[0], two, more, _ORDERS[0], treated, _INDICATORS[0] if marked else "", "data")
        for changed in _sets(columns, first, inputs):
            base = replace(first, changed=changed)
            for scale, arrangement in product(scales, arrangements):
                for indicators in _INDICATORS if marked else ("",):
                    yield replace(base, scale=scale, arrangement=arrangement, indicators=indicators)


def related_styles(style: Style, columns: Sequence[Column]) -> Iterator[Style]:
    """Yield the styles that differ from one in its finer choices: order of categories, filled-in values, scales."""
    scales = (style.scale, *(_MORE_SCALES if style.scale == "standard" else ()))
    fills = FILLS if any(column.numbers and column.gap_share > 0 for column in columns) else (style.fill,)
    treated = (style.missing, *(_MORE_MISSING if style.missing == _MISSING[0] else ()))
    orders = _ORDERS if any(column.categories for column in columns) else (style.order,)
    for scale, fill, missing, order in product(scales, fills, treated, orders):
        yield replace(style, scale=scale, fill=fill, missing=missing, order=order)


def build(columns: Sequence[Column], style: Style) -> State | None:
    """Return the readings of a style in its order; None if it does not apply to a column."""
    readings: list[Reading] = []
    for column in columns:
        if column.optional and column.name not in style.changed:
            continue
        reading = _reading(column, style)
        if reading is None:
            return None
        readings.append(reading)
    arranged = _arrange(readings, style.arrangement)
    return tuple(_with_indicators(arranged, columns, style) if style.indicators else arranged)


def _given(column: Column) -> bool:
    return any(style[0] == "as given" for style in column.numbers)


def _reading(column: Column, style: Style) -> Reading | None:
    if column.fixed is not None:
        return column.fixed
    if not (column.text or (column.categories and column.name in style.changed)):
        fill = style.fill if column.gap_share > 0 else ""
        found = column.numbers.get((style.scale, fill))
        return found or column.numbers.get(("standard" if style.scale in _MORE_SCALES else "as given", fill))
    missing = style.missing if column.gap_share > 0 else ""
    # The ordinal code of a code is the number itself.
    more = "one-hot" if style.more.startswith("ordinal") and not column.text else style.more
    found = column.categories.get((more, style.order, missing))
    if found is not None and len(found.feature.categories or ()) <= 2:
        return column.categories.get((style.two, style.order, missing))
    return found


def _sets(columns: Sequence[Column], style: Style, inputs: int) -> list[frozenset[str]]:
    """Return the sets of changed columns that give the right number of columns, the smallest first."""
    changes: dict[str, int] = {}
    plain = build(columns, style)
    if plain is None:
        return []
    width = sum(reading.feature.width for reading in plain)
    for column in columns:
        if column.optional:
            changes[column.name] = 1
        elif column.categories and not column.text:
            reading = _reading(column, replace(style, changed=frozenset([column.name])))
            if reading is not None:
                changes[column.name] = reading.feature.width - 1
    codes = [column.name for column in columns if column.name in changes and not column.optional]
    found = [frozenset[str]()] + [frozenset(codes)] * bool(codes)
    for size in range(1, _MOST_CHANGED + 1):
        found += [frozenset(names) for names in combinations(changes, size)]
        found += [frozenset(codes) - frozenset(names) for names in combinations(codes, size)]
    found = [names for names in dict.fromkeys(found) if width + sum(changes[name] for name in names) == inputs]
    return found[:_MOST_SETS]


def _arrange(readings: list[Reading], arrangement: str) -> list[Reading]:
    keys = {
        "data": lambda reading: 0,
        "numbers first": lambda reading: reading.feature.categories is not None,
        "categories first": lambda reading: reading.feature.categories is None,
        "by name": lambda reading: reading.feature.name,
        "one-hot last": lambda reading: reading.feature.one_hot,
        "one-hot first": lambda reading: not reading.feature.one_hot,
    }
    return sorted(readings, key=keys[arrangement])  # stable: the order of the data otherwise


def _with_indicators(readings: list[Reading], columns: Sequence[Column], style: Style) -> list[Reading]:
    """Return the readings with a column for each number with missing values that marks them."""
    by_name = {column.name: column for column in columns}
    standard = style.indicators.endswith("standard")
    marked = [r for r in readings if r.feature.categories is None and by_name[r.feature.name].gap_share > 0]
    marks = {r.feature.name: by_name[r.feature.name].indicator(standard) for r in marked}
    if style.indicators == "after its column":
        return [part for r in readings for part in (r, marks.get(r.feature.name)) if part is not None]
    if style.indicators == "first":
        return [*marks.values(), *readings]
    last = max((place for place, r in enumerate(readings) if r.feature.categories is None), default=len(readings) - 1)
    place = len(readings) if style.indicators == "last" else last + 1
    return [*readings[:place], *marks.values(), *readings[place:]]
