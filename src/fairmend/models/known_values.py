"""The values of a categorical column that a fitted pipeline knows, as they were in the data that it was fitted on.

A spec has categories as text: " Male", True and 1.0 are "Male", "True" and "1". An encoder does not know these texts,
and with handle_unknown="ignore" it does not say so: then all people look the same to the model. So a pipeline gets the
values that its encoders were fitted on. Columns that no encoder reads, and all those of a function, have the values
and the type that they have in the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.spec import Spec
from fairmend.spec.draft.steps import MISSING, is_missing, positions
from fairmend.spec.features import Feature
from fairmend.spec.read_values import find_column, has_column

if TYPE_CHECKING:
    import pandas as pd

Known = Mapping[str, Sequence[NDArray[Any]]]
"""For each column by name the categories of every encoder that reads it."""

_INNER = ("best_estimator_", "estimator_", "estimator", "_preprocessor")  # the last one in a HistGradientBoosting
_TRUTH = ("False", "True")
_LISTED = ("calibrated_classifiers_", "estimators_")


@dataclass(frozen=True, eq=False)
class DataValues:
    """What stands in the data: of each categorical column its different values, and its type in pandas."""

    values: Known = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Spec, frames: Iterable[pd.DataFrame], known: Known) -> DataValues:
        """Return what stands in the categorical columns of a spec of which no encoder knows the values."""
        values: dict[str, list[NDArray[Any]]] = {}
        types: dict[str, Any] = {}
        features = [f for f in spec.features if f.categories and not f.columns and f.name not in known]
        for frame in frames:
            for feature in features:
                if has_column(frame, feature.name):
                    column = find_column(frame, feature.name, f'feature "{feature.name}"')
                    values.setdefault(feature.name, []).append(_different(column))
                    types.setdefault(feature.name, column.dtype)
        return cls(values, types)

    def typed(self, feature: Feature, values: NDArray[Any]) -> Any:
        """Return the values of the categories of a feature in the type of its column, if that has room for them."""
        import pandas as pd

        kind = self.types.get(feature.name)
        if kind is None or (isinstance(kind, np.dtype) and kind.kind == "O"):
            return values
        try:
            typed = pd.Series(values).astype(kind)
        except (TypeError, ValueError):
            return values
        return typed.array if np.array_equal(typed.isna(), pd.isna(values)) else values


def _different(column: pd.Series[Any]) -> NDArray[Any]:
    """Return the different values of a column, missing ones included; not all of one kind are objects."""
    values = column.tolist() if column.dtype == object else column.drop_duplicates().tolist()
    try:
        different = dict.fromkeys(zip(map(type, values), values, strict=True))  # 1, 1.0 and True are three
        values = [value for _, value in different]
    except TypeError as error:  # lists and the like
        raise FairmendError(f'column "{column.name}": {error}. Its values must be texts or numbers.') from error
    return _array(values)


def _array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as numbers or truth values, if all of them are; else as objects."""
    kinds = {type(value) for value in values}
    if kinds and (kinds <= {int, float} or kinds == {bool}):
        return np.array(values)
    return _objects(values)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def known_values(estimator: Any, names: Sequence[str] | None) -> dict[str, list[NDArray[Any]]]:
    """Return the categories of the encoders in a fitted estimator that read its columns, which have these names."""
    found: dict[str, list[NDArray[Any]]] = {}
    if names is not None:
        _visit(estimator, list(names), found)
    return found


