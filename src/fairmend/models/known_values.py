"""The values of a categorical column that a fitted pipeline knows, as they were in the data that it was fitted on.

A spec has categories as text: " Male", True and 1.0 are "Male", "True" and "1". An encoder does not know these texts,
and with handle_unknown="ignore" it does not say so: then all people look the same to the model. So a pipeline gets the
values that its encoders were fitted on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.spec.draft.steps import MISSING, is_missing, positions
from fairmend.spec.features import Feature

Known = Mapping[str, Sequence[NDArray[Any]]]
"""For each column by name the categories of every encoder that reads it."""

_INNER = ("best_estimator_", "estimator_", "estimator")
_LISTED = ("calibrated_classifiers_", "estimators_")


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


def as_fitted(feature: Feature, known: Known) -> NDArray[Any]:
    """Return the value of each category of a feature as the encoders know it; as text, or whole number, without one."""
    names = feature.categories or ()
    values: dict[str, Any] = {}
    for each in known.get(feature.name, ()):
        for value in each.tolist():
            text = MISSING if is_missing(value) else as_text(value)
            if text in values and not is_missing(value) and values[text] != value:
                raise FairmendError(
                    f'the pipeline was fitted on {values[text]!r} and {value!r} in "{feature.name}", which have one '
                    "text. Make them one value in the data, and fit it again."
                )
            values[text] = value
    if values and not set(names) & set(values):
        raise FairmendError(
            f'the pipeline knows none of the categories of "{feature.name}" in the spec; it was fitted on '
            f"{', '.join(list(values)[:5])}"
        )
    if not values:
        texts = np.array(names, dtype=object)
        return texts.astype(np.int64) if has_whole_categories(feature) else texts
    numbers = all(each.dtype.kind in "iuf" for each in known[feature.name])
    made = [values[name] if name in values else _number(name) if numbers else name for name in names]
    kept = all(each.dtype.kind in "biuf" for each in known[feature.name]) and not any(isinstance(v, str) for v in made)
    found = np.empty(len(names), dtype=object)
    found[:] = made
    return np.array(made) if kept else found


def _number(text: str) -> float | str:
    """Return the number that a text is, for a category that an encoder of numbers does not know."""
    try:
        return float(text)
    except ValueError:
        return text


def has_whole_categories(feature: Feature) -> bool:
    """Return whether the categories of a feature are all whole numbers."""
    return all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", each) for each in feature.categories or "-")
