"""Apply a fitted scikit-learn pipeline to columns: nested pipelines and transformers, in the order of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.spec.draft.steps import (
    SUPPORTED,
    Step,
    TransformedColumn,
    apply_imputer,
    apply_min_max,
    apply_one_hot,
    apply_ordinal,
    apply_scaler,
)

_STEPS: dict[str, Step] = {
    "OneHotEncoder": apply_one_hot,
    "OrdinalEncoder": apply_ordinal,
    "StandardScaler": apply_scaler,
    "MaxAbsScaler": apply_scaler,
    "RobustScaler": apply_scaler,
    "MinMaxScaler": apply_min_max,
    "SimpleImputer": apply_imputer,
}


def apply_transformer(transformer: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Return the columns after a fitted transformer, in the order of its output."""
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return list(columns)
    if isinstance(transformer, str) and transformer == "drop":
        return []
    name = _name(transformer)
    if name == "Pipeline":
        found = list(columns)
        for _, step in transformer.steps:
            found = apply_transformer(step, found)
        return found
    if name == "ColumnTransformer":
        return _apply_column_transformer(transformer, columns)
    if name == "FunctionTransformer" and transformer.func is None:
        return list(columns)
    if name not in _STEPS:
        raise FairmendError(
            f"the pipeline has a {type(transformer).__name__}, which a spec cannot express. {SUPPORTED}"
        )
    fitted_on = getattr(transformer, "n_features_in_", None)
    if fitted_on is None:
        raise FairmendError(f"the pipeline's {name} is not fitted. Fit the pipeline first.")
    width = sum(column.width for column in columns)
    if any(column.width != 1 for column in columns) and name in ("OneHotEncoder", "OrdinalEncoder", "SimpleImputer"):
        raise FairmendError(f"{name} comes after a OneHotEncoder, which a spec cannot express. Put it first.")
    if fitted_on != width:
        raise FairmendError(f"{name} was fitted on {fitted_on} columns but gets {width}. Fit the pipeline again.")
    if any(column.width != 1 for column in columns):
        # Only scalers remain here. The first one-hot group raises the error.
        next(column for column in columns if column.one_hot).scaled(0.0, 1.0, name)
    return _STEPS[name](transformer, columns)


def strip_model(pipeline: Any) -> Any:
    """Return the steps before the model of a pipeline; return anything else unchanged."""
    if hasattr(pipeline, "best_estimator_"):
        raise FairmendError(f"cannot read a spec from {type(pipeline).__name__}. Pass its best_estimator_.")
    last = pipeline.steps[-1][1] if _name(pipeline) == "Pipeline" and pipeline.steps else None
    if hasattr(last, "predict") and not hasattr(last, "transform"):
        if len(pipeline.steps) == 1:
            raise FairmendError(
                "the pipeline contains only a model and nothing before it. Use Spec.from_data (fairmend spec init)."
            )
        return pipeline[:-1]
    return pipeline


def raw_column_names(transformer: Any, data_columns: Sequence[Any] | None) -> list[str]:
    """Return the names of the raw columns: from fitting, from the data, or x0, x1, ..."""
    count = _n_features(transformer)
    names = getattr(transformer, "feature_names_in_", None)
    if names is None and _name(transformer) == "Pipeline":
        names = getattr(transformer.steps[0][1], "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if data_columns is not None and len(data_columns) == count:
        return [str(name) for name in data_columns]
    return [f"x{i}" for i in range(count)]


def _name(transformer: Any) -> str:
    """Return the class name of a scikit-learn object; other packages may use the same name, so theirs are qualified."""
    kind = type(transformer)
    own = kind.__module__.split(".")[0] == "sklearn"
    return kind.__name__ if own else f"{kind.__module__}.{kind.__name__}"


def _n_features(transformer: Any) -> int:
    try:
        count = transformer.n_features_in_
    except AttributeError as error:
        kind = type(transformer).__name__
        if not hasattr(transformer, "fit"):
            raise FairmendError(
                f"cannot read a spec from {kind}. Pass a fitted ColumnTransformer or Pipeline."
            ) from error
        raise FairmendError(f"the {kind} is not fitted. Fit it first.") from error
    return int(count)


def _apply_column_transformer(transformer: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Return the columns after a ColumnTransformer, in the order of its transformers."""
    if not hasattr(transformer, "transformers_"):
        raise FairmendError("the ColumnTransformer is not fitted. Fit it first.")
    if any(column.width != 1 for column in columns):
        raise FairmendError(
            "a ColumnTransformer comes after a OneHotEncoder, which a spec cannot express. Use one ColumnTransformer."
        )
    if transformer.n_features_in_ != len(columns):
        raise FairmendError(
            f"the ColumnTransformer was fitted on {transformer.n_features_in_} columns but gets {len(columns)}. "
            "Fit the pipeline again."
        )
    weights = transformer.transformer_weights or {}
    names = [str(name) for name in getattr(transformer, "feature_names_in_", ())]
    found: list[TransformedColumn] = []
    for name, step, selected in transformer.transformers_:
        chosen = [columns[i] for i in _positions(selected, names, len(columns), name)]
        if chosen:
            after = apply_transformer(step, chosen)
            weight = float(weights.get(name, 1.0))
            found += (
                after if weight == 1 else [column.scaled(0.0, 1 / weight, f"the weight of {name}") for column in after]
            )
    return found


def _positions(columns: Any, names: Sequence[str], count: int, step: str) -> list[int]:
    """Return the positions of columns that a ColumnTransformer selects by name, position, slice or mask."""
    if isinstance(columns, str | int | np.integer) and not isinstance(columns, bool):
        columns = [columns]
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):  # by name, both ends included
            start = 0 if columns.start is None else names.index(columns.start)
            stop = count if columns.stop is None else names.index(columns.stop) + 1
            return list(range(count)[start : stop : columns.step])
        return list(range(count)[columns])
    listed = list(columns)
    if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
        return [int(place) for place in np.flatnonzero(listed)]
    if all(isinstance(entry, str) for entry in listed):
        unknown = [entry for entry in listed if entry not in names]
        if unknown:
            raise FairmendError(
                f'step {step} of the ColumnTransformer selects "{unknown[0]}", which it was not fitted on'
            )
        return [names.index(entry) for entry in listed]
    return [range(count)[int(entry)] for entry in listed]
