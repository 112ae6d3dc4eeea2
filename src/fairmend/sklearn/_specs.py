"""The spec of a classifier: given by the user, guessed from X, or read from a pipeline; and X encoded with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import FloatArray
from fairmend.sklearn._errors import InputError
from fairmend.spec import Feature, Spec
from fairmend.spec.draft.draft import require_columns
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.read_values import is_frame

ProtectedColumns = Sequence[str | int] | str | int


def as_frame(X: Any) -> pd.DataFrame:
    """Return X as a data frame with text as column names; the columns of an array are x0, x1, ..."""
    if is_frame(X):
        return X.rename(columns=str)
    values = np.asarray(X)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])


def _protected_names(protected: ProtectedColumns, columns: Sequence[str]) -> list[str]:
    """Return the names of the protected columns, given by name or position."""
    listed = [protected] if isinstance(protected, str | int | np.integer) else list(protected)
    for entry in listed:
        if isinstance(entry, int | np.integer) and not -len(columns) <= entry < len(columns):
            raise InputError(f"protected column {entry}: X has only the columns 0 to {len(columns) - 1}")
    found = [columns[entry] if isinstance(entry, int | np.integer) else str(entry) for entry in listed]
    return require_columns(found, columns, "protected")


def guess_spec(frame: pd.DataFrame, protected: ProtectedColumns, frozen: bool) -> Spec:
    """Return a spec guessed from X: numbers standardized, text one-hot; a frozen network reads X unchanged."""
    texts = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    if frozen and texts:
        raise InputError(f'it is unknown how the frozen network reads "{texts[0]}". Pass its spec or its pipeline.')
    names = _protected_names(protected, [str(name) for name in frame.columns])
    return draft_from_data(frame, names, scale="none" if frozen else "standard", leave_out=False).spec


def spec_of_pipeline(preprocessing: Any, X: Any, given: Spec | None, protected: ProtectedColumns | None) -> Spec:
    """Return the given spec, or the one read from a fitted pipeline; raise an error if they encode X differently.

    The pipeline is read even if a spec is given: a step that no spec can express, such as an imputer that uses other
    columns, may do nothing to this X and still let protected columns through later.
    """
    frame = as_frame(X)
    if given is not None:
        names = [feature.name for feature in given.protected]
    else:
        assert protected is not None
        names = _protected_names(protected, [str(name) for name in frame.columns])
    read = Spec.from_sklearn(preprocessing, names, data=frame)
    spec = read if given is None else given
    if {f.name: f.missing for f in read.features} != {f.name: f.missing for f in spec.features}:
        raise InputError(
            "the spec and the pipeline replace missing values differently. Use the spec of the pipeline "
            "(Spec.from_sklearn)."
        )
    ours, theirs = spec.encode(frame, np.float64), transform(preprocessing, X, np.float64)
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-5, atol=1e-6):
        raise InputError(
            "the spec and the pipeline encode X differently. Use the spec of the pipeline (Spec.from_sklearn), or pass "
            "the network without the pipeline."
        )
    return spec


def transform(preprocessing: Any, X: Any, dtype: npt.DTypeLike) -> FloatArray:
    """Return what a fitted pipeline gives the network, as a dense array."""
    columns = preprocessing.transform(X)
    return np.asarray(columns.toarray() if hasattr(columns, "toarray") else columns, dtype=dtype)


def encode_any_value(spec: Spec, frame: pd.DataFrame, dtype: npt.DTypeLike) -> FloatArray:
    """Return the frame encoded by the spec, including numbers beyond its ranges."""
    return Spec([_widened(feature, frame) for feature in spec.features]).encode(frame, dtype)


def _widened(feature: Feature, frame: pd.DataFrame) -> Feature:
    """Return the feature with a range that contains all numbers in the frame."""
    if feature.categories or feature.name not in frame.columns:
        return feature
    values = pd.to_numeric(frame[feature.name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    low, high = feature.bounds
    ends = (float(min(low, values.min())), float(max(high, values.max()))) if values.size else (low, high)
    missing = None if feature.missing is None else float(feature.missing)
    return replace(feature, kind="continuous", range=ends, tolerance=0.0, missing=missing)