def _visit(step: Any, names: list[str] | None, found: dict[str, list[NDArray[Any]]]) -> list[str] | None:
    """Look for encoders of columns; return the names of the columns after a step, None if they are others."""
    if names is None or step is None or isinstance(step, str):
        return names if step != "drop" else []
    if isinstance(getattr(step, "steps", None), list):
        for _, inner in step.steps:
            names = _visit(inner, names, found)
        return names
    if hasattr(step, "transformers_"):
        for name, inner, selected in step.transformers_:
            _visit(inner, [names[at] for at in positions(selected, names, len(names), name)], found)
        return None
    for _, inner in getattr(step, "transformer_list", ()):
        _visit(inner, names, found)
    categories = getattr(step, "categories_", None)
    if isinstance(categories, list) and len(categories) == len(names):
        for name, each in zip(names, categories, strict=True):
            found.setdefault(name, []).append(np.asarray(each))
        return None
    for name in _INNER:
        _visit(getattr(step, name, None), names, found)
    for name in _LISTED:
        for inner in getattr(step, name, ()) if not hasattr(step, "estimators_features_") else ():
            _visit(inner, names, found)
    kept = getattr(step, "statistics_", None)  # of a SimpleImputer, which keeps the columns that have values
    whole = kept is not None and not getattr(step, "add_indicator", False) and not any(map(is_missing, kept))
    return names if whole or (hasattr(step, "func") and step.func is None) else None


def all_categories(step: Any) -> list[NDArray[Any]]:
    """Return the categories of all encoders in a fitted estimator, whichever columns they read."""
    inner = [each for name in ("steps", "transformers_", "transformer_list") for each in getattr(step, name, ())]
    steps = [each[1] for each in inner]
    steps += [getattr(step, name, None) for name in _INNER] + [
        each for name in _LISTED for each in getattr(step, name, ())
    ]
    own = getattr(step, "categories_", None)
    found = [np.asarray(each) for each in own] if isinstance(own, list) else []
    return found + [each for one in steps if not isinstance(one, str | type(None)) for each in all_categories(one)]


def as_fitted(feature: Feature, known: Known) -> NDArray[Any]:
    """Return the value of each category of a feature as the encoders know it; without one as a table reads it."""
    names = feature.categories or ()
    values: dict[str, Any] = {}
    for each in known.get(feature.name, ()):
        for value in each.tolist():
            text = MISSING if is_missing(value) else as_text(value)
            if text in values and not is_missing(value) and values[text] != value:
                raise FairmendError(
                    f'"{feature.name}" has the values {values[text]!r} and {value!r}, which have one text. Make them '
                    "one value in the data (in a .csv file, without spaces after separators), and fit the model again."
                )
            values[text] = value
    if set(names) <= set(_TRUTH) and set(values) <= {"0", "1"}:  # what scikit-learn makes of a category of pandas
        values = {_TRUTH[int(text)]: value for text, value in values.items()}
    if values and not set(names) & set(values):
        raise FairmendError(
            f'the pipeline knows none of the categories of "{feature.name}" in the spec; it was fitted on '
            f"{', '.join(list(values)[:5])}"
        )
    if not values:
        return _as_a_table_reads(feature)
    numbers = all(each.dtype.kind in "iuf" for each in known[feature.name])
    values.setdefault(MISSING, math.nan)
    made = [values[name] if name in values else _number(name) if numbers else name for name in names]
    kept = all(each.dtype.kind in "biuf" for each in known[feature.name])
    return _array(made) if kept else _objects(made)


def _number(text: str) -> float | str:
    """Return the number that a text is, for a category that an encoder of numbers does not know."""
    try:
        return float(text)
    except ValueError:
        return text


def _as_a_table_reads(feature: Feature) -> NDArray[Any]:
    """Return categories as pandas reads them from a table in text: whole numbers, numbers, truth values, or text."""
    names = feature.categories or ()
    present = [name for name in names if name != MISSING]
    numbers = [_number(name) for name in present]
    read: list[Any] = present
    if _are_whole(present):
        read = [int(name) for name in present]
    elif set(present) <= set(_TRUTH):
        read = [name == "True" for name in present]
    elif all(isinstance(each, float) and as_text(each) == name for each, name in zip(numbers, present, strict=True)):
        read = numbers
    values = dict(zip(present, read, strict=True))
    return _array([values.get(name, math.nan) for name in names])


def has_whole_categories(feature: Feature) -> bool:
    """Return whether the categories of a feature are all whole numbers."""
    return _are_whole(feature.categories or ())


def _are_whole(names: Sequence[str]) -> bool:
    return all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", each) for each in names or "-")
