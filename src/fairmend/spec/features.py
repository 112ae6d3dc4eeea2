"""Feature: what one column of the user's data means, and how the network reads it.

A *value* is what the user's data holds (34, "female"); its *encoding* is what the network reads. Every field is checked
when a `Feature` is created, so that the rest of fairmend can rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_repeated, suggest
from fairmend.spec.bands import Bands, Groups, read_groups, read_lower_ends, require_distinct
from fairmend.spec.toml import as_list, as_number, as_value_text, require_one_of, to_table

if TYPE_CHECKING:
    from fairmend.spec.label import Label

_Number = TypeVar("_Number", bound=np.floating[Any])

MOST_FEATURES = 10_000
"""A spec that describes more is refused before the work, which would take minutes for each pass over the features."""

AS_IS = "as-is"
_KINDS = ("continuous", "integer", "categorical", AS_IS)
_ENCODINGS = ("ordinal", "one-hot")
_SCALES = (("mean", "std"), ("min", "max"))
_EXACT = 2.0**53  # whole numbers up to here are exact in float64
_SCALING_ERROR = 4 * float(np.finfo(np.float32).eps)  # of scaling in float32, relative to the operands
_TINY = float(np.finfo(np.float32).tiny)  # below it, rounding errors are no longer relative
_LARGEST = float(np.finfo(np.float32).max)  # of a column that is passed on as it is


@dataclass(frozen=True, repr=False)
class Feature:
    """One input feature: its values, their encoding, and how far similar people may differ in it.

    A feature is validated when it is created.

    Attributes
    ----------
    name : the column in your data
    kind : "continuous", "integer", "categorical", or "as-is" for a column that the network reads as the data has it, of
        which nothing else is said: any number that fits in float32, and the same for similar people
    range : the lowest and highest value; numeric kinds only
    categories : the values as text, in the order of their codes; categorical only
    encoding : "ordinal" (one column) or "one-hot" (one column per category; categorical only)
    scale : {"mean", "std"} or {"min", "max"}; the network reads (v - mean) / std or (v - min) / (max - min)
    protected : similar people may have any value of this feature
    tolerance : similar people may differ by up to this amount, in the feature's own units
    dropped : the category without a column of its own: all its columns are 0; one-hot only
    missing : the value that replaces a missing one; without it, missing values are an error
    indicates : the column whose missing values this feature marks: 1 where it is missing, 0 elsewhere
    input : the name of the model's input that reads this feature, for a model with several inputs
    names : what people call the values, such as {1: "male", 2: "female"}; not for continuous features
    bands : similar people may have any value of the same band. A number has their lower ends, the last band ends with
        the range; {"width": w} stands for the ends at equal distances. A categorical feature has groups of categories.
    columns : the columns of data that is one-hot already, one for each category but the dropped one, in their
        order; the data then has these columns of 0 and 1 instead of one with the feature's name
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
    indicates: str | None = None
    input: str | None = None
    names: Mapping[str, str] | None = field(default=None, hash=False)
    bands: Bands | Mapping[str, float] | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Validate every field, and store numbers, tuples and categories in their canonical form."""
        for key, value in _checked(self).items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        """Show the fields that differ from their defaults."""
        shown = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Feature({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the feature as a TOML table, without the keys at their defaults."""
        plain = to_table(self) | ({"encoding": self.encoding} if self.categories else {})
        if self.kind == "integer" and self.tolerance and self.tolerance.is_integer():
            plain["tolerance"] = int(self.tolerance)
        return plain

    def show(self, value: Any) -> Any:
        """Return what people call a value of the user's data: its name, if it has one, or the value itself."""
        return value if self.names is None else self.names.get(as_text(value), value)

    def called(self, value: Any) -> Any:
        """Return what `show` does; of a missing value, what replaces it, with a remark."""
        if value is not None:
            return self.show(value)
        replacement = self.missing if isinstance(self.missing, str) else f"{self.missing:.6g}"
        return f"{self.show(replacement)} (imputed)"

    @property
    def one_hot(self) -> bool:
        """Whether the feature has one column per category (except a dropped one)."""
        return self.encoding == "one-hot"

    @property
    def as_is(self) -> bool:
        """Whether the network reads the column as the data has it, and nothing else is known about its values."""
        return self.kind == AS_IS

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers; codes of categories count as such."""
        return self.kind in ("integer", "categorical")

    @property
    def width(self) -> int:
        """The number of columns that the network reads for this feature."""
        return len(self.categories or ()) - (self.dropped is not None) if self.one_hot else 1

    @property
    def corners(self) -> NDArray[np.float64]:
        """The one-hot columns of each category: (categories, columns)."""
        return self.one_hot_columns(np.arange(len(self.categories or ())), np.float64)

    def one_hot_columns(self, codes: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
        """Return the one-hot columns (rows, width) of categories with these codes (rows,)."""
        columns = np.zeros((len(codes), self.width), dtype)
        place, mark = self.one_hot_marks
        flat = columns.reshape(-1)  # an index into it is faster than one into rows and columns
        flat[np.arange(0, flat.size, self.width) + place[codes]] = mark[codes]
        return columns

    @property
    def one_hot_marks(self) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Which one-hot column each category sets, and to what: 1; a dropped category sets the first to 0."""
        codes = np.arange(len(self.categories or ()), dtype=np.int64)
        if self.dropped is None:
            return codes, np.ones(len(codes), dtype=np.int8)
        dropped = (self.categories or ()).index(self.dropped)
        return np.where(codes == dropped, 0, codes - (codes > dropped)), (codes != dropped).astype(np.int8)

    def by_category(self, columns: NDArray[_Number], of_dropped: float) -> NDArray[_Number]:
        """Return one-hot columns (rows, width) as (rows, categories), with ``of_dropped`` for the dropped category."""
        if self.dropped is None:
            return columns
        place = (self.categories or ()).index(self.dropped)
        return np.insert(columns, place, columns.dtype.type(of_dropped), axis=1)

    def category_of(self, columns: FloatArray) -> NDArray[np.int64]:
        """Return the code of the category (rows,) nearest to one-hot columns (rows, width)."""
        return np.asarray(self.by_category(columns, 0.5).argmax(axis=1), dtype=np.int64)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value, or code of a category; of a column that is read as it is, those of float32."""
        if self.as_is:
            return -_LARGEST, _LARGEST
        return self.range if self.range is not None else (0, len(self.categories or ()) - 1)

    @property
    def encoded_bounds(self) -> tuple[float, float]:
        """The least and the greatest number that the network reads."""
        if self.one_hot:
            return 0.0, 1.0
        low, high = self.scaled(np.array(self.bounds, np.float64)).tolist()
        return low, high

    def numbers_rows(self, rows: int) -> bool:
        """Return whether all its values are the numbers of rows, from 0, of a table that a network looks them up in."""
        offset, factor = scale_parameters(self.scale)
        low, high = self.encoded_bounds
        return self.whole and factor == 1 and float(offset).is_integer() and low >= 0 and high < rows

    @property
    def extent(self) -> str:
        """The values in a few words: "17 to 90" or "(3 categories)"."""
        if self.categories:
            return f"({len(self.categories)} categories)"
        if self.as_is:
            return "any number"
        return "{:.10g} to {:.10g}".format(*self.bounds)

    @property
    def reach(self) -> float:
        """How far a neighbour's value may lie from the input's own, before the range limits it."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies(self) -> bool:
        """Whether neighbours can differ in this feature."""
        return self.bands is not None or (self.reach > 0 and self.bounds[0] < self.bounds[1])

    @property
    def lower_ends(self) -> tuple[float, ...]:
        """The lower ends of the bands of a number; empty if it has none."""
        return () if self.categories else cast("tuple[float, ...]", self.bands or ())

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The codes of the categories of each band; empty if the feature has none."""
        if not self.categories:
            return ()
        return tuple(tuple(map(self.categories.index, group)) for group in cast("Groups", self.bands or ()))

    def with_range(self, low: float, high: float) -> Feature:
        """Return the feature of a number with another range; its first and its last band end with it."""
        ends = (low, *(end for end in self.lower_ends[1:] if low < end <= high))
        return replace(self, range=(low, high), bands=ends if self.bands else None)

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the encoding of values (or codes); monotone, also in floating point."""
        offset, factor = scale_parameters(self.scale)
        return (values - offset) / factor

    def unscaled(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the values (or codes) of encoded x, without rounding or clipping."""
        offset, factor = scale_parameters(self.scale)
        with np.errstate(over="ignore"):  # infinity is out of range, which the caller reports
            return x.astype(np.float64) * factor + offset

    def nearest(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the possible values (or codes) nearest to those of encoded x."""
        values = np.clip(self.unscaled(x), *self.bounds)
        return np.rint(values) if self.whole else values

    def encode(self, values: NDArray[np.float64], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the encoded columns (rows, width) of values or codes (rows,)."""
        if self.one_hot:
            return self.one_hot_columns(values.astype(np.int64), dtype)
        return self.scaled(values).astype(dtype)[:, None]

    def decode(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the possible values, or codes (rows,), nearest to encoded columns x (rows, width)."""
        return self.category_of(x).astype(np.float64) if self.one_hot else self.nearest(x[:, 0])

    def own_error(self, x: FloatArray, by: float) -> NDArray[np.float64]:
        """Return how far the values that were encoded as x (rows,) may be from those of x, and so what is ``by`` away.

        That is half a unit in the last place of x, and 16 roundings in double precision. A whole number is the nearest
        one, unless that is half a unit or more.
        """
        offset, factor = scale_parameters(self.scale)
        sizes = np.abs(self.nearest(x)) + abs(offset) + min(by, self.bounds[1] - self.bounds[0])
        error = 0.5 * np.spacing(np.abs(x)).astype(np.float64) * factor + 2.0**-49 * sizes
        return np.floor(error + 0.5) if self.whole else error

    @property
    def tells_apart(self) -> bool:
        """Whether the encoding in float32 holds a whole number so exactly that it is the nearest one."""
        if self.one_hot or not self.whole:
            return True
        largest = np.abs(self.scaled(np.array(self.bounds, np.float64))).max().astype(np.float32)
        offset, factor = scale_parameters(self.scale)
        sizes = np.abs(self.bounds).max() + abs(offset)
        return bool(0.5 * float(np.spacing(largest)) * factor + 2.0**-49 * sizes < 0.5)

    def slack(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far, in the feature's own units, values may be off if they were scaled in float32."""
        offset, factor = scale_parameters(self.scale)
        return 2 * _SCALING_ERROR * (np.abs(values) + abs(offset)) + _TINY * factor


def scale_parameters(scale: Mapping[str, float] | None) -> tuple[float, float]:
    """Return the offset and the factor of a scale: encoded = (value - offset) / factor."""
    if scale is None:
        return 0.0, 1.0
    return (scale["mean"], scale["std"]) if "mean" in scale else (scale["min"], scale["max"] - scale["min"])


def _checked(f: Feature) -> dict[str, Any]:
    """Return the fields of a feature in their canonical form; raise an error for a wrong one."""
    if not isinstance(f.name, str) or not f.name.strip():
        raise FairmendError(f"a feature needs a name, got {f.name!r}. Set it to the name of its column.")
    where = f'feature "{f.name}"'
    for key, allowed in (("kind", _KINDS), ("encoding", _ENCODINGS)):
        require_one_of(getattr(f, key), allowed, f"{where}: {key}")
    if not isinstance(f.protected, bool | np.bool_):
        raise FairmendError(f"{where}: protected must be true or false, got {f.protected!r}")
    tolerance = as_number(f.tolerance, f"{where}: tolerance")
    if tolerance < 0:
        raise FairmendError(f"{where}: tolerance must not be negative, got {tolerance:g}")
    if tolerance > 0 and f.protected:
        raise FairmendError(f"{where}: a protected feature takes all its values. Remove its tolerance.")
    checked: dict[str, Any] = {"protected": bool(f.protected), "tolerance": tolerance}
    if f.kind == "categorical":
        if tolerance > 0:
            raise FairmendError(f"{where}: categories have no distance. Remove its tolerance, or make it protected.")
        if f.range is not None:
            raise FairmendError(f"{where}: a categorical feature has categories, not a range. Remove its range.")
        checked["categories"] = _categories(f, where)
    elif f.kind == AS_IS:
        _require_bare(f, where)
    else:
        if f.categories is not None or f.encoding == "one-hot":
            what = "categories needs" if f.categories is not None else 'encoding "one-hot" needs'
            raise FairmendError(f'{where}: {what} kind = "categorical". Remove it, or change the kind.')
        checked["range"] = _range(f, where)
    if f.scale is not None:
        checked["scale"] = _scale(f, where)
    if f.dropped is not None:
        checked["dropped"] = _dropped(f, checked.get("categories", ()), where)
    if f.columns is not None:
        checked["columns"] = _columns(f, checked, where)
    if f.missing is not None:
        checked["missing"] = _missing(f, checked, where)
    if f.indicates is not None:
        _require_indicator(f, checked, where)
    if f.input is not None and (not isinstance(f.input, str) or not f.input):
        raise FairmendError(f"{where}: input must be the name of one of the model's inputs, got {f.input!r}")
    if f.names is not None:
        checked["names"] = _names(f, checked, where)
    if f.kind == AS_IS:
        return checked
    offset, factor = scale_parameters(checked.get("scale"))
    with np.errstate(all="ignore"):
        lo, hi = checked.get("range") or (0, len(checked["categories"]))
        ends = np.array([(lo - offset) / factor, (hi - offset) / factor, hi - lo, factor])
        if not np.isfinite(ends.astype(np.float32)).all():
            raise FairmendError(f"{where}: its encoded values do not fit in float32. Check its range and scale.")
    if f.bands is not None:
        checked["bands"] = _bands(f, checked, where)
    return checked


def _bands(f: Feature, checked: Mapping[str, Any], where: str) -> Bands:
    """Return the bands in their canonical form."""
    for key in ("protected", "tolerance"):
        if checked[key]:
            raise FairmendError(f"{where}: bands and {key} say two things about who is similar. Remove one of the two.")
    scale = scale_parameters(checked.get("scale"))
    if f.kind == "categorical":
        groups = read_groups(f.bands, checked["categories"], where)
        if not f.one_hot:
            band = {category: number for number, group in enumerate(groups) for category in group}
            of_code = [band[category] for category in checked["categories"]]
            edges = [(code, code + 1) for code, (a, b) in enumerate(pairwise(of_code)) if a != b]
            require_distinct([(float(a), float(b)) for a, b in edges], scale, True, where)
        return groups
    whole = f.kind == "integer"
    ends = read_lower_ends(f.bands, checked["range"], whole, where)
    require_distinct([(after - 1 if whole else before, after) for before, after in pairwise(ends)], scale, whole, where)
    return ends


def _require_bare(f: Feature, where: str) -> None:
    """Raise an error for a column that is read as it is and of which the spec says more."""
    roles = [("protected", f.protected), ("tolerance", f.tolerance), ("bands", f.bands is not None)]
    role = next((name for name, given in roles if given), None)
    if role is not None:
        raise FairmendError(
            f'{where}: kind = "{AS_IS}" says nothing about its values, so it cannot have {role}. Describe it '
            "with another kind, a range or categories, and the scale that the model reads."
        )
    told = ("range", "categories", "scale", "dropped", "indicates", "names", "columns")
    key = next((name for name in told if getattr(f, name) is not None), None)
    key = "encoding" if key is None and f.encoding != "ordinal" else key
    if key is not None:
        raise FairmendError(f'{where}: kind = "{AS_IS}" passes the column on unchanged and takes no {key}. Remove it.')


def _columns(f: Feature, checked: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the columns of data that is one-hot already; one for each category that has one."""
    if not f.one_hot:
        raise FairmendError(
            f'{where}: columns are those of data that is one-hot already. Set kind = "categorical" and encoding = '
            '"one-hot", or remove columns.'
        )
    if f.missing is not None:
        raise FairmendError(f"{where}: one-hot columns mark missing values by all 0. Remove missing, and set dropped.")
    columns = as_list(f.columns)
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise FairmendError(f'{where}: columns must be a list of names, such as ["sex_F", "sex_M"], got {f.columns!r}')
    twice = first_repeated(columns)
    if twice is not None:
        raise FairmendError(f'{where}: columns has "{twice}" twice. Remove one.')
    count = len(checked["categories"]) - (f.dropped is not None)
    if len(columns) != count:
        besides = " besides the dropped one" if f.dropped is not None else ""
        raise FairmendError(
            f"{where}: columns has {len(columns)} names for {count} categories{besides}. List one for each, in their "
            "order. If one category has no column, add it to categories and set dropped to it."
        )
    _require_own_names(columns, checked["categories"], f.dropped, where)
    return tuple(columns)


def _require_own_names(columns: Sequence[str], categories: Sequence[str], dropped: object, where: str) -> None:
    """Raise an error for columns that stand for other categories than those that all their names end in."""
    ends = [[category for category in categories if column.endswith(category)] for column in columns]
    named = [max(found, key=len, default="") for found in ends]
    if not all(named) or len(set(named)) < len(named):
        return
    own = [category for category in categories if dropped is None or category != as_text(dropped)]
    for column, meant, stands_for in zip(columns, named, own, strict=True):
        if meant != stands_for:
            raise FairmendError(
                f'{where}: its column "{column}" has the name of the category "{meant}", but stands for '
                f'"{stands_for}". List the columns in the order of the categories; dropped has no column.'
            )


def _range(f: Feature, where: str) -> tuple[float, float]:
    """Return the range of a numeric feature."""
    ends = as_list(f.range)
    if ends is None or len(ends) != 2:
        raise FairmendError(f"{where}: a numeric feature needs range = [lowest, highest], got {f.range!r}")
    lo, hi = (as_number(end, f"{where}: range") for end in ends)
    if lo > hi or (lo == hi and f.protected):
        need = "lowest < highest" if f.protected else "lowest <= highest"
        raise FairmendError(f"{where}: range needs {need}, got [{lo:g}, {hi:g}]")
    if f.kind == "continuous":
        return lo, hi
    if not (lo.is_integer() and hi.is_integer()) or max(-lo, hi) > _EXACT:
        raise FairmendError(f"{where}: the range of an integer feature needs whole numbers, got [{lo:g}, {hi:g}]")
    return int(lo), int(hi)


def _categories(f: Feature, where: str) -> tuple[str, ...]:
    """Return the categories as distinct text."""
    categories = as_list(f.categories)
    if not categories:
        raise FairmendError(f"{where}: a categorical feature needs categories = [...], got {f.categories!r}")
    texts = tuple(as_value_text(category, f"{where}: a category") for category in categories)
    twice = first_repeated(texts)
    if twice is not None:
        raise FairmendError(f'{where}: category "{twice}" is listed twice. Remove one.')
    if f.protected and len(texts) < 2:
        raise FairmendError(f"{where}: a protected feature needs at least two categories")
    return texts


def _scale(f: Feature, where: str) -> dict[str, float]:
    """Return the scale as plain floats."""
    if f.one_hot:
        raise FairmendError(f"{where}: one-hot columns are 0 or 1 and have no scale. Remove it.")
    if not isinstance(f.scale, Mapping) or set(f.scale) not in map(set, _SCALES):
        raise FairmendError(f"{where}: scale must be {{mean, std}} or {{min, max}}, got {f.scale!r}")
    keys = next(keys for keys in _SCALES if keys[0] in f.scale)
    scale = {key: as_number(f.scale[key], f"{where}: scale {key}") for key in keys}
    if not scale_parameters(scale)[1] > 0:
        raise FairmendError(f"{where}: scale needs {'std > 0' if 'std' in scale else 'max > min'}, got {scale}")
    return scale


def _dropped(f: Feature, categories: tuple[str, ...], where: str) -> str:
    """Return the dropped category; it must be one of at least two."""
    if not f.one_hot:
        raise FairmendError(f'{where}: dropped needs encoding = "one-hot". Remove it, or change the encoding.')
    dropped = as_value_text(f.dropped, f"{where}: dropped")
    if dropped not in categories:
        hint = suggest(dropped, categories)
        raise FairmendError(f'{where}: dropped is "{dropped}", which is not one of its categories{hint}')
    if len(categories) < 2:
        raise FairmendError(f"{where}: its only category is dropped, which leaves no column. Remove `dropped`.")
    return dropped


def _missing(f: Feature, checked: Mapping[str, Any], where: str) -> float | str:
    """Return the value that replaces a missing one; it must be a possible value of the feature."""
    if f.kind == "categorical":
        text = as_value_text(f.missing, f"{where}: missing")
        if text not in checked["categories"]:
            hint = suggest(text, checked["categories"])
            raise FairmendError(f'{where}: missing is "{text}", which is not one of its categories{hint}')
        return text
    value, (lo, hi) = as_number(f.missing, f"{where}: missing"), checked.get("range") or (-_LARGEST, _LARGEST)
    if not lo <= value <= hi:
        raise FairmendError(
            f"{where}: missing = {value:g} is outside the range {lo:g} to {hi:g}. Use one in the range."
        )
    if f.kind != "integer":
        return value
    if not value.is_integer():
        raise FairmendError(f"{where}: missing must be a whole number, as the feature is an integer, got {value:g}")
    return int(value)


def _names(f: Feature, checked: Mapping[str, Any], where: str) -> dict[str, str] | None:
    """Return the names of values, by the text of the value; each must be a value of the feature."""
    if not isinstance(f.names, Mapping):
        raise FairmendError(f'{where}: names must be a table such as {{1 = "male", 2 = "female"}}, got {f.names!r}')
    if f.kind == "continuous":
        raise FairmendError(f"{where}: names are for codes and categories, but it is continuous. Remove them.")
    names = {
        as_value_text(value, f"{where}: a value in names"): as_value_text(name, f"{where}: a name")
        for value, name in f.names.items()
    }
    for value in names:
        if not _is_value(value, checked):
            hint = suggest(value, checked["categories"]) if "categories" in checked else ""
            raise FairmendError(f'{where}: names has "{value}", which is not one of its values{hint}')
    twice = first_repeated(names.values())
    if twice is not None:
        raise FairmendError(f'{where}: names calls two values "{twice}". Rename one.')
    return names or None


def _is_value(text: str, checked: Mapping[str, Any]) -> bool:
    """Return whether a text is a category, or a whole number in the range."""
    if "categories" in checked:
        return text in checked["categories"]
    low, high = checked["range"]
    return text.removeprefix("-").isdecimal() and low <= int(text) <= high


def _require_indicator(f: Feature, checked: Mapping[str, Any], where: str) -> None:
    """Raise an error for a feature that marks the missing values of a column but is not 0 or 1."""
    if not isinstance(f.indicates, str) or f.indicates in ("", f.name):
        raise FairmendError(f"{where}: indicates must be the name of another column, got {f.indicates!r}")
    if checked.get("range") != (0, 1) or f.kind != "integer" or f.missing is not None:
        raise FairmendError(
            f'{where}: it marks missing values by 1 and 0. Set kind = "integer" and range = [0, 1], and remove missing.'
        )


def require_few(features: Sequence[object]) -> None:
    """Raise an error for more features than a spec describes, before the first is validated."""
    if len(features) > MOST_FEATURES:
        raise FairmendError(f"the spec has {len(features):,} features. A spec describes at most {MOST_FEATURES:,}.")


def validate_features_together(features: Sequence[Feature], label: Label | None) -> None:
    """Raise an error if the features and the label do not make a spec."""
    if not features:
        raise FairmendError("the spec has no features. Add one [[feature]] table for each input feature.")
    names = [f.name for f in features]
    twice = first_repeated(names)
    if twice is not None:
        raise FairmendError(f'feature "{twice}" is listed twice. Rename or remove one.')
    _require_own_columns(features, label)
    if not any(f.protected for f in features):
        raise FairmendError("no feature is protected. Set protected = true for at least one, such as gender or age.")
    if label is not None and label.column in names:
        raise FairmendError(f'"{label.column}" is both a feature and the label. Remove one of the two.')
    if label is not None and label.score in names:
        raise FairmendError(f'"{label.score}" is both a feature and the score of [label]. Remove one of the two.')


def _require_own_columns(features: Sequence[Feature], label: Label | None) -> None:
    """Raise an error for a one-hot column that has another meaning already."""
    owners = {f.name: f'the feature "{f.name}"' for f in features}
    if label is not None:
        owners |= {name: "[label]" for name in (label.column, label.score) if name is not None}
    for feature in features:
        for name in feature.columns or ():
            if name in owners:
                raise FairmendError(
                    f'feature "{feature.name}": its column "{name}" is {owners[name]} already. Name each column '
                    "once, and the feature differently."
                )
            owners[name] = f'a column of "{feature.name}"'


def validate_id_column(name: str | None, features: Sequence[Feature], label: Label | None) -> str | None:
    """Return the column of ids; raise an error for one that has another meaning already."""
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise FairmendError(f"[table]: id must be the name of a column, got {name!r}")
    if name in [f.name for f in features] or (label is not None and name == label.column):
        raise FairmendError(f'[table]: id is "{name}", which is a feature or the label. Name the column of the ids.')
    return name
