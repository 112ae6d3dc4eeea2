"""Feature, Label, Spec: what the input columns mean and which people count as similar.

A *value* is what the user's data holds (34, "female"); its *encoding* is what the network reads. All
conversions between the two are here; the neighbourhoods that follow from them are in `neighbourhood`.
"""

from __future__ import annotations

import difflib
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import tomlkit
import tomlkit.exceptions
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fairmend.errors import FairmendError
from fairmend.neighbourhood import FloatArray, Regions, build_regions, count_points, stream_points

KINDS = ("continuous", "integer", "categorical")
ENCODINGS = ("ordinal", "one-hot")
SCALES = (("mean", "std"), ("min", "max"))

_EXACT = 2.0**53  # whole numbers up to here are exact in float64
_SLACK = 4 * float(
    np.finfo(np.float32).eps
)  # what scaling in float32 may be off by, relative to its operands
_TINY = float(np.finfo(np.float32).tiny)  # below it, rounding errors are no longer relative


@dataclass(frozen=True, repr=False)
class Feature:
    """One input feature: its values, how they are encoded, and how far similar people may differ in it.

    Attributes
    ----------
    name : the column in the user's data
    kind : "continuous", "integer" or "categorical"
    range : lowest and highest value; numeric kinds only
    categories : the values as text, in the order of their codes; categorical only
    encoding : "ordinal" (one column) or "one-hot" (one column per category; categorical only)
    scale : {"mean", "std"} or {"min", "max"}; the network reads (v - mean) / std or (v - min) / (max - min)
    protected : similar people may differ in it at will
    tolerance : similar people may differ in it by this much, in the feature's own units
    """

    name: str
    kind: str
    range: tuple[float, float] | None = None
    categories: tuple[str, ...] | None = None
    encoding: str = "ordinal"
    scale: Mapping[str, float] | None = field(default=None, hash=False)
    protected: bool = False
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Check everything, and bring numbers, tuples and categories into their one form."""
        for key, value in _checked(self).items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        """Only what was set."""
        shown = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Feature({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def one_hot(self) -> bool:
        """Whether it takes one column per category."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """How many columns the network reads for it."""
        return len(self.categories or ()) if self.one_hot else 1

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value; for a category, of its code."""
        return self.range if self.range is not None else (0, len(self.categories or ()) - 1)

    @property
    def reach(self) -> float:
        """How far a neighbour's value may lie from one's own, before the range cuts it off."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies(self) -> bool:
        """Whether neighbours can differ in it."""
        return self.reach > 0 and self.bounds[0] < self.bounds[1]

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the encoding of values (or codes); monotone, also in floating point."""
        offset, factor = _affine(self.scale)
        return (values - offset) / factor

    def unscaled(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the values (or codes) behind encoded x, as they are."""
        offset, factor = _affine(self.scale)
        with np.errstate(over="ignore"):  # infinity is out of range, and the caller says so
            return x.astype(np.float64) * factor + offset

    def nearest(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the possible values (or codes) nearest to those behind encoded x."""
        values = np.clip(self.unscaled(x), *self.bounds)
        return values if self.kind == "continuous" else np.rint(values)

    def slack(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far, in its own units, these values may be off when they were scaled in float32."""
        offset, factor = _affine(self.scale)
        return 2 * _SLACK * (np.abs(values) + abs(offset)) + _TINY * factor


@dataclass(frozen=True)
class Label:
    """Which column holds the outcome, and which of its values is the positive one."""

    column: str
    positive: str

    def __post_init__(self) -> None:
        """Hold the positive value as text, as it is compared."""
        if not isinstance(self.column, str) or not self.column:
            raise FairmendError(f"[label]: column must be the name of a column, got {self.column!r}")
        object.__setattr__(self, "positive", _text(self.positive, "[label]: positive"))


class Spec:
    """Which people count as similar: the features in the network's order, and the label.

    Parameters
    ----------
    features : Feature or dict, one per feature; at least one of them protected
    label : Label, dict or None
    """

    def __init__(
        self,
        features: Iterable[Feature | Mapping[str, Any]],
        label: Label | Mapping[str, Any] | None = None,
    ) -> None:
        """Check all of it here, so that every spec there is makes sense."""
        self._features = tuple(
            f if isinstance(f, Feature) else _build(Feature, f, _place(i, f)) for i, f in enumerate(features)
        )
        self._label = label if isinstance(label, Label) or label is None else _build(Label, label, "[label]")
        _check_together(self._features, self._label)
        ends = np.cumsum([f.width for f in self._features]).tolist()
        self._slices = {
            f.name: slice(end - f.width, end) for f, end in zip(self._features, ends, strict=True)
        }
        self._width = int(ends[-1])

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in the network's order."""
        return self._features

    @property
    def label(self) -> Label | None:
        """The label, where the spec names one."""
        return self._label

    @property
    def protected(self) -> list[Feature]:
        """The protected features."""
        return [f for f in self._features if f.protected]

    @property
    def width(self) -> int:
        """How many columns the network reads."""
        return self._width

    @property
    def column_names(self) -> list[str]:
        """A name for each column the network reads; "race=White" for one of a one-hot group."""
        return [
            name
            for f in self._features
            for name in ([f"{f.name}={c}" for c in f.categories or ()] if f.one_hot else [f.name])
        ]

    @property
    def finite(self) -> bool:
        """Whether every neighbourhood is a finite set: whatever varies is integer or categorical."""
        return all(f.kind != "continuous" for f in self._features if f.varies)

    def columns(self, name: str) -> slice:
        """Return where the feature lies among the columns the network reads."""
        if name not in self._slices:
            raise FairmendError(f'the spec has no feature "{name}"{_suggest(name, self._slices)}')
        return self._slices[name]

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same features and label."""
        return isinstance(other, Spec) and (self._features, self._label) == (other._features, other._label)

    def __hash__(self) -> int:
        """Agree with ==."""
        return hash((self._features, self._label))

    def __repr__(self) -> str:
        """What is protected, what has a tolerance, what the label is."""
        parts = [f"{len(self._features)} features in {self._width} columns"]
        parts.append("protected: " + ", ".join(f"{f.name} {_extent(f)}" for f in self.protected))
        near = [f"{f.name} ±{f.tolerance:g}" for f in self._features if f.tolerance]
        parts += ["tolerance: " + ", ".join(near)] if near else []
        parts += [f'label: {self._label.column} = "{self._label.positive}"'] if self._label else []
        return f"Spec({'; '.join(parts)})"

    # Files

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spec:
        """Return the spec in a mapping of the TOML form: {"label": {...}, "feature": [{...}, ...]}."""
        _check_keys(data, ("label", "feature"), "the spec")
        features = data.get("feature")
        if not isinstance(features, Sequence) or isinstance(features, str):
            raise FairmendError("the spec has no features; add one [[feature]] table for each input feature")
        return cls(features, data.get("label"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (JSON can hold it) from which `from_dict` makes an equal spec."""
        label = (
            {"label": {"column": self._label.column, "positive": self._label.positive}} if self._label else {}
        )
        return {**label, "feature": [_plain(f) for f in self._features]}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Spec:
        """Return the spec in a TOML file."""
        try:
            data = tomlkit.parse(Path(path).read_bytes().decode("utf-8-sig")).unwrap()
        except OSError as err:
            raise FairmendError(f"{path}: cannot read the spec ({err.strerror}); check the path") from err
        except UnicodeDecodeError as err:
            raise FairmendError(f"{path}: the spec is not UTF-8 text; save it as UTF-8") from err
        except tomlkit.exceptions.ParseError as err:
            raise FairmendError(
                f"{path}, line {err.line}: not valid TOML ({err}); correct that line"
            ) from err
        except tomlkit.exceptions.TOMLKitError as err:
            raise FairmendError(f"{path}: not valid TOML ({err})") from err
        try:
            return cls.from_dict(data)
        except FairmendError as err:
            raise FairmendError(f"{path}: {err}") from err

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spec as TOML; the file is replaced whole or not at all."""
        plain = self.to_dict()
        for table in plain["feature"]:
            if "scale" in table:  # inline, as people write it
                scale = tomlkit.inline_table()
                scale.update(table["scale"])
                table["scale"] = scale
        target = Path(path)
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            draft.write_bytes(tomlkit.dumps(plain).encode("utf-8"))
            os.replace(draft, target)
        except OSError as err:
            raise FairmendError(f"{path}: cannot write the spec ({err.strerror}); check the path") from err
        finally:
            draft.unlink(missing_ok=True)

    # Values and their encoding

    def encode(self, frame: pd.DataFrame, dtype: DTypeLike = np.float32) -> FloatArray:
        """Return a data frame as the network reads it (rows, width), ignoring columns that are no feature."""
        X = np.zeros((len(frame), self._width), dtype=_float_type(dtype))
        for f in self._features:
            series = _column(frame, f.name, f'feature "{f.name}"')
            values = _codes(f, series) if f.categories else _numbers(f, series)
            X[:, self._slices[f.name]] = _encoded(f, values)
        return X

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return encoded inputs (rows, width) in the user's values, each the nearest its feature can take."""
        matrix = self._matrix(X)
        return pd.DataFrame({f.name: _decoded(f, matrix[:, self._slices[f.name]]) for f in self._features})

    def labels(self, frame: pd.DataFrame) -> NDArray[np.int8]:
        """Return 1 for each row whose label is the positive one, else 0 (rows,)."""
        if self._label is None:
            raise FairmendError("the spec names no label; add [label] with column and positive")
        series = _column(frame, self._label.column, "the label")
        codes, uniques = pd.factorize(series)
        _refuse("label", codes < 0, lambda row: "the value is missing; fill it in or drop the row")
        positive = np.array([_as_text(value) == self._label.positive for value in uniques], dtype=np.int8)
        return positive[codes]

    def as_inputs(self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32) -> FloatArray:
        """Return X as the network reads it (rows, width): a data frame is encoded, an array is checked."""
        if isinstance(X, pd.DataFrame):
            matrix = self.encode(X, dtype)
        else:
            matrix = self._matrix(X)
            for f in self._features:
                _check_encoded(f, matrix[:, self._slices[f.name]])
        if len(matrix) == 0:
            raise FairmendError("X has no rows; give at least one input")
        return np.ascontiguousarray(matrix, dtype=_float_type(dtype))

    def sample_inputs(self, n: int, rng: np.random.Generator, dtype: DTypeLike = np.float32) -> FloatArray:
        """Return n inputs (n, width), every feature uniform over its values and independent of the others."""
        X = np.zeros((n, self._width), dtype=_float_type(dtype))
        for f in self._features:
            lo, hi = f.bounds
            continuous = f.kind == "continuous"
            values = (
                rng.uniform(lo, hi, n) if continuous else rng.integers(int(lo), int(hi), n, endpoint=True)
            )
            X[:, self._slices[f.name]] = _encoded(f, values.astype(np.float64))
        return X

    def describe_pair(self, x: ArrayLike, x2: ArrayLike) -> str:
        """Return in words how x2 differs from x, both encoded (width,)."""
        pair = self._matrix(np.stack([np.asarray(x), np.asarray(x2)]))
        words = ["the same applicant"]
        for f in self._features:
            before, after = _decoded(f, pair[:, self._slices[f.name]]).tolist()
            if before != after:
                words.append(f"{f.name} {_differing(after, before)} instead of {_differing(before, after)}")
        return ", ".join(words) if len(words) > 1 else "the same applicant, no difference"

    def _matrix(self, X: ArrayLike) -> FloatArray:
        """Return X as a finite array (rows, width), or say what is wrong with it."""
        try:
            matrix = np.asarray(X)
            matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
        except (TypeError, ValueError, RuntimeError) as err:
            raise FairmendError(
                f"X is not an array of numbers ({err}); encode it, or pass a DataFrame"
            ) from err
        if matrix.ndim != 2 or matrix.shape[1] != self._width:
            raise FairmendError(
                f"X has shape {matrix.shape}, but the spec describes inputs of shape (rows, {self._width}); "
                "pass one row per input with these columns: " + ", ".join(self.column_names)
            )
        for f in self._features:
            bad = ~np.isfinite(matrix[:, self._slices[f.name]]).all(axis=1)
            _refuse(f'feature "{f.name}"', bad, lambda row: "not a finite number; fill it in or drop the row")
        return matrix

    # Neighbourhoods

    @property
    def _placed(self) -> list[tuple[Feature, slice]]:
        return [(f, self._slices[f.name]) for f in self._features]

    def regions(self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32) -> Regions:
        """Return the neighbourhoods of X as unions of boxes."""
        return build_regions(self._placed, self.as_inputs(X, dtype))

    def neighbourhood_sizes(self, X: pd.DataFrame | ArrayLike) -> NDArray[Any]:
        """Return the size of each neighbourhood (rows,): int64, or Python ints where one would overflow."""
        return count_points(self._placed, self.as_inputs(X))

    def points(
        self, X: pd.DataFrame | ArrayLike, batch: int = 65536, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Stream all points of all neighbourhoods, in order: rows (k,) and points (k, width), k <= batch."""
        return stream_points(self._placed, self.as_inputs(X, dtype), batch)


# What one feature does to a column


def _affine(scale: Mapping[str, float] | None) -> tuple[float, float]:
    """Return offset and factor of a scale: encoded = (value - offset) / factor."""
    if scale is None:
        return 0.0, 1.0
    return (scale["mean"], scale["std"]) if "mean" in scale else (scale["min"], scale["max"] - scale["min"])


def _numbers(feature: Feature, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column of the user's data as numbers (rows,), all of them possible values."""
    name, (lo, hi) = f'feature "{feature.name}"', feature.bounds
    _refuse(
        name, series.isna().to_numpy(bool), lambda row: "the value is missing; fill it in or drop the row"
    )
    plain = series.astype(object) if isinstance(series.dtype, pd.CategoricalDtype) else series
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse(
        name,
        np.isnan(values),
        lambda row: f'"{series.iloc[row]}" is not a number; correct it or drop the row',
    )
    if series.dtype == np.float32:  # 0.1 in float32 lies above 0.1
        nearest = np.clip(values, lo, hi)
        values = np.where(np.abs(values - nearest) <= feature.slack(nearest), nearest, values)
    _refuse(
        name,
        (values < lo) | (values > hi),
        lambda row: (
            f"{values[row]:.10g} is outside its range {_extent(feature)}; correct it or widen `range`"
        ),
    )
    if feature.kind == "integer":
        _refuse(
            name,
            values != np.rint(values),
            lambda row: (
                f'{values[row]:.10g} is not a whole number; correct it or declare kind = "continuous"'
            ),
        )
    return values


def _codes(feature: Feature, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column of the user's data as category codes (rows,)."""
    name, categories = f'feature "{feature.name}"', feature.categories or ()
    found, uniques = pd.factorize(series)
    _refuse(name, found < 0, lambda row: "the value is missing; fill it in or drop the row")
    known = {category: code for code, category in enumerate(categories)}
    codes = np.array([known.get(_as_text(value), -1) for value in uniques], dtype=np.float64)[found]
    _refuse(
        name,
        codes < 0,
        lambda row: (
            f'"{series.iloc[row]}" is not one of its categories'
            f"{_suggest(_as_text(series.iloc[row]), categories)}; correct it or add it to `categories`"
        ),
    )
    return codes


def _encoded(feature: Feature, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the encoded columns (rows, columns of the feature) of values or codes (rows,)."""
    if feature.one_hot:
        return np.eye(feature.width)[values.astype(np.int64)]
    return feature.scaled(values)[:, None]


def _decoded(feature: Feature, x: FloatArray) -> NDArray[Any]:
    """Return the user's values (rows,) nearest to encoded columns x (rows, columns of the feature)."""
    if feature.kind == "continuous":
        return feature.nearest(x[:, 0])
    values = x.argmax(axis=1) if feature.one_hot else feature.nearest(x[:, 0]).astype(np.int64)
    return np.array(feature.categories, dtype=object)[values] if feature.categories else values


def _check_encoded(feature: Feature, x: FloatArray) -> None:
    """Refuse encoded columns x (rows, columns of the feature) that no value of the feature gives."""
    name = f'feature "{feature.name}"'
    if feature.one_hot:
        good = ((x == 0) | (x == 1)).all(axis=1) & ((x == 1).sum(axis=1) == 1)
        _refuse(
            name,
            ~good,
            lambda row: f"its one-hot columns hold {x[row].tolist()}; exactly one of them must be 1",
        )
        return
    values, nearest = feature.unscaled(x[:, 0]), feature.nearest(x[:, 0])
    off = np.abs(values - nearest) > feature.slack(nearest)
    lo, hi = feature.bounds

    def problem(row: int) -> str:
        shown = f"{x[row, 0]:.10g}" + (f", which unscales to {values[row]:.10g}," if feature.scale else "")
        if lo <= values[row] <= hi:
            return f"{shown} is not the encoding of a whole number; check the encoding and `scale`"
        return f"{shown} is outside its range {lo:.10g} to {hi:.10g}; check the encoding, `scale` and `range`"

    _refuse(name, off, problem)


# Validation of what a spec says


def _checked(f: Feature) -> dict[str, Any]:
    """Return the fields of a feature in their one form, or say which is wrong."""
    if not isinstance(f.name, str) or not f.name.strip():
        raise FairmendError(f"a feature needs a name, got {f.name!r}; give the name of its column")
    where = f'feature "{f.name}"'
    for key, allowed in (("kind", KINDS), ("encoding", ENCODINGS)):
        value = getattr(f, key)
        if value not in allowed:
            hint = _suggest(str(value), allowed)
            raise FairmendError(f'{where}: {key} must be one of {", ".join(allowed)}, got "{value}"{hint}')
    if not isinstance(f.protected, bool | np.bool_):
        raise FairmendError(f"{where}: protected must be true or false, got {f.protected!r}")
    tolerance = _number(f.tolerance, f"{where}: tolerance")
    if tolerance < 0:
        raise FairmendError(f"{where}: tolerance must not be negative, got {tolerance:g}")
    if tolerance > 0 and f.protected:
        raise FairmendError(f"{where}: a protected feature varies over all its values; remove its tolerance")
    checked: dict[str, Any] = {"protected": bool(f.protected), "tolerance": tolerance}
    if f.kind == "categorical":
        if tolerance > 0:
            raise FairmendError(
                f"{where}: categories have no distance; remove its tolerance, or make it protected"
            )
        if f.range is not None:
            raise FairmendError(
                f"{where}: a categorical feature has categories, not a range; remove its range"
            )
        checked["categories"] = _checked_categories(f, where)
    else:
        if f.categories is not None or f.encoding == "one-hot":
            what = "categories" if f.categories is not None else 'encoding "one-hot"'
            raise FairmendError(
                f'{where}: {what} belongs to kind = "categorical"; remove it or change the kind'
            )
        checked["range"] = _checked_range(f, where)
    if f.scale is not None:
        checked["scale"] = _checked_scale(f, where)
    offset, factor = _affine(checked.get("scale"))
    with np.errstate(all="ignore"):
        lo, hi = checked.get("range") or (0, len(checked["categories"]))
        ends = np.array([(lo - offset) / factor, (hi - offset) / factor, hi - lo, factor])
        if not np.isfinite(ends.astype(np.float32)).all():
            raise FairmendError(f"{where}: its encoded values do not fit float32; check range and scale")
    return checked


def _checked_range(f: Feature, where: str) -> tuple[float, float]:
    """Return the range of a numeric feature."""
    ends = _listed(f.range)
    if ends is None or len(ends) != 2:
        raise FairmendError(f"{where}: a numeric feature needs range = [lowest, highest], got {f.range!r}")
    lo, hi = (_number(end, f"{where}: range") for end in ends)
    if lo > hi or (lo == hi and f.protected):
        need = "lowest < highest" if f.protected else "lowest <= highest"
        raise FairmendError(f"{where}: range needs {need}, got [{lo:g}, {hi:g}]")
    if f.kind == "continuous":
        return lo, hi
    if not (lo.is_integer() and hi.is_integer()) or max(-lo, hi) > _EXACT:
        raise FairmendError(
            f"{where}: the range of an integer feature needs whole numbers, got [{lo:g}, {hi:g}]"
        )
    return int(lo), int(hi)


def _checked_categories(f: Feature, where: str) -> tuple[str, ...]:
    """Return the categories as distinct texts."""
    categories = _listed(f.categories)
    if not categories:
        raise FairmendError(f"{where}: a categorical feature needs categories = [...], got {f.categories!r}")
    texts = tuple(_text(category, f"{where}: a category") for category in categories)
    for text in texts:
        if texts.count(text) > 1:
            raise FairmendError(f'{where}: category "{text}" is listed twice; remove one')
    if f.protected and len(texts) < 2:
        raise FairmendError(f"{where}: a protected feature needs at least two categories")
    return texts


def _checked_scale(f: Feature, where: str) -> dict[str, float]:
    """Return the scale as plain floats."""
    if f.one_hot:
        raise FairmendError(f"{where}: one-hot columns are 0 and 1 and have no scale; remove it")
    if not isinstance(f.scale, Mapping) or set(f.scale) not in map(set, SCALES):
        raise FairmendError(f"{where}: scale must be {{mean, std}} or {{min, max}}, got {f.scale!r}")
    keys = next(keys for keys in SCALES if keys[0] in f.scale)
    scale = {key: _number(f.scale[key], f"{where}: scale {key}") for key in keys}
    if not _affine(scale)[1] > 0:
        raise FairmendError(
            f"{where}: scale needs {'std > 0' if 'std' in scale else 'max > min'}, got {scale}"
        )
    return scale


def _check_together(features: Sequence[Feature], label: Label | None) -> None:
    """Refuse features that do not make a spec."""
    if not features:
        raise FairmendError("the spec has no features; add one [[feature]] table for each input feature")
    names = [f.name for f in features]
    for name in names:
        if names.count(name) > 1:
            raise FairmendError(f'feature "{name}" is listed twice; rename or remove one')
    if not any(f.protected for f in features):
        raise FairmendError(
            "no feature is protected; set protected = true on at least one, such as gender or age"
        )
    if label is not None and label.column in names:
        raise FairmendError(f'"{label.column}" is both a feature and the label; remove one of the two')


def _number(value: object, what: str) -> float:
    """Return a finite number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise FairmendError(f"{what} must be a finite number, got {value!r}")


def _text(value: object, what: str) -> str:
    """Return the text by which a value is compared, where it has one."""
    text = _as_text(value) if isinstance(value, str | int | float | np.generic) else ""
    if not text or text == "nan":
        raise FairmendError(f"{what} must be text, a number or true/false, got {value!r}")
    return text


def _as_text(value: object) -> str:
    """Return the text by which a value is compared: 1 and 1.0 are "1", True is "True"."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


_Part = TypeVar("_Part", Feature, Label)


def _build(cls: type[_Part], data: Mapping[str, Any], where: str) -> _Part:
    """Return a Feature or Label made of a mapping that has its keys and no others."""
    if not isinstance(data, Mapping):
        raise FairmendError(f"{where} must be a table of keys and values, got {data!r}")
    _check_keys(data, [f.name for f in fields(cls)], where)
    for f in fields(cls):
        if f.default is MISSING and f.name not in data:
            raise FairmendError(f"{where} has no {f.name}; add {f.name} = ...")
    return cls(**data)


def _check_keys(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a key that means nothing, rather than overlook a typo."""
    for key in data:
        if key not in known:
            hint = _suggest(str(key), known) or f"; the keys are {', '.join(known)}"
            raise FairmendError(f'{where} has an unknown key "{key}"{hint}')


# Words and small parts


def _refuse(what: str, bad: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
    """Raise for the first bad row, if there is one."""
    rows = np.flatnonzero(bad)
    if rows.size:
        more = f" ({rows.size} such rows)" if rows.size > 1 else ""
        raise FairmendError(f"{what}, row {rows[0]}: {problem(int(rows[0]))}{more}")


def _column(frame: pd.DataFrame, name: str, what: str) -> pd.Series[Any]:
    """Return the one column of that name."""
    if name not in frame.columns:
        hint = _suggest(name, map(str, frame.columns))
        raise FairmendError(f'the data has no column "{name}" for {what}{hint}; rename or add it')
    column = frame[name]
    if isinstance(column, pd.DataFrame):
        raise FairmendError(f'the data has {column.shape[1]} columns "{name}" for {what}; keep one')
    return column


def _float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype, if it is one that networks are computed in."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise FairmendError(f"inputs are float32 or float64, not {np.dtype(dtype)}")
    return np.dtype(dtype)


def _listed(value: object) -> list[Any] | None:
    """Return the entries of a list, tuple or array; None for anything else, text included."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else None


def _suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, if one is near; case does not matter."""
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f' (did you mean "{by_case[near[0]]}"?)' if near else ""


def _place(number: int, data: object) -> str:
    """Return how to call the feature in an error, by name where it has one."""
    name = data.get("name") if isinstance(data, Mapping) else None
    return f'feature "{name}"' if name else f"feature number {number + 1}"


def _extent(f: Feature) -> str:
    """Return the values of a feature in a few words."""
    if f.categories:
        return f"({len(f.categories)} categories)"
    return "{:.10g} to {:.10g}".format(*f.bounds)


def _differing(value: object, other: object) -> str:
    """Return a value as people write it, with as many digits as it takes to tell it from the other."""
    if isinstance(value, float) and f"{value:.6g}" != f"{other:.6g}":
        return f"{value:.6g}"
    return str(value)


def _plain(f: Feature) -> dict[str, Any]:
    """Return a feature as a TOML table, without what is left at its default."""
    plain = {key.name: getattr(f, key.name) for key in fields(f) if getattr(f, key.name) != key.default}
    if f.categories:
        plain |= {"categories": list(f.categories), "encoding": f.encoding}
    if f.range:
        plain["range"] = list(f.range)
    if f.scale:
        plain["scale"] = dict(f.scale)
    if f.kind == "integer" and f.tolerance and f.tolerance.is_integer():
        plain["tolerance"] = int(f.tolerance)
    return plain
