"""The features of people: which values each has, how it is encoded, and how far similar people may be apart in it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, only_keys, take

Runs = tuple[tuple[float, float], ...]  # first and last values, in order and apart from each other

MAX_BANDS = 10_000  # of a number
EXACT = 2**53  # whole numbers up to it are doubles
_KEYS = (
    "name", "kind", "range", "categories", "encoding", "scale", "protected", "tolerance", "dropped", "missing",
    "indicates", "names", "input", "bands", "columns",
)  # fmt: skip
_KINDS = ("continuous", "integer", "categorical", "as-is")
_KEYS_AS_IS = ("name", "kind", "missing", "input")  # no claim says more of a column that passes as it is
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Feature:
    """One feature with all defaults filled in; ``low`` and ``high`` of a category are those of its number.

    ``bands`` are the lower ends of the bands of a number, ``groups`` the bands of categories: people with values of the
    same band are similar. ``names`` are what people call the values; no claim depends on them, nor are they compared.
    ``columns`` are the names of the columns of data that is one-hot already. Of a column that passes ``as_is``, similar
    people have the same number, and claims about everyone hold for every number of float32.
    """

    name: str
    kind: str
    low: float
    high: float
    categories: tuple[str, ...]
    encoding: str
    scale: tuple[tuple[str, float], ...]
    protected: bool
    tolerance: float
    dropped: str | None
    missing: float | str | None
    indicates: str | None = None
    input: str | None = None
    names: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    bands: tuple[float, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def as_is(self) -> bool:
        """Whether the model reads the column as the data has it, and nothing else is said of its values."""
        return self.kind == "as-is"

    @property
    def one_hot(self) -> bool:
        """Whether it has one column for each category, except for a dropped one."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.categories) - (self.dropped is not None) if self.one_hot else 1

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers; categories count as such."""
        return self.kind in ("integer", "categorical")

    @property
    def reach(self) -> float:
        """How far the value of a neighbour may be from the value of the input."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies_by_itself(self) -> bool:
        """Whether a neighbour can have another value, without links; `Spec.varying` has what these set as well."""
        return bool(self.bands or self.groups) or (self.reach > 0 and self.low < self.high)

    @cached_property
    def category_numbers(self) -> dict[str, float]:
        """The number of each category."""
        return {category: float(number) for number, category in enumerate(self.categories)}

    def runs_around(self, own: float) -> Runs:
        """Return the values, or the numbers of categories, of the band of an own one; not of a continuous feature."""
        for group in self.groups:
            numbers = [self.category_numbers[name] for name in group]
            if own in numbers:
                return as_runs(numbers)
        ends = [*self.bands, self.high + 1]  # of whole numbers: the last band ends before the next one
        return tuple((low, end - 1) for low, end in pairwise(ends) if low <= own < end)

    @property
    def tells_apart(self) -> bool:
        """Whether float32 tells all of its values apart, so that a whole number is the nearest to its encoding."""
        if self.one_hot or not self.whole:
            return True
        offset, factor = self.affine
        with np.errstate(all="ignore"):
            largest = np.float32(max(abs(end - offset) for end in (self.low, self.high)) / factor)
        error = 0.5 * float(np.spacing(largest)) * factor + 2.0**-49 * (max(-self.low, self.high) + abs(offset))
        return error < 0.5

    @property
    def affine(self) -> tuple[float, float]:
        """Offset and factor: e(v) = (v - offset) / factor."""
        if not self.scale:
            return 0.0, 1.0
        (first, offset), (_, second) = self.scale
        return offset, second if first == "mean" else second - offset


def as_runs(numbers: Sequence[float]) -> Runs:
    """Return whole numbers as runs of consecutive ones."""
    runs: list[tuple[float, float]] = []
    for number in sorted(set(numbers)):
        joins = runs and runs[-1][1] == number - 1
        runs.append((runs.pop()[0], number) if joins else (number, number))
    return tuple(runs)


