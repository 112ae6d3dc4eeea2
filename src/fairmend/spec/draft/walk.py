"""Follow columns through a fitted scikit-learn pipeline, whatever is nested in it, in the order of its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmend.errors import FairmendError
from fairmend.spec.draft.steps import (
    WORKS,
    Step,
    Track,
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


def walk(transformer: Any, tracks: Sequence[Track]) -> list[Track]:
    """Return the tracks after a fitted transformer, one for each column of it that is left, in its order."""
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return list(tracks)
    if isinstance(transformer, str) and transformer == "drop":
        return []
    name = _name(transformer)
    if name == "Pipeline":
        found = list(tracks)
        for _, step in transformer.steps:
            found = walk(step, found)
        return found
    if name == "ColumnTransformer":
        return _walk_columns(transformer, tracks)
    if name == "FunctionTransformer" and transformer.func is None:
        return list(tracks)
    if name not in _STEPS:
        raise FairmendError(f"the pipeline has a {type(transformer).__name__}, which a spec cannot express; {WORKS}")
    fitted_on = getattr(transformer, "n_features_in_", None)
    if fitted_on is None:
        raise FairmendError(f"the pipeline's {name} is not fitted; fit the pipeline before it is read")
    width = sum(track.width for track in tracks)
    if any(track.width != 1 for track in tracks) and name in ("OneHotEncoder", "OrdinalEncoder", "SimpleImputer"):
        raise FairmendError(f"{name} comes after a OneHotEncoder, which a spec cannot say; put it first")
    if fitted_on != width:
        raise FairmendError(f"{name} was fitted on {fitted_on} columns, and {width} reach it; fit the pipeline anew")
    if any(track.width != 1 for track in tracks):
        # The only steps that are left here are scalers; the first one-hot group says what is wrong.
        next(track for track in tracks if track.one_hot).scaled(0.0, 1.0, name)
    return _STEPS[name](transformer, tracks)


def without_model(pipeline: Any) -> Any:
    """Return what comes before the model in a pipeline; anything else as it is."""
    last = pipeline.steps[-1][1] if _name(pipeline) == "Pipeline" and pipeline.steps else None
    if hasattr(last, "predict") and not hasattr(last, "transform"):
        if len(pipeline.steps) == 1:
            raise FairmendError("the pipeline holds a model and nothing before it; a spec from data is what you need")
        return pipeline[:-1]
    return pipeline


def input_names(transformer: Any, columns: Sequence[Any] | None) -> list[str]:
    """Return the names of the raw columns: those it was fitted on, those of the data, or x0, x1, ..."""
    count = _n_features(transformer)
    names = getattr(transformer, "feature_names_in_", None)
    if names is None and _name(transformer) == "Pipeline":
        names = getattr(transformer.steps[0][1], "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if columns is not None and len(columns) == count:
        return [str(name) for name in columns]
    return [f"x{i}" for i in range(count)]


def _name(transformer: Any) -> str:
    """Return the class of scikit-learn that it is: a class of another package may do anything under any name."""
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
                f"cannot read a spec from {kind}; give a fitted ColumnTransformer or Pipeline"
            ) from error
        raise FairmendError(f"the {kind} is not fitted; fit it before it is read") from error
    return int(count)


def _walk_columns(transformer: Any, tracks: Sequence[Track]) -> list[Track]:
    if not hasattr(transformer, "transformers_"):
        raise FairmendError("the ColumnTransformer is not fitted; fit it before it is read")
    if any(track.width != 1 for track in tracks):
        raise FairmendError("a ColumnTransformer comes after a OneHotEncoder, which a spec cannot say; make one of two")
    if transformer.n_features_in_ != len(tracks):
        raise FairmendError(
            f"the ColumnTransformer was fitted on {transformer.n_features_in_} columns, and {len(tracks)} reach it; "
            "fit the pipeline anew"
        )
    weights = transformer.transformer_weights or {}
    names = [str(name) for name in getattr(transformer, "feature_names_in_", ())]
    found: list[Track] = []
    for name, step, columns in transformer.transformers_:
        chosen = [tracks[i] for i in _places(columns, names, len(tracks), name)]
        if chosen:
            after = walk(step, chosen)
            weight = float(weights.get(name, 1.0))
            found += (
                after if weight == 1 else [track.scaled(0.0, 1 / weight, f"the weight of {name}") for track in after]
            )
    return found


def _places(columns: Any, names: Sequence[str], count: int, step: str) -> list[int]:
    """Return the numbers of the columns that a ColumnTransformer names in one of its many ways."""
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
            raise FairmendError(f'{step} of the ColumnTransformer names "{unknown[0]}", which it was not fitted on')
        return [names.index(entry) for entry in listed]
    return [range(count)[int(entry)] for entry in listed]
