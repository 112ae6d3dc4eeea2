"""Draft the encoding from the matrix that the model read: find the column of the data behind each of its columns.

Each column of the matrix is a function of one column of the data: a number scaled, the code of a category, 1 for one
category, or 1 where a value is missing. So the columns are matched one by one, whatever their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, listed
from fairmend.spec.draft.draft import Draft, DraftFeature
from fairmend.spec.draft.guess import indicator_of
from fairmend.spec.draft.readings import number_readings
from fairmend.spec.draft.steps import MISSING
from fairmend.spec.features import AS_IS, Feature, scale_parameters
from fairmend.spec.read_values import read_values

if TYPE_CHECKING:
    import pandas as pd


_OF_SPREAD = 2e-5  # rounding in float32, relative to the spread of a column
_SAME_SCALE = 1e-5  # relative difference of a fitted scale and a computed one
_MOST_CATEGORIES = 1_000
_MOST_NAMED = 6  # columns in a sentence


@dataclass(frozen=True, eq=False)
class _Source:
    """A column of the data: its values as numbers, if they are, and as codes of its categories; -1 is missing."""

    feature: Feature
    column: pd.Series[Any] | None
    numbers: Floats | None
    codes: Ints
    categories: tuple[str, ...]

    @property
    def categories_with_columns(self) -> list[str]:
        return [category for category in self.categories if category != self.feature.dropped]

    @property
    def missing(self) -> Bools:
        return np.asarray(self.codes < 0)


def draft_from_matrix(
    draft: Draft,
    frame: pd.DataFrame,
    matrix: Floats,
    where: str = "the matrix",
    *,
    names: Sequence[str] | None = None,
    added: dict[str, Floats] | None = None,
) -> Draft:
    """Return the draft with the features in the order and encoding of the matrix (rows, columns).

    ``names`` are those of the columns of the matrix, if they have some. With ``added``, a column of the matrix that no
    column of the data explains is read as it is: it is added there, for the data.
    """
    features = [drafted.feature for drafted in draft.features if drafted.feature.indicates is None]
    sources = {feature.name: _source(feature, frame) for feature in features}
    found: list[DraftFeature] = []
    same: list[str] = []
    start = 0
    while start < matrix.shape[1]:
        used = {drafted.feature.name for drafted in found}
        options = [
            option for name, source in sources.items() if (option := _match(source, matrix, start, used)) is not None
        ]
        if not options and added is not None:
            found.append(_as_is(start, matrix, where, names, sources, frame, added))
            start += 1
            continue
        if not options:
            raise FairmendError(
                f"column {start} of {where} is no column of the data, as a number or in a common encoding. Give the "
                "data that the matrix was made from, with all its columns. Or pass --data-out FILE: columns that a "
                "spec cannot describe are then written to a table as the model reads them, and read as they are."
            )
        drafted = max(options, key=lambda option: option.feature.width)
        wide = [option for option in options if option.feature.width == drafted.feature.width]
        if len(wide) > 1 and wide[0].feature.indicates is None:
            same.append(f"column {start} of {where} could be {' or '.join(option.feature.name for option in wide)}")
        found.append(wide[0])
        start += wide[0].feature.width
    known = {drafted.feature.name for drafted in found}
    for feature in (drafted.feature for drafted in draft.features):
        if feature.protected and feature.name not in known:
            raise FairmendError(f'"{feature.name}" is protected, but it is not in {where}: the model does not read it')
    left = [name for name in sources if name not in known]
    review = [line for line in draft.review if line.startswith("claim")]
    if added:
        review.append(
            f"{', '.join(list(added)[:_MOST_NAMED])}{', …' if len(added) > _MOST_NAMED else ''}: read as they are. "
            "Check that none of them is computed from a protected column: for similar people they stay the same."
        )
    review += [f"{sentence}: they are the same in all rows. Check which one it is." for sentence in same]
    return replace(
        draft,
        features=tuple(found),
        left_out=(*draft.left_out, *((name, _why_left_out(name, where, added)) for name in left)),
        review=tuple(review),
        several=bool(same),
    )


def _why_left_out(name: str, where: str, added: Mapping[str, Any] | None) -> str:
    """Return why the spec does not have a column of the data: the model may read it in one that is passed on."""
    parts = [(new, new.rpartition("__")[2]) for new in added or ()]
    within = [new for new, part in parts if part == name or part.startswith(f"{name}_")]
    return f"read in {listed(within)}, as it is" if within else f"not in {where}"


def _as_is(
    start: int,
    matrix: Floats,
    where: str,
    names: Sequence[str] | None,
    sources: Mapping[str, _Source],
    frame: pd.DataFrame,
    added: dict[str, Floats],
) -> DraftFeature:
    """Return the feature of a column that is read as it is; refuse one that a protected column determines."""
    column = matrix[:, start]
    for source in sources.values():
        if source.feature.protected and np.ptp(column) > 0 and _is_determined(column, source):
            raise FairmendError(
                f'column {start} of {where} is computed from "{source.feature.name}", which is protected, in a way '
                "that a spec cannot describe: one-hot columns behind a scaler, or a target encoding. Encode it "
                "one-hot or as a number with a scale, and train the model again."
            )
    name = f"encoded_{start}" if names is None else str(names[start])
    while name in frame.columns or name in added:
        name += "_encoded"
    added[name] = column
    return DraftFeature(Feature(name, AS_IS), (f"read as it is: column {start} of {where}",))


def _is_determined(column: Floats, source: _Source) -> bool:
    """Return whether people with the same value of a source have the same number."""
    if len(np.unique(source.codes)) > _MOST_CATEGORIES:
        return False
    order = np.argsort(source.codes, kind="stable")
    starts = np.flatnonzero(np.diff(source.codes[order], prepend=-2))
    ends = np.maximum.reduceat(column[order], starts) - np.minimum.reduceat(column[order], starts)
    return bool(ends.max() <= _OF_SPREAD * column.std())


def _source(feature: Feature, frame: pd.DataFrame) -> _Source:
    import pandas as pd

    if feature.columns is not None:
        return _Source(feature, None, None, read_values(feature, frame).astype(np.int64), feature.categories or ())
    column = frame[feature.name]
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    codes, values = pd.factorize(column)
    numbers = column.to_numpy(np.float64, na_value=np.nan) if numeric else None
    return _Source(feature, column, numbers, codes.astype(np.int64), tuple(as_text(value) for value in values))


def _match(source: _Source, matrix: Floats, start: int, used: set[str]) -> DraftFeature | None:
    """Return the feature of a column of the data whose encoding starts at a column of the matrix; None if none does."""
    column = matrix[:, start]
    if source.feature.name in used:
        return _indicator(source, column, used)
    wanted = source.feature.categories is not None
    found = None if wanted or source.numbers is None else _number(source, column)
    if found is None and len(source.categories) <= _MOST_CATEGORIES:
        found = _one_hot(source, matrix, start) or _ordinal(source, column)
    return found or _indicator(source, column, used)


def _near(ours: Floats, given: Floats) -> bool:
    return bool(np.all(np.abs(ours - given) <= _OF_SPREAD * (given.std() + 1e-12) + 2e-6 * np.abs(given)))


def _number(source: _Source, column: Floats) -> DraftFeature | None:
    """Return the feature if the column is an increasing affine function of the numbers, and constant where missing."""
    assert source.numbers is not None
    known = ~source.missing
    values, encoded = source.numbers[known], column[known]
    if np.ptp(values) == 0 or np.ptp(encoded) == 0:
        return _constant(source, column)
    centre, spread = values.mean(), values.std()
    slope = float(((values - centre) / spread) @ encoded / len(values)) / spread
    if slope <= 0:
        return None
    offset, factor = centre - encoded.mean() / slope, 1 / slope
    if not _near((values - offset) / factor, encoded):
        return None
    fill = None
    if not known.all():
        filled = column[~known]
        if not _near(filled, np.full_like(filled, filled[0])) or np.ptp(filled) > _OF_SPREAD * encoded.std():
            return None
        fill = float(filled.mean() * factor + offset)
    return _scaled(source, offset, factor, fill)


def _constant(source: _Source, column: Floats) -> DraftFeature | None:
    """Return the feature if both are constant; scalers divide a constant column by 1."""
    assert source.numbers is not None
    if np.ptp(column) > 0 or source.missing.any() or np.ptp(source.numbers) > 0:
        return None
    return _scaled(source, float(source.numbers[0] - column[0]), 1.0, None)


def _scaled(source: _Source, offset: float, factor: float, fill: float | None) -> DraftFeature:
    """Return the feature with the nearest of the usual scales and filled-in values, or with the fitted ones."""
    plain = replace(source.feature, missing=None, scale=None)
    size = abs(factor) * _SAME_SCALE
    assert source.column is not None
    for reading in number_readings(plain, source.column).values():
        mean, std = scale_parameters(reading.feature.scale)
        given = reading.feature.missing
        same_fill = fill is None or (given is not None and abs(float(given) - fill) <= 10 * size)
        if abs(std - factor) <= size and abs(mean - offset) <= 10 * size and same_fill:
            return DraftFeature(reading.feature, (f"read as: {reading.words}, as in the matrix",))
    low, high = plain.bounds
    kind = plain.kind
    if fill is not None:
        low, high = min(low, fill), max(high, fill)
        kind = kind if fill.is_integer() else "continuous"
    feature = replace(
        plain, kind=kind, range=(low, high), scale={"mean": float(offset), "std": float(factor)}, missing=fill
    )
    return DraftFeature(feature, ("scale: from the matrix",))


def _one_hot(source: _Source, matrix: Floats, start: int) -> DraftFeature | None:
    """Return the feature if its one-hot columns start here: the longest run of columns, each 1 for one category."""
    order: list[int] = []
    width = start
    while width < matrix.shape[1]:
        code = _category_of(source, matrix[:, width])
        if code is None or code in order:
            break
        order.append(code)
        width += 1
    absent = [code for code in range(len(source.categories)) if code not in order]
    if len(order) < min(2, len(source.categories)) or len(absent) > 1:
        return None
    names = [MISSING if code < 0 else source.categories[code] for code in order]
    dropped = source.categories[absent[0]] if absent else None
    names = [dropped, *names] if dropped is not None else names
    missing = None
    if source.missing.any():
        row = matrix[int(np.flatnonzero(source.missing)[0]), start:width]
        if row.any():
            missing = names[int(row.argmax()) + (dropped is not None)]
        elif dropped is not None:
            missing = dropped
        else:
            names, dropped, missing = [*names, MISSING], MISSING, MISSING
    feature = _category(source.feature, tuple(names), missing)
    if source.feature.columns is not None:  # the data is one-hot already
        own = dict(zip(source.categories_with_columns, source.feature.columns, strict=True))
        feature = replace(feature, encoding="one-hot", dropped=dropped)
        feature = replace(feature, columns=tuple(own[name] for name in names if name != dropped))
        return DraftFeature(feature, ("one-hot already, as in the matrix",))
    return DraftFeature(replace(feature, encoding="one-hot", dropped=dropped), ("encoding: one-hot, as in the matrix",))


def _category_of(source: _Source, column: Floats) -> int | None:
    """Return the code of the category that a column of 0 and 1 marks; -1 for missing values, None if it marks none."""
    if not ((column == 0) | (column == 1)).all():
        return None
    marked = np.unique(source.codes[column == 1])
    known = marked[marked >= 0]
    if len(known) == 1:
        code = int(known[0])
        rest = column[source.missing]
        whole = bool((column[source.codes == code] == 1).all()) and (rest.size == 0 or np.ptp(rest) == 0)
        return code if whole else None
    return -1 if len(marked) == 1 and bool((column[source.missing] == 1).all()) else None


def _ordinal(source: _Source, column: Floats) -> DraftFeature | None:
    """Return the feature if the column is an affine function of the numbers of its categories, in some order."""
    if source.feature.columns is not None:
        return None
    values = []
    for code in range(-1, len(source.categories)):
        of_code = column[source.codes == code]
        if of_code.size and np.ptp(of_code) > _OF_SPREAD * max(column.std(), 1e-12):
            return None
        values.append(float(of_code.mean()) if of_code.size else np.nan)
    of_missing, of_categories = values[0], np.array(values[1:])
    order = np.argsort(of_categories, kind="stable")
    names, places = [source.categories[code] for code in order], of_categories[order]
    missing = None
    if np.isfinite(of_missing):
        near = np.abs(places - of_missing)
        if near.min() <= _OF_SPREAD * column.std():
            missing = names[int(near.argmin())]
        else:
            place = int(np.searchsorted(places, of_missing))
            names.insert(place, MISSING)
            places, missing = np.insert(places, place, of_missing), MISSING
    steps = np.diff(places)
    if len(places) > 1 and (not _near(steps, np.full_like(steps, steps[0])) or steps[0] <= 0):
        return None
    first, step = float(places[0]), float(steps.mean()) if len(places) > 1 else 1.0
    whole = abs(first) < _OF_SPREAD and abs(step - 1) < _OF_SPREAD
    scale = None if whole else {"mean": -first / step, "std": 1 / step}
    feature = replace(_category(source.feature, tuple(names), missing), scale=scale)
    return DraftFeature(feature, ("encoding: ordinal, as in the matrix",))


def _category(feature: Feature, categories: Sequence[str], missing: str | None) -> Feature:
    return Feature(
        feature.name, "categorical", categories=tuple(categories), protected=feature.protected, missing=missing
    )


def _indicator(source: _Source, column: Floats, used: set[str]) -> DraftFeature | None:
    """Return the feature that marks missing values, if the column does."""
    feature = indicator_of(source.feature.name)
    if feature.name in used or not source.missing.any() or source.missing.all():
        return None
    low, high = column[~source.missing], column[source.missing]
    if np.ptp(low) > 1e-6 or np.ptp(high) > 1e-6 or not high[0] > low[0]:
        return None
    step = float(high.mean() - low.mean())
    plain = abs(low[0]) < 1e-6 and abs(step - 1) < 1e-6
    scale = None if plain else {"mean": -float(low.mean()) / step, "std": 1 / step}
    return DraftFeature(replace(feature, scale=scale), ("marks missing values, as in the matrix",))
