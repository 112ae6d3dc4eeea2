"""Feature, Label: what one column of the user's data means; all of it is checked when one is made.

A *value* is what the user's data holds (34, "female"); its *encoding* is what the network reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.text import as_text, suggest

_Number = TypeVar("_Number", bound=np.floating[Any])

KINDS = ("continuous", "integer", "categorical")
ENCODINGS = ("ordinal", "one-hot")
SCALES = (("mean", "std"), ("min", "max"))

_EXACT = 2.0**53  # whole numbers up to here are exact in float64
_SLACK = 4 * float(np.finfo(np.float32).eps)  # what scaling in float32 may be off by, relative to its operands
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
    dropped : the category that has no column of its own, so that all its columns are 0; one-hot only
    missing : what a missing value stands for; where it is not given, a missing value is refused
    """

    name: str
    kind: str
    range: tuple[float, float] | None = None
    categories: tuple[str, ...] | None = None
    encoding: str = "ordinal"
    scale: Mapping[str, float] | None = field(default=None, hash=False)
    protected: bool = False
    tolerance: float = 0.0
    dropped: str | None = None
    missing: float | str | None = None

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
        """Whether it takes one column per category, but for a dropped one."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """How many columns the network reads for it."""
        return len(self.categories or ()) - (self.dropped is not None) if self.one_hot else 1

    @property
    def corners(self) -> NDArray[np.float64]:
        """What each category of a one-hot feature looks like: (categories, columns)."""
        return self.by_category(np.eye(self.width), 0.0).T

    def by_category(self, columns: NDArray[_Number], of_dropped: float) -> NDArray[_Number]:
        """Return one-hot columns (rows, width) as (rows, categories), with a number for the dropped one."""
        if self.dropped is None:
            return columns
        place = (self.categories or ()).index(self.dropped)
        return np.insert(columns, place, columns.dtype.type(of_dropped), axis=1)

    def category_of(self, columns: FloatArray) -> NDArray[np.int64]:
        """Return the number of the category (rows,) nearest to one-hot columns (rows, width)."""
        return np.asarray(self.by_category(columns, 0.5).argmax(axis=1), dtype=np.int64)

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


def _affine(scale: Mapping[str, float] | None) -> tuple[float, float]:
    """Return offset and factor of a scale: encoded = (value - offset) / factor."""
    if scale is None:
        return 0.0, 1.0
    return (scale["mean"], scale["std"]) if "mean" in scale else (scale["min"], scale["max"] - scale["min"])


def extent(f: Feature) -> str:
    """Return the values of a feature in a few words."""
    if f.categories:
        return f"({len(f.categories)} categories)"
    return "{:.10g} to {:.10g}".format(*f.bounds)


# Validation


def _checked(f: Feature) -> dict[str, Any]:
    """Return the fields of a feature in their one form, or say which is wrong."""
    if not isinstance(f.name, str) or not f.name.strip():
        raise FairmendError(f"a feature needs a name, got {f.name!r}; give the name of its column")
    where = f'feature "{f.name}"'
    for key, allowed in (("kind", KINDS), ("encoding", ENCODINGS)):
        value = getattr(f, key)
        if value not in allowed:
            hint = suggest(str(value), allowed)
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
            raise FairmendError(f"{where}: categories have no distance; remove its tolerance, or make it protected")
        if f.range is not None:
            raise FairmendError(f"{where}: a categorical feature has categories, not a range; remove its range")
        checked["categories"] = _checked_categories(f, where)
    else:
        if f.categories is not None or f.encoding == "one-hot":
            what = "categories" if f.categories is not None else 'encoding "one-hot"'
            raise FairmendError(f'{where}: {what} belongs to kind = "categorical"; remove it or change the kind')
        checked["range"] = _checked_range(f, where)
    if f.scale is not None:
        checked["scale"] = _checked_scale(f, where)
    if f.dropped is not None:
        checked["dropped"] = _checked_dropped(f, checked.get("categories", ()), where)
    if f.missing is not None:
        checked["missing"] = _checked_missing(f, checked, where)
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
        raise FairmendError(f"{where}: the range of an integer feature needs whole numbers, got [{lo:g}, {hi:g}]")
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
        raise FairmendError(f"{where}: scale needs {'std > 0' if 'std' in scale else 'max > min'}, got {scale}")
    return scale


def _checked_dropped(f: Feature, categories: tuple[str, ...], where: str) -> str:
    """Return the dropped category, which must be one of several."""
    if not f.one_hot:
        raise FairmendError(f'{where}: dropped belongs to encoding = "one-hot"; remove it or change the encoding')
    dropped = _text(f.dropped, f"{where}: dropped")
    if dropped not in categories:
        raise FairmendError(f'{where}: dropped is "{dropped}", no category of it{suggest(dropped, categories)}')
    if len(categories) < 2:
        raise FairmendError(f"{where}: its only category is dropped, so it would have no column; remove `dropped`")
    return dropped


def _checked_missing(f: Feature, checked: Mapping[str, Any], where: str) -> float | str:
    """Return what a missing value stands for, which must be a possible value."""
    if f.kind == "categorical":
        text = _text(f.missing, f"{where}: missing")
        if text not in checked["categories"]:
            raise FairmendError(
                f'{where}: missing is "{text}", no category of it{suggest(text, checked["categories"])}'
            )
        return text
    value, (lo, hi) = _number(f.missing, f"{where}: missing"), checked["range"]
    if not lo <= value <= hi:
        raise FairmendError(f"{where}: missing = {value:g} is outside its range; give a value from {lo:g} to {hi:g}")
    if f.kind == "continuous":
        return value
    if not value.is_integer():
        raise FairmendError(f"{where}: missing must be a whole number like the values of the feature, got {value:g}")
    return int(value)


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
    text = as_text(value) if isinstance(value, str | int | float | np.generic) else ""
    if not text or text == "nan":
        raise FairmendError(f"{what} must be text, a number or true/false, got {value!r}")
    return text


def _listed(value: object) -> list[Any] | None:
    """Return the entries of a list, tuple or array; None for anything else, text included."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else None
