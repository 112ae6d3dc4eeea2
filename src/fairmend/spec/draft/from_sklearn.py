"""Draft a spec from a fitted scikit-learn pipeline, and read pipelines and scalers from files.

The spec encodes each column as the pipeline does. Reading a pickle can run any code, so it needs the user's permission.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.spec.claim import Claim
from fairmend.spec.draft.draft import Draft, DraftFeature, require_columns
from fairmend.spec.draft.guess import guess_kind, indicator_of
from fairmend.spec.draft.steps import TransformedColumn, apply_transformer, raw_column_names, strip_model
from fairmend.spec.features import Feature
from fairmend.spec.label import Label
from fairmend.spec.toml import as_list, as_number

if TYPE_CHECKING:
    import pandas as pd


# Harmless types in fitted pipelines that skops does not trust by itself.
_TRUSTED = {
    "numpy.dtype",
    "numpy.number",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
}
_PICKLES = (".joblib", ".pkl", ".pickle")


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


def draft_from_sklearn(
    transformer: Any,
    protected: Iterable[str],
    label: Label | None = None,
    data: pd.DataFrame | None = None,
    claim: Claim | None = None,
) -> Draft:
    """Return a draft of the spec that encodes what a fitted ColumnTransformer or Pipeline gives the model.

    ``data`` holds raw rows, from which the ranges of numbers are taken. Without them, only a MinMaxScaler gives ranges.
    """
    transformer, label = _take_threshold(transformer, label)
    preprocessing = strip_model(transformer)
    names = raw_column_names(preprocessing, None if data is None else _inputs(data, label))
    wanted = require_columns([protected] if isinstance(protected, str) else protected, names, "protected")
    if not wanted:
        raise FairmendError("no protected column is given. Name at least one, such as gender or age.")
    columns = apply_transformer(preprocessing, [TransformedColumn(name) for name in names])
    found = [column.name for column in columns]
    for name in wanted:
        if name not in found:
            raise FairmendError(
                f'the pipeline drops "{name}", so the model does not read it and already ignores it. Protect a column '
                "that the model reads, such as a proxy for it."
            )
    for name in found:
        if found.count(name) > 1:
            raise FairmendError(
                f'the pipeline gives "{name}" to the model twice, which a spec cannot express. Keep one.'
            )
    if data is None:
        numbers = [column for column in columns if column.categories is None and column.indicates is None]
        unknown = [column.name for column in numbers if column.extent is None]
        if unknown:
            raise FairmendError(
                f"the range of {', '.join(unknown)} is unknown. Pass data: raw rows with these columns (--data)."
            )
    outcome = None if label is None else label.column
    left_out = tuple((name, "the pipeline drops it") for name in names if name not in (*found, outcome))
    features = [
        DraftFeature(replace(indicator_of(column.indicates), scale=scale_of(column)), column.notes)
        if column.indicates is not None
        else _draft_feature(column, None if data is None else _raw_values(data, column.name), column.name in wanted)
        for column in columns
    ]
    return Draft(tuple(features), label, left_out=left_out, claim=claim or Claim())


def transformed(transformer: Any, data: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Return what the fitted preprocessing gives the model (rows, columns), and the names of its columns."""
    preprocessing = strip_model(_take_threshold(transformer, None)[0])
    names = raw_column_names(preprocessing, list(data.columns))
    missing = [name for name in names if name not in data.columns]
    if missing:
        raise FairmendError(f'the pipeline reads "{missing[0]}", which is not a column of the data')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = preprocessing.transform(data[names])
        columns = [str(name) for name in preprocessing.get_feature_names_out()]
    except Exception as error:  # a step of someone else's can fail in any way
        raise FairmendError(f"the pipeline cannot transform the data ({_reason(error)})") from error
    matrix = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        raise FairmendError(f"the pipeline gives no finite number in row {bad[0][0]}, column {columns[bad[0][1]]!r}")
    return matrix, columns