def read_feature(entry: Any, where: str) -> Feature:
    """Return a feature with all defaults filled in; refuse one with parts that do not fit together."""
    name = take(entry, "name", str, where)
    where = f'feature "{name[:40]}" ({where})'
    only_keys(entry, _KEYS, where)
    kind = take(entry, "kind", str, where)
    if kind == "as-is":
        only_keys(entry, _KEYS_AS_IS, where)
    if kind not in _KINDS:
        raise CheckError(f"{where} has the unknown kind {kind[:40]}")
    encoding = maybe(entry, "encoding", str, where, "ordinal")
    protected = maybe(entry, "protected", bool, where, False)
    tolerance = maybe(entry, "tolerance", float, where, 0.0)
    if encoding not in ("ordinal", "one-hot") or (encoding == "one-hot" and kind != "categorical"):
        raise CheckError(f"{where} cannot have the encoding {encoding[:40]}")
    if tolerance < 0 or (tolerance > 0 and (protected or kind == "categorical")):
        raise CheckError(f"{where} cannot have a tolerance of {tolerance:g}")
    categories: tuple[str, ...] = ()
    if kind == "categorical":
        if "range" in entry:
            raise CheckError(f"{where} has categories, so it has no range")
        categories = tuple(json_reader.text(value, where) for value in take(entry, "categories", list, where))
        if not categories or len(set(categories)) != len(categories):
            raise CheckError(f"{where} needs distinct categories")
        low, high = 0.0, len(categories) - 1.0
    elif kind == "as-is":
        low, high = -_LARGEST, _LARGEST
    else:
        if "categories" in entry:
            raise CheckError(f"{where} has a range, so it has no categories")
        low, high = (float(end) for end in json_reader.numbers(entry.get("range"), 2, f"{where}.range"))
        if low > high:
            raise CheckError(f"{where} has an empty range")
    if kind == "integer":
        if not (low.is_integer() and high.is_integer()) or max(-low, high) > EXACT:
            raise CheckError(f"{where} needs a range of whole numbers")
        low, high = int(low), int(high)
    if entry.get("protected") is True and low == high:
        raise CheckError(f"{where} is protected but has only one value, so nothing is claimed about it")
    scale = _scale(entry["scale"], where) if "scale" in entry else ()
    if scale and encoding == "one-hot":
        raise CheckError(f"{where} is one-hot and cannot have a scale")
    dropped = _category(entry["dropped"], categories, f"{where}.dropped") if "dropped" in entry else None
    if dropped is not None and (encoding != "one-hot" or len(categories) < 2):
        raise CheckError(f"{where} drops a category; only a one-hot feature with several categories can")
    columns = _one_hot_columns(entry, encoding, len(categories) - (dropped is not None), where)
    missing: float | str | None = None
    if "missing" in entry and kind == "categorical":
        missing = _category(entry["missing"], categories, f"{where}.missing")
    elif "missing" in entry:
        missing = take(entry, "missing", float, where)
        if not low <= missing <= high or (kind == "integer" and not missing.is_integer()):
            raise CheckError(f"{where} has a value for missing data that is not a possible value")
        missing = int(missing) if kind == "integer" else missing
    indicates = maybe(entry, "indicates", str, where)
    reader = maybe(entry, "input", str, where)
    names = tuple(_texts(entry["names"], f"{where}.names").items()) if "names" in entry else ()
    if not all(key in categories if categories else _is_whole(key, low, high) for key, _ in names):
        raise CheckError(f"{where}.names names something that is not one of its values")
    bands, groups = _bands(entry, kind, (low, high), categories, where)
    feature = Feature(
        name,
        kind,
        low,
        high,
        categories,
        encoding,
        scale,
        protected,
        tolerance,
        dropped,
        missing,
        indicates,
        reader,
        names,
        bands,
        groups,
        columns,
    )
    if not 0 < feature.affine[1] < math.inf:
        raise CheckError(f"{where} has a scale that is not positive")
    if (bands or groups) and (protected or tolerance):
        raise CheckError(f"{where} has bands, so it cannot be protected or have a tolerance")
    _require_edges(feature, where)
    return feature


def _one_hot_columns(entry: dict[str, Any], encoding: str, count: int, where: str) -> tuple[str, ...]:
    """Return the columns of data that is one-hot already; none if it is not."""
    if "columns" not in entry:
        return ()
    given = take(entry, "columns", list, where)
    if encoding != "one-hot" or "missing" in entry:
        raise CheckError(f"{where}.columns needs the encoding one-hot, and no value for missing data")
    if len(given) != count or not all(type(name) is str and name for name in given):
        raise CheckError(
            f"{where}.columns must name a column for each of its {count} categories, without the dropped one"
        )
    return tuple(given)


