"""Who counts as similar, from the spec content of a certificate, or from a spec file to compare it with."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairmend_check import document
from fairmend_check.refused import Refused

_MAX_TOML = 4 * 2**20
_EXACT = 2**53
_KEYS = ("name", "kind", "range", "categories", "encoding", "scale", "protected", "tolerance", "dropped", "missing")


@dataclass(frozen=True)
class Feature:
    """One feature with all defaults filled in; ``low`` and ``high`` of a category are those of its number."""

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

    @property
    def one_hot(self) -> bool:
        """Whether it takes a column for each category, but for a dropped one."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """How many columns it takes."""
        return len(self.categories) - (self.dropped is not None) if self.one_hot else 1

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers, categories among them."""
        return self.kind != "continuous"

    @property
    def reach(self) -> float:
        """How far a neighbour's value may be from one's own."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies(self) -> bool:
        """Whether neighbours can differ in it."""
        return self.reach > 0 and self.low < self.high

    @property
    def affine(self) -> tuple[float, float]:
        """Offset and factor: e(v) = (v - offset) / factor."""
        if not self.scale:
            return 0.0, 1.0
        (first, offset), (_, second) = self.scale
        return offset, second if first == "mean" else second - offset


@dataclass(frozen=True)
class Spec:
    """The features in the order of the model's inputs, and the label as (column, positive) where there is one."""

    features: tuple[Feature, ...]
    label: tuple[str, str] | None

    @property
    def width(self) -> int:
        """How many columns the features take together."""
        return sum(feature.width for feature in self.features)

    def columns(self) -> list[tuple[Feature, int]]:
        """Return each feature with its first column."""
        starts, start = [], 0
        for feature in self.features:
            starts.append((feature, start))
            start += feature.width
        return starts

    def protected_columns(self) -> set[int]:
        """Return the columns of all protected features."""
        return {start + i for feature, start in self.columns() if feature.protected for i in range(feature.width)}


def read_spec(content: dict[str, Any], where: str) -> Spec:
    """Return the spec in plain data, every part of which must make sense."""
    document.only_keys(content, ("label", "feature"), where)
    entries = document.take(content, "feature", list, where)
    features = tuple(_feature(entry, f"{where}.feature[{i}]") for i, entry in enumerate(entries))
    if len({feature.name for feature in features}) != len(features):
        raise Refused(f"{where} names two features alike")
    if not any(feature.protected for feature in features):
        raise Refused(f"{where} protects no feature")
    label = None
    if "label" in content:
        entry = document.take(content, "label", dict, where)
        document.only_keys(entry, ("column", "positive"), f"{where}.label")
        label = (document.take(entry, "column", str, f"{where}.label"), _text(entry.get("positive"), f"{where}.label"))
    return Spec(features, label)


def read_spec_file(path: Path, wanted: str) -> Spec | None:
    """Return the spec in a TOML file; None where the file's sha256 is the wanted one."""
    import tomlkit
    import tomlkit.exceptions

    content = document.read_bytes(path, "spec", _MAX_TOML)
    if hashlib.sha256(content).hexdigest() == wanted:
        return None
    try:
        data = tomlkit.parse(content.decode("utf-8-sig")).unwrap()
    except (ValueError, RecursionError, tomlkit.exceptions.TOMLKitError) as error:
        raise Refused(f"spec {path.name}: not valid TOML ({str(error)[:200]})") from error
    return read_spec(data, f"spec {path.name}")


def spec_digest(spec: Spec) -> str:
    """Return the sha256 of the spec as fairmend writes it to a TOML file."""
    import tomlkit

    tables = []
    for f in spec.features:
        table: dict[str, Any] = {"name": f.name, "kind": f.kind}
        ends = [f.low, f.high]
        table |= {"categories": list(f.categories)} if f.categories else {"range": ends}
        table |= {"encoding": f.encoding} if f.one_hot else {}
        if f.scale:
            table["scale"] = tomlkit.inline_table()
            table["scale"].update(dict(f.scale))
        table |= {"protected": True} if f.protected else {}
        if f.tolerance:
            short = f.kind == "integer" and f.tolerance.is_integer()
            table["tolerance"] = int(f.tolerance) if short else f.tolerance
        table |= {"dropped": f.dropped} if f.dropped is not None else {}
        table |= {"missing": f.missing} if f.missing is not None else {}
        table |= {"encoding": f.encoding} if f.categories else {}  # fairmend writes it last where it is the default
        tables.append(table)
    label = {"label": {"column": spec.label[0], "positive": spec.label[1]}} if spec.label else {}
    try:
        return hashlib.sha256(tomlkit.dumps({**label, "feature": tables}).encode("utf-8")).hexdigest()
    except (UnicodeEncodeError, ValueError) as error:
        raise Refused("spec.content holds a text that no TOML file can hold") from error