def _take_threshold(transformer: Any, label: Label | None) -> tuple[Any, Label | None]:
    """Return what is inside of a classifier with a threshold, or ends in one, and the label with its threshold."""
    decided = open_threshold_classifier(transformer)
    if decided is not None:
        transformer = decided.estimator
    elif type(transformer).__name__ == "Pipeline" and transformer.steps:
        decided = open_threshold_classifier(transformer.steps[-1][1])
        if decided is not None and hasattr(decided.estimator, "steps"):
            raise FairmendError(
                f"the pipeline ends in a {decided.name} around another pipeline, which a spec cannot express. Put all "
                "steps into one pipeline."
            )
    if decided is None or decided.threshold == (0.5 if label is None else label.threshold):
        return transformer, label
    if label is None:
        raise FairmendError(
            f"the {decided.name} decides at the threshold {decided.threshold:g}, which a spec says in its label. Pass "
            "label, with the column of the outcome and its positive value."
        )
    if label.threshold != 0.5:
        raise FairmendError(
            f"the {decided.name} decides at the threshold {decided.threshold:g}, but the label at {label.threshold:g}. "
            "Give one threshold."
        )
    return transformer, replace(label, threshold=decided.threshold)


def _inputs(data: pd.DataFrame, label: Label | None) -> list[Any]:
    return [name for name in data.columns if label is None or name != label.column]


def _raw_values(data: pd.DataFrame, name: str) -> pd.Series[Any]:
    require_columns([name], list(data.columns), "data")
    values = data[name]
    if values.ndim != 1:
        raise FairmendError(f'the data has several columns "{name}". Keep one.')
    return values


def _draft_feature(column: TransformedColumn, raw: pd.Series[Any] | None, protected: bool) -> DraftFeature:
    if column.categories is not None:
        feature = Feature(
            column.name,
            "categorical",
            categories=column.categories,
            encoding="one-hot" if column.one_hot else "ordinal",
            scale=scale_of(column),
            protected=protected,
            dropped=column.dropped,
            missing=column.missing,
        )
        return DraftFeature(feature, column.notes)
    values = None if raw is None else _numbers(raw, column.name)
    kind, (low, high), missing, notes = _extent(column, values, gaps=raw is not None and bool(raw.isna().any()))
    feature = Feature(
        column.name, kind, range=(low, high), scale=scale_of(column), protected=protected, missing=missing
    )
    return DraftFeature(feature, (*column.notes, *notes))


def _numbers(raw: pd.Series[Any], name: str) -> np.ndarray:
    import pandas as pd

    plain = raw.astype(object) if isinstance(raw.dtype, pd.CategoricalDtype) else raw
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(np.isnan(values) & raw.notna().to_numpy(bool))
    if bad.size:
        raise FairmendError(
            f'column "{name}", row {bad[0]}: "{raw.iloc[bad[0]]}" is not a number, and the pipeline does not encode '
            "the column. Encode it (OneHotEncoder, OrdinalEncoder), or drop it."
        )
    return np.asarray(values[~np.isnan(values)])