def _bands(
    entry: dict[str, Any], kind: str, ends: tuple[float, float], categories: tuple[str, ...], where: str
) -> tuple[tuple[float, ...], tuple[tuple[str, ...], ...]]:
    """Return the lower ends of the bands of a number, or the groups of categories; both empty if there are no bands."""
    given = entry.get("bands")
    if "bands" not in entry:
        return (), ()
    where = f"{where}.bands"
    if kind != "categorical":
        return _lower_ends(given, *ends, kind == "integer", where), ()
    if type(given) is not list or not all(type(group) is list and group for group in given):
        raise CheckError(f"{where} must be a list of lists of categories")
    named = [[_category(value, categories, where) for value in group] for group in given]
    if sorted(name for group in named for name in group) != sorted(categories):
        raise CheckError(f"{where} must hold every category once")
    if len(named) in (1, len(categories)):
        raise CheckError(f"{where} must be several, and not one for each category")
    in_order = (tuple(sorted(group, key=categories.index)) for group in named)
    return (), tuple(sorted(in_order, key=lambda group: categories.index(group[0])))


def _lower_ends(given: Any, low: float, high: float, whole: bool, where: str) -> tuple[float, ...]:
    """Return the lower ends of bands, listed or at equal distances from the lowest value."""
    if type(given) is dict:
        only_keys(given, ("width",), where)
        width = take(given, "width", float, where)
        if not (width > 0 and (high - low) / width <= MAX_BANDS):
            raise CheckError(f"{where}.width must be above 0, for at most {MAX_BANDS:,} bands")
        # A continuous range does not begin another band with what rounding leaves at its end.
        least = 0.0 if whole else width * 1e-9
        ends = [low + number * width for number in range(int((high - low) / width) + 2)]
        ends = [end for end in ends if end <= high and (whole or end == low or high - end > least)]
    else:
        if type(given) is not list or len(given) > MAX_BANDS:
            raise CheckError(f"{where} must be a list of at most {MAX_BANDS:,} numbers")
        ends = json_reader.numbers(given, len(given), where).tolist()
    if len(ends) < 2 or ends[0] != low or ends[-1] > high or not all(a < b for a, b in pairwise(ends)):
        raise CheckError(f"{where} must be two lower ends or more that increase, from the lowest value, in the range")
    if whole and (not all(float(end).is_integer() for end in ends) or len(ends) == high - low + 1):
        raise CheckError(f"{where} must be whole numbers, and not every value")
    return tuple(int(end) if whole else float(end) for end in ends)


def _require_edges(feature: Feature, where: str) -> None:
    """Refuse bands that a model cannot tell apart: float32 holds the same number for values on both sides of an edge.

    Whole numbers must be the ones that are nearest to what their encodings mean, or an input has a wrong band.
    """
    edges = [(after - 1 if feature.whole else before, after) for before, after in pairwise(feature.bands)]
    if feature.groups and not feature.one_hot:
        of = {name: number for number, group in enumerate(feature.groups) for name in group}
        pairs = enumerate(pairwise(feature.categories))
        edges = [(float(number), number + 1.0) for number, (one, other) in pairs if of[one] != of[other]]
    if edges:
        values, (offset, factor) = np.array(edges, np.float64), feature.affine
        with np.errstate(all="ignore"):
            encoded = ((values - offset) / factor).astype(np.float32)
            decoded = np.rint(encoded.astype(np.float64) * factor + offset)
        if not (encoded[:, 0] < encoded[:, 1]).all() or (feature.whole and not (decoded == values).all()):
            raise CheckError(f"{where} has bands that float32 cannot tell apart")


def _is_whole(text: str, low: float, high: float) -> bool:
    """Return whether a text is a whole number from low to high, as Python writes it."""
    return re.fullmatch("0|-?[1-9][0-9]{0,15}", text) is not None and low <= int(text) <= high


def _texts(entry: Any, where: str) -> dict[str, str]:
    """Return a table of texts."""
    if type(entry) is not dict or not all(type(value) is str for value in entry.values()):
        raise CheckError(f"{where} must be a table of texts")
    return dict(entry)


def _scale(entry: Any, where: str) -> tuple[tuple[str, float], ...]:
    for keys in (("mean", "std"), ("min", "max")):
        if type(entry) is dict and set(entry) == set(keys):
            return tuple((key, take(entry, key, float, f"{where}.scale")) for key in keys)
    raise CheckError(f"{where} needs a scale of mean and std, or of min and max")


def _category(value: Any, categories: tuple[str, ...], where: str) -> str:
    text = json_reader.text(value, where)
    if text not in categories:
        raise CheckError(f"{where} is not one of the categories")
    return text