def first_difference(ours: Spec, theirs: Spec) -> str | None:
    """Return where two specs differ in meaning, in words; None where they say the same."""
    if len(ours.features) != len(theirs.features):
        return f"{len(theirs.features)} features instead of {len(ours.features)}"
    for one, other in zip(ours.features, theirs.features, strict=True):
        for key in fields(Feature):
            before, after = getattr(one, key.name), getattr(other, key.name)
            if before != after:
                return f'feature "{one.name}": {key.name} is {after!r} instead of {before!r}'
    if ours.label != theirs.label:
        return f"the label is {theirs.label} instead of {ours.label}"
    return None


def _feature(entry: Any, where: str) -> Feature:
    name = document.take(entry, "name", str, where)
    where = f'feature "{name[:40]}" ({where})'
    document.only_keys(entry, _KEYS, where)
    kind = document.take(entry, "kind", str, where)
    if kind not in ("continuous", "integer", "categorical"):
        raise Refused(f"{where} is of the unknown kind {kind[:40]}")
    encoding = document.take(entry, "encoding", str, where) if "encoding" in entry else "ordinal"
    protected = document.take(entry, "protected", bool, where) if "protected" in entry else False
    tolerance = document.take(entry, "tolerance", float, where) if "tolerance" in entry else 0.0
    if encoding not in ("ordinal", "one-hot") or (encoding == "one-hot" and kind != "categorical"):
        raise Refused(f"{where} has the encoding {encoding[:40]}")
    if tolerance < 0 or (tolerance > 0 and (protected or kind == "categorical")):
        raise Refused(f"{where} cannot have a tolerance of {tolerance:g}")
    categories: tuple[str, ...] = ()
    if kind == "categorical":
        if "range" in entry:
            raise Refused(f"{where} has categories, so it has no range")
        categories = tuple(_text(value, where) for value in document.take(entry, "categories", list, where))
        if not categories or len(set(categories)) != len(categories):
            raise Refused(f"{where} needs distinct categories")
        low, high = 0.0, len(categories) - 1.0
    else:
        if "categories" in entry:
            raise Refused(f"{where} has a range, so it has no categories")
        low, high = (float(end) for end in document.numbers(entry.get("range"), 2, f"{where}.range"))
        if low > high:
            raise Refused(f"{where} has an empty range")
    if kind == "integer":
        if not (low.is_integer() and high.is_integer()) or max(-low, high) > _EXACT:
            raise Refused(f"{where} needs whole numbers for its range")
        low, high = int(low), int(high)
    if entry.get("protected") is True and low == high:
        raise Refused(f"{where} is protected and has one value only, so nothing is claimed about it")
    scale = _scale(entry["scale"], where) if "scale" in entry else ()
    if scale and encoding == "one-hot":
        raise Refused(f"{where} is one-hot and cannot have a scale")
    dropped = _category(entry["dropped"], categories, f"{where}.dropped") if "dropped" in entry else None
    if dropped is not None and (encoding != "one-hot" or len(categories) < 2):
        raise Refused(f"{where} drops a category, which only a one-hot feature of several can do")
    missing: float | str | None = None
    if "missing" in entry and kind == "categorical":
        missing = _category(entry["missing"], categories, f"{where}.missing")
    elif "missing" in entry:
        missing = document.take(entry, "missing", float, where)
        if not low <= missing <= high or (kind == "integer" and not missing.is_integer()):
            raise Refused(f"{where} has a value for what is missing that it cannot take")
        missing = int(missing) if kind == "integer" else missing
    feature = Feature(name, kind, low, high, categories, encoding, scale, protected, tolerance, dropped, missing)
    if not 0 < feature.affine[1] < math.inf:
        raise Refused(f"{where} has a scale that is not positive")
    return feature


def _scale(entry: Any, where: str) -> tuple[tuple[str, float], ...]:
    for keys in (("mean", "std"), ("min", "max")):
        if type(entry) is dict and set(entry) == set(keys):
            return tuple((key, document.take(entry, key, float, f"{where}.scale")) for key in keys)
    raise Refused(f"{where} needs a scale of mean and std, or of min and max")


def _category(value: Any, categories: tuple[str, ...], where: str) -> str:
    text = _text(value, where)
    if text not in categories:
        raise Refused(f"{where} is none of the categories")
    return text


def _text(value: Any, where: str) -> str:
    """Return a category or label as text: 1 and 1.0 are "1"."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) not in (str, int, float, bool) or not str(value).strip():
        raise Refused(f"{where} holds something that is not a text, a number or true/false")
    return str(value).strip()