def _extent(
    column: TransformedColumn, values: np.ndarray | None, gaps: bool
) -> tuple[str, tuple[float, float], float | None, tuple[str, ...]]:
    """Return the kind, the range and the replacement for missing values of a numeric column, with notes."""
    notes: tuple[str, ...] = ()
    if values is not None and len(values):
        if not np.isfinite(values).all():
            raise FairmendError(f'column "{column.name}" has infinite values. Correct them.')
        ends, whole = (float(values.min()), float(values.max())), bool((values == np.rint(values)).all())
        notes += ("range: the lowest and highest value in the data; widen it to all possible values",)
    elif column.extent is not None:
        ends, whole = column.extent, False
        notes += ("range: what MinMaxScaler was fitted on; widen it to all possible values",)
    else:
        raise FairmendError(f'column "{column.name}" has no values. Pass data that has some.')
    if column.clipped and column.extent is not None:
        cut = max(ends[0], column.extent[0]), min(ends[1], column.extent[1])
        if cut != ends:
            raise FairmendError(
                f'MinMaxScaler(clip=True) clips "{column.name}" to {column.extent[0]:g} to {column.extent[1]:g}, but '
                f"the data ranges from {ends[0]:g} to {ends[1]:g}. A spec cannot express clipping. Use clip=False."
            )
        notes += ("range: do not widen it beyond what MinMaxScaler(clip=True) was fitted on, where it clips values",)
    missing = None if column.missing is None else float(column.missing)
    if missing is not None:
        if not math.isfinite(missing):
            raise FairmendError(f'a missing "{column.name}" is replaced by {missing}. Fill in a finite number.')
        if whole and not missing.is_integer():
            if gaps:
                whole = False
                notes += (f"continuous: missing values become {missing:g}, which is not a whole number",)
            else:
                missing = None
                notes += ("no value is missing in the data, so a missing value is an error",)
        if missing is not None:
            ends = min(ends[0], missing), max(ends[1], missing)
    kind, reason = guess_kind(*ends, whole)
    return kind, ends, missing, (*notes, *([reason] if whole and kind == "continuous" else []))


def scale_of(column: TransformedColumn) -> dict[str, float] | None:
    """Return the scale of a column after the steps; None if it is not scaled."""
    if (column.offset, column.factor) == (0.0, 1.0):
        return None
    low, high = column.extent or (math.nan, math.nan)
    # 1 / (1 / x) may differ from x by a rounding error; the scaler itself started from the ends.
    if column.offset == low and math.isclose(column.factor, high - low, rel_tol=1e-14):
        return {"min": low, "max": high}
    return {"mean": column.offset, "std": column.factor}


def read_pipeline(path: Path, trust_pickle: bool = False) -> tuple[Any, list[str]]:
    """Return the object in a .skops file or a trusted pickle, and warnings about library versions."""
    suffix = path.suffix.lower()
    if suffix not in (".skops", *_PICKLES):
        raise FairmendError(
            f"{path}: not a pipeline file. Pass a .skops, {', '.join(_PICKLES[:-1])} or {_PICKLES[-1]} file."
        )
    if path.is_dir():
        raise FairmendError(f"{path}: this is a folder. Pass the pipeline file in it.")
    if not path.exists():
        raise FairmendError(f"{path}: no such file")
    if suffix in _PICKLES and not trust_pickle:
        raise FairmendError(
            f"{path}: reading a {suffix} file can run any code, so fairmend does not open it. Save the pipeline with "
            'skops instead: skops.io.dump(pipeline, "pipeline.skops"). Or pass --trust-pickle if you created the file '
            "yourself."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _read_skops(path) if suffix == ".skops" else _read_pickle(path)
    return found, [str(warning.message) for warning in caught if "ersion" in str(warning.message)]


def _read_skops(path: Path) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise FairmendError(f'{path}: reading .skops files needs skops: pip install "fairmend[sklearn]"') from error
    try:
        # skops itself trusts the types of scikit-learn, NumPy and SciPy, and plain Python types.
        asked = set(io.get_untrusted_types(file=path))
        unknown = sorted(asked - _TRUSTED)
        if unknown and all(name.startswith("sklearn.") for name in unknown):
            raise FairmendError(
                f"{path}: skops does not take {', '.join(unknown)} from a file that may be forged. If you created it "
                "yourself, save the pipeline with joblib, and pass --trust-pickle; or export it to ONNX."
            )
        if unknown:
            raise FairmendError(
                f"{path}: contains {', '.join(unknown)}, which is not part of scikit-learn or NumPy and is not loaded. "
                "Save only the preprocessing, without the model or your own classes."
            )
        return io.load(path, trusted=sorted(asked))
    except FairmendError:
        raise
    except Exception as error:  # a damaged or forged archive can cause any error
        raise FairmendError(f"{path}: not a readable .skops file ({_reason(error)}). Save it again.") from error


def _read_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle can fail in any way
        raise FairmendError(
            f"{path}: cannot be read ({_reason(error)}). Save it again, preferably with skops."
        ) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


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
