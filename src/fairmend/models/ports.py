"""Ports: the inputs of a model, which features of a spec each of them reads, and what it holds for their values.

A feature with `input` in the spec is read by the input of that name. Without it, features belong to the one input of a
model, to the inputs of their own names, or to the inputs in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import listed
from fairmend.spec import Spec
from fairmend.spec.features import Feature

TYPES = ("float32", "float64", "int64", "int32", "string", "bool")
"""What a port can hold."""

_INTEGERS = ("int64", "int32")


@dataclass(frozen=True)
class InputSignature:
    """An input as the model declares it: its rank is 1 for (rows,), else 2; `width` is None where it is open."""

    name: str
    type: str
    rank: int = 2
    width: int | None = None


@dataclass(frozen=True)
class Port:
    """An input of a model, and the features that it reads, in the order of its columns.

    Attributes
    ----------
    name : the name of the input
    type : "float32", "float64", "int64", "int32", "string" or "bool"
    rank : 2 for (rows, width), 1 for (rows,)
    features : names of features of the spec, each with as many columns as it has there
    """

    name: str
    type: str
    rank: int
    features: tuple[str, ...]

    def width(self, spec: Spec) -> int:
        """Return the number of columns."""
        return sum(spec.feature(name).width for name in self.features)

    def columns(self, spec: Spec) -> NDArray[np.int64]:
        """Return which columns of the spec's matrix it reads, in its own order."""
        return np.concatenate([np.arange(spec.width)[spec.columns(name)] for name in self.features])

    def values(self, spec: Spec, X: FloatArray) -> NDArray[Any]:
        """Return what the port holds for rows X (rows, width of the spec)."""
        if self.type in ("float32", "float64"):
            held: NDArray[Any] = np.ascontiguousarray(X[:, self.columns(spec)], dtype=self.type)
        else:
            held = np.concatenate([self._held(spec, name, X) for name in self.features], axis=1)
        return held[:, 0] if self.rank == 1 else held

    def _held(self, spec: Spec, name: str, X: FloatArray) -> NDArray[Any]:
        feature, x = spec.feature(name), X[:, spec.columns(name)]
        if self.type == "string":
            return np.array(feature.categories, dtype=object)[feature.nearest(x[:, 0]).astype(np.int64)][:, None]
        whole = x if feature.one_hot else np.rint(feature.unscaled(x))
        return np.ascontiguousarray(whole.astype(np.int64).astype(self.type))


def unscaled(spec: Spec, X: FloatArray) -> FloatArray:
    """Return the values, codes and one-hot columns behind encoded rows X (rows, width)."""
    found = X.astype(np.float64)
    for feature in spec.features:
        if feature.scale is not None:
            found[:, spec.columns(feature.name)] = feature.unscaled(X[:, spec.columns(feature.name)])
    return found


def ports_of(signature: Sequence[InputSignature], spec: Spec, model: str = "the model") -> tuple[Port, ...]:
    """Return which features of the spec each input reads; together they read every feature once.

    Inputs that no feature can fill, and features that no input reads, are refused by name.
    """
    readers = _readers(signature, spec, model)
    ports = []
    for each in signature:
        features = tuple(f.name for f in spec.features if readers[f.name] == each.name)
        if not features:
            raise FairmendError(
                f'{model}: no feature of the spec belongs to its input "{each.name}". Add input = "{each.name}" to the '
                "features that it reads"
            )
        port = Port(each.name, each.type, each.rank, features)
        _require_holds(port, each, spec, model)
        ports.append(port)
    return tuple(ports)


def _readers(signature: Sequence[InputSignature], spec: Spec, model: str) -> dict[str, str]:
    """Return the name of the input that reads each feature."""
    names = [each.name for each in signature]
    given = {f.name: f.input for f in spec.features if f.input is not None}
    unknown = next((item for item in given.items() if item[1] not in names), None)
    if unknown is not None:
        raise FairmendError(
            f'feature "{unknown[0]}": the spec says input = "{unknown[1]}", but {model} has the inputs {listed(names)}'
        )
    left = [f for f in spec.features if f.input is None]
    if not left:
        return dict(given)
    if len(signature) == 1:
        return {f.name: names[0] for f in spec.features}
    free = [each for each in signature if each.name not in given.values()]
    found = _by_name(free, left) or _in_order(free, left)
    if found is None:
        raise FairmendError(
            f"{model} has {len(names)} inputs ({listed(names)}), and the spec does not say which of them reads feature "
            f'"{left[0].name}". Add input = "…" with the name of an input to every feature'
        )
    return {**given, **found}


def _by_name(signature: Iterable[InputSignature], features: Sequence[Feature]) -> dict[str, str] | None:
    """Return the input of each feature if inputs have the names of features, or those names as identifiers."""
    inputs = [each.name for each in signature]
    for spell in (str, as_identifier):
        spelled = {spell(name): name for name in inputs}
        found = {f.name: spelled.get(spell(f.name)) for f in features}
        if len(spelled) == len(inputs) and None not in found.values() and len(set(found.values())) == len(features):
            return {name: reader for name, reader in found.items() if reader is not None}
    return None


def as_identifier(name: str) -> str:
    """Return a name as exporters write it that allow letters, digits and underscores only."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def spelled_alike(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the column of each name; none unless every name has one of its own."""
    for spell in (str, as_identifier):
        spelled = {spell(column): column for column in columns}
        found = [spelled.get(spell(name)) for name in names]
        if len(spelled) == len(columns) and None not in found and len(set(found)) == len(names):
            return [column for column in found if column is not None]
    return []


def _in_order(signature: Iterable[InputSignature], features: Sequence[Feature]) -> dict[str, str] | None:
    """Return the input of each feature if the inputs, one after another, have room for whole features."""
    found, left = {}, list(features)
    for each in signature:
        width = 1 if each.rank == 1 else each.width
        while left and width is not None and width >= left[0].width:
            width -= left[0].width
            found[left.pop(0).name] = each.name
        if width != 0:
            return None
    return None if left else found


def _require_holds(port: Port, each: InputSignature, spec: Spec, model: str) -> None:
    """Refuse a port that cannot hold the values of its features."""
    where = f'{model}: input "{port.name}"'
    if port.type not in TYPES:
        raise FairmendError(f"{where} is {port.type}; fairmend fills inputs of {listed(TYPES, 'or')}")
    for name in port.features if not port.type.startswith("float") else ():
        problem = _problem(spec.feature(name), port.type)
        if problem:
            raise FairmendError(f'{where} is {port.type}, but feature "{name}" {problem}')
    width = 1 if port.rank == 1 else each.width
    if width is not None and width != port.width(spec):
        raise FairmendError(
            f"{where} has {width} columns, but the spec gives it {port.width(spec)}: {listed(port.features)}"
        )


def _problem(feature: Feature, kind: str) -> str:
    """Return why a port of this type cannot hold a feature, and the way out; "" if it can."""
    if kind == "string":
        if feature.categories is None:
            return 'holds numbers; make it kind = "categorical"'
        return 'is one-hot; write encoding = "ordinal" in the spec' if feature.one_hot else ""
    if not feature.whole:
        return f'is {feature.kind}; make it kind = "integer"'
    if feature.scale is not None:
        return "has a scale; remove it: such an input reads whole numbers"
    low, high = (0, 1) if feature.one_hot else feature.bounds
    room = (0, 1) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return f"has values from {low:g} to {high:g}" if low < room[0] or high > room[1] else ""
