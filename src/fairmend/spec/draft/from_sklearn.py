"""Draft a spec from a fitted scikit-learn pipeline: the spec encodes each column as the pipeline does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.spec.claim import Claim
from fairmend.spec.draft.draft import Draft, DraftFeature, require_columns
from fairmend.spec.draft.guess_encoding import indicator_of
from fairmend.spec.draft.guess_feature import guess_kind
from fairmend.spec.draft.pipeline import apply_transformer, raw_column_names, strip_model
from fairmend.spec.draft.steps import TransformedColumn
from fairmend.spec.features import Feature, Label

if TYPE_CHECKING:
    import pandas as pd


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
