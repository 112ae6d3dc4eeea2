"""Read the scales of numbers from a file: a fitted scaler saved with skops, or its parameters as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.spec.draft.from_sklearn import scale_of
from fairmend.spec.draft.pipeline import apply_transformer, raw_column_names, strip_model
from fairmend.spec.draft.pipeline_file import read_pipeline
from fairmend.spec.draft.steps import TransformedColumn
from fairmend.spec.validation import as_list, as_number

Scales = dict[str, dict[str, float]]

_NAMES = ("feature_names_in_", "columns", "features")
# The attributes of fitted scalers, and plain names; each gives the offset and the factor of (x - offset) / factor.
_FORMS: dict[tuple[str, str], Any] = {
    ("mean_", "scale_"): lambda mean, scale: (mean, scale),
    ("center_", "scale_"): lambda centre, scale: (centre, scale),
    ("data_min_", "data_max_"): lambda low, high: (low, high - low),
    ("min_", "scale_"): lambda shift, scale: (-shift / scale, 1 / scale),
    ("mean", "std"): lambda mean, std: (mean, std),
    ("min", "max"): lambda low, high: (low, high - low),
}


def read_scales(path: Path, numbers: Sequence[str]) -> tuple[Scales, list[str]]:
    """Return the scale of each column in the file, and warnings; ``numbers`` are the numeric columns of the data.

    A scaler that was fitted without names must have as many columns as there are ``numbers``.
    """
    if path.suffix.lower() == ".json":
        return _from_json(path, numbers), []
    if path.suffix.lower() != ".skops":
        raise FairmendError(f"{path}: not a scaler file. Pass a .skops or .json file.")
    fitted, warnings = read_pipeline(path)
    try:
        transformer = strip_model(fitted)
        names = raw_column_names(transformer, numbers)
        columns = apply_transformer(transformer, [TransformedColumn(name) for name in names])
        return {c.name: scale_of(c) or {"mean": 0.0, "std": 1.0} for c in columns if c.categories is None}, warnings
    except FairmendError as error:
        raise FairmendError(f"{path}: {error}") from error


def _from_json(path: Path, numbers: Sequence[str]) -> Scales:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FairmendError(f"{path}: cannot read the scaler ({error.strerror}). Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise FairmendError(f"{path}: not valid JSON ({first_line(error)}). Save it again.") from error
    if not isinstance(content, Mapping) or not content:
        raise FairmendError(f'{path}: has no scales. Write {{"age": {{"mean": 40, "std": 12}}}}, or mean_ and scale_.')
    if all(isinstance(value, Mapping) for value in content.values()):
        return {str(name): _scale(path, {key: [entry[key]] for key in entry}, 0) for name, entry in content.items()}
    listed = next((as_list(content[key]) for key in _NAMES if key in content), None)
    names = [str(name) for name in (numbers if listed is None else listed)]
    count = _length(path, content)
    if count != len(names):
        raise FairmendError(
            f"{path}: has the scales of {count} columns, but there are {len(names)} names. Add "
            '"columns": [...] with the name of each.'
        )
    return {name: _scale(path, content, place) for place, name in enumerate(names)}


def _length(path: Path, content: Mapping[str, Any]) -> int:
    keys = _form(path, content)
    lengths = {len(as_list(content[key]) or ()) for key in keys}
    if len(lengths) != 1:
        raise FairmendError(f"{path}: {keys[0]} and {keys[1]} must be lists of the same length")
    return lengths.pop()


def _form(path: Path, content: Mapping[str, Any]) -> tuple[str, str]:
    for keys in _FORMS:
        if all(key in content for key in keys):
            return keys
    known = ", ".join(" and ".join(keys) for keys in _FORMS)
    raise FairmendError(f"{path}: has no scale that fairmend knows. Give {known}.")


def _scale(path: Path, content: Mapping[str, Any], place: int) -> dict[str, float]:
    """Return the scale at a place of the lists in a file."""
    keys = _form(path, content)
    first, second = (as_number((as_list(content[key]) or [None])[place], f"{path}: {key}") for key in keys)
    if keys in (("min", "max"), ("data_min_", "data_max_")) and second > first:
        return {"min": first, "max": second}
    if keys == ("min_", "scale_") and second == 0:
        raise FairmendError(f"{path}: scale_ must not be 0")
    offset, factor = _FORMS[keys](first, second)
    if not factor > 0:
        raise FairmendError(f"{path}: a scale must be above 0, got {factor:g}")
    return {"mean": offset, "std": factor}
