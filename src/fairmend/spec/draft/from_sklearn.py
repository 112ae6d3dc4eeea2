"""A spec from a fitted scikit-learn pipeline: what it does to each column is what the spec says of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.errors import FairmendError
from fairmend.spec.draft.draft import Draft, Part, known_columns
from fairmend.spec.draft.steps import Track
from fairmend.spec.draft.walk import input_names, walk, without_model
from fairmend.spec.features import Feature, Label

if TYPE_CHECKING:
    import pandas as pd


def draft_from_sklearn(
    transformer: Any,
    protected: Iterable[str],
    label: Label | None = None,
    data: pd.DataFrame | None = None,
) -> Draft:
    """Return the spec of what a fitted ColumnTransformer, or a Pipeline with one, gives the model.

    `data` are raw rows, which say the ranges of numbers. Without them only a MinMaxScaler knows any.
    """
    before = without_model(transformer)
    names = input_names(before, None if data is None else _inputs(data, label))
    wanted = known_columns([protected] if isinstance(protected, str) else protected, names, "protected")
    if not wanted:
        raise FairmendError("no protected column is named; name at least one, such as gender or age")
    tracks = walk(before, [Track(name) for name in names])
    found = [track.name for track in tracks]
    for name in wanted:
        if name not in found:
            raise FairmendError(
                f'the pipeline drops "{name}", so the model does not read it and already ignores it; '
                "protect what the model does read (what goes with it, a proxy, may be among that)"
            )
    for name in found:
        if found.count(name) > 1:
            raise FairmendError(f'the pipeline hands "{name}" to the model twice, which a spec cannot say; keep one')
    if data is None:
        unknown = [track.name for track in tracks if track.categories is None and track.extent is None]
        if unknown:
            raise FairmendError(
                f"nothing says the range of {', '.join(unknown)}; give data, raw rows with these columns (--data)"
            )
    outcome = None if label is None else label.column
    left_out = tuple((name, "the pipeline drops it") for name in names if name not in (*found, outcome))
    parts = [
        _part(track, None if data is None else _column(data, track.name), track.name in wanted) for track in tracks
    ]
    return Draft(tuple(parts), label, left_out=left_out)


def _inputs(data: pd.DataFrame, label: Label | None) -> list[Any]:
    return [name for name in data.columns if label is None or name != label.column]


def _column(data: pd.DataFrame, name: str) -> pd.Series[Any]:
    known_columns([name], list(data.columns), "data")
    column = data[name]
    if column.ndim != 1:
        raise FairmendError(f'the data has several columns "{name}"; keep one')
    return column


def _part(track: Track, column: pd.Series[Any] | None, protected: bool) -> Part:
    if track.categories is not None:
        feature = Feature(
            track.name,
            "categorical",
            categories=track.categories,
            encoding="one-hot" if track.one_hot else "ordinal",
            scale=_scale(track),
            protected=protected,
            dropped=track.dropped,
            missing=track.missing,
        )
        return Part(feature, track.notes)
    values = None if column is None else _numbers(column, track.name)
    kind, (low, high), missing, notes = _extent(track, values, gaps=column is not None and bool(column.isna().any()))
    feature = Feature(track.name, kind, range=(low, high), scale=_scale(track), protected=protected, missing=missing)
    return Part(feature, (*track.notes, *notes))


def _numbers(column: pd.Series[Any], name: str) -> np.ndarray:
    import pandas as pd

    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(np.isnan(values) & column.notna().to_numpy(bool))
    if bad.size:
        raise FairmendError(
            f'column "{name}", row {bad[0]}: "{column.iloc[bad[0]]}" is not a number, and the pipeline does not encode '
            "the column; encode it (OneHotEncoder, OrdinalEncoder) or drop it"
        )
    return np.asarray(values[~np.isnan(values)])


def _extent(
    track: Track, values: np.ndarray | None, gaps: bool
) -> tuple[str, tuple[float, float], float | None, tuple[str, ...]]:
    """Return kind, range and what stands in for a missing value of a number, with remarks."""
    notes: tuple[str, ...] = ()
    if values is not None and len(values):
        if not np.isfinite(values).all():
            raise FairmendError(f'column "{track.name}" holds infinite values; correct them')
        ends, whole = (float(values.min()), float(values.max())), bool((values == np.rint(values)).all())
        notes += ("range: what the data holds; widen it to what is possible",)
    elif track.extent is not None:
        ends, whole = track.extent, False
        notes += ("range: what MinMaxScaler was fitted on; widen it to what is possible",)
    else:
        raise FairmendError(f'column "{track.name}" holds no values; give data that has some')
    if track.clipped and track.extent is not None:
        cut = max(ends[0], track.extent[0]), min(ends[1], track.extent[1])
        if cut != ends:
            raise FairmendError(
                f'MinMaxScaler(clip=True) cuts "{track.name}" off at {track.extent[0]:g} and {track.extent[1]:g}, and '
                f"the data goes from {ends[0]:g} to {ends[1]:g}; a spec cannot say that: use clip=False"
            )
        notes += ("range: not beyond what MinMaxScaler(clip=True) was fitted on; it cuts values off there",)
    missing = None if track.missing is None else float(track.missing)
    if missing is not None:
        if not math.isfinite(missing):
            raise FairmendError(f'a missing "{track.name}" is filled in by {missing}; fill in a finite number')
        if whole and not missing.is_integer():
            if gaps:
                whole = False
                notes += (f"continuous, as missing values become {missing:g}, which is not whole",)
            else:
                missing = None
                notes += ("no value is missing in the data, so a missing one is refused",)
        if missing is not None:
            ends = min(ends[0], missing), max(ends[1], missing)
    return "integer" if whole else "continuous", ends, missing, notes


def _scale(track: Track) -> dict[str, float] | None:
    if (track.offset, track.factor) == (0.0, 1.0):
        return None
    low, high = track.extent or (math.nan, math.nan)
    # 1 / (1 / x) may be off by a rounding; the ends are what the scaler itself started from.
    if track.offset == low and math.isclose(track.factor, high - low, rel_tol=1e-14):
        return {"min": low, "max": high}
    return {"mean": track.offset, "std": track.factor}


def labelled(column: str | None, positive: object, data: pd.DataFrame | None) -> Label | None:
    """Return the label by its column and positive value, which the data may have to tell."""
    if column is None:
        return None
    from fairmend.spec.draft.labels import guess_label

    if data is not None:
        return guess_label(data, column, positive)[0]
    return Label(column, "1" if positive is None else str(positive))
