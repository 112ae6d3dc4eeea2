"""The canonical map of a spec: which value stands for a class of similar people, for the ports of any model.

Features whose every value is similar to every other are cut: a reference value takes their place. A band is replaced by
its representative, the median of the data in it. Linked features are looked up: what this person would have with the
reference values of the protected features.

Whole numbers are told apart halfway between their encodings, so that scaling them in another precision does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.models.entry import ELEMENT_TYPES, Code, Cut, Entry, Matrix, TableLookup
from fairmend.models.ports import Port
from fairmend.spec import Spec
from fairmend.spec.classes import LinkedClasses, SimilarityClasses, similarity_classes
from fairmend.spec.features import Feature

MOST_ROWS = 1_000_000
"""Of a table: with more, a feature has too many values to be looked up."""


@dataclass(frozen=True)
class Place:
    """Where a model reads a feature: the number of the port, and its columns there."""

    port: int
    columns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CanonicalMap:
    """A choice of what stands for each class.

    ``reference`` has a value, or code, for each free feature. ``representative`` has one for each band, or class of
    linked values, of the other features in which similar people differ.
    """

    spec: Spec
    classes: SimilarityClasses
    reference: Mapping[str, float]
    representative: Mapping[str, Floats]

    def place(self, feature: Feature, ports: Sequence[Port]) -> Place:
        """Return where a feature is read."""
        for number, port in enumerate(ports):
            if feature.name in port.features:
                before = port.features[: port.features.index(feature.name)]
                start = sum(each.width for each in self.spec.features if each.name in before)
                return Place(number, tuple(range(start, start + feature.width)))
        raise FairmendError(f'no input of the model reads feature "{feature.name}"')

    def apply(self, X: FloatArray) -> FloatArray:
        """Return the canonical rows of encoded rows X (rows, width)."""
        port = spec_port(self.spec, X.dtype.name)
        return self.entry([port]).apply([X])[0]

    def entry(self, ports: Sequence[Port]) -> Entry:
        """Return the map for the ports of a model."""
        cuts, lookups = [], []
        for feature in self.spec.features:
            if feature.name in self.classes.free:
                cuts += self._cut(feature, self.reference[feature.name], ports)
            elif feature.name in self.classes.banded:
                lookups.append(self._band_lookup(feature, ports))
            elif feature.name in self.classes.linked:
                lookups.append(self._linked_lookup(feature, self.classes.linked[feature.name], ports))
        return self._made(ports, cuts, lookups)

    def member(self, ports: Sequence[Port], values: Mapping[str, float], linked: Mapping[str, Floats]) -> Entry:
        """Return what turns canonical rows into those of one member of their class.

        ``values`` has the value of every free feature, and ``linked`` that of every linked one for each of its classes.
        """
        cuts, lookups = [], []
        for feature in self.spec.features:
            if feature.name in self.classes.free:
                cuts += self._cut(feature, values[feature.name], ports)
            elif feature.name in self.classes.linked:
                code, own = self.read_value(feature, ports)
                lookups.append(self._lookup(feature, ports, (code,), linked[feature.name][self.class_at(feature, own)]))
        return self._made(ports, cuts, lookups)

    def class_at(self, feature: Feature, values: Floats) -> Ints:
        """Return the class of values of a linked feature, beside the reference values of the protected ones."""
        linked = self.classes.linked[feature.name]
        return np.asarray(linked.table[(*self.cells(linked, self.reference), self._numbers(feature, values))])

    def _made(self, ports: Sequence[Port], cuts: Sequence[Cut], lookups: Sequence[TableLookup]) -> Entry:
        return Entry(tuple(ports), tuple(port.width(self.spec) for port in ports), tuple(cuts), tuple(lookups))

    def _cut(self, feature: Feature, value: float, ports: Sequence[Port]) -> list[Cut]:
        place = self.place(feature, ports)
        held = hold(feature, np.array([value]), ports[place.port].type)[0].tolist()
        return [Cut(place.port, column, each) for column, each in zip(place.columns, held, strict=True)]

    def _lookup(self, feature: Feature, ports: Sequence[Port], codes: tuple[Code, ...], values: Floats) -> TableLookup:
        place = self.place(feature, ports)
        return TableLookup(place.port, place.columns, codes, hold(feature, values, ports[place.port].type))

    def _band_lookup(self, feature: Feature, ports: Sequence[Port]) -> TableLookup:
        representative = self.representative[feature.name]
        if not feature.categories:
            code = self._read_steps(feature, np.asarray(feature.lower_ends[1:], dtype=np.float64), ports)
            return self._lookup(feature, ports, (code,), representative)
        code, own = self.read_value(feature, ports)
        band = np.empty(len(feature.categories), dtype=np.int64)
        for number, codes in enumerate(feature.groups):
            band[list(codes)] = number
        return self._lookup(feature, ports, (code,), representative[band[own.astype(np.int64)]])

    def _linked_lookup(self, feature: Feature, linked: LinkedClasses, ports: Sequence[Port]) -> TableLookup:
        readings = []
        for name, cells in zip(linked.when, linked.cells, strict=True):
            when = self.spec.feature(name)
            if when.categories:
                code, own = self.read_value(when, ports)
                readings.append((code, [_cell_of(cells, value) for value in own]))
            else:
                firsts = sorted((low, k) for k, cell in enumerate(cells) for low, _ in cell)
                starts = np.array([low for low, _ in firsts[1:]], dtype=np.float64)
                readings.append((self._read_steps(when, starts, ports), [k for _, k in firsts]))
        code, own = self.read_value(feature, ports)
        numbers = self._numbers(feature, own)
        index = list(product(*(cells for _, cells in readings), numbers.tolist()))
        if len(index) > MOST_ROWS:
            raise FairmendError(f'feature "{feature.name}" has too many values to be looked up; give it bands instead')
        classes = linked.table[tuple(np.array(index, dtype=np.int64).T)]
        codes = (*(reading for reading, _ in readings), code)
        return self._lookup(feature, ports, codes, self.representative[feature.name][classes])

    def read_value(self, feature: Feature, ports: Sequence[Port]) -> tuple[Code, Floats]:
        """Return how to read the value of a feature that is not continuous, and which value each code stands for."""
        place = self.place(feature, ports)
        kind = ports[place.port].type
        names = feature.categories or ()
        if kind == "string":
            marks = tuple(range(1, len(names) + 1))
            return Code(place.port, place.columns, "==", names, marks), np.array([0, *range(len(names))], np.float64)
        if feature.one_hot:
            marked = [number for number, name in enumerate(names) if name != feature.dropped]
            none = 0 if feature.dropped is None else names.index(feature.dropped)
            half = tuple([True if kind == "bool" else 1 if kind.startswith("int") else 0.5] * len(marked))
            compare = "==" if kind == "bool" else ">="
            code = Code(place.port, place.columns, compare, half, tuple(range(1, len(marked) + 1)))
            return code, np.array([none, *marked], np.float64)
        low, high = (int(end) for end in feature.bounds)
        if high - low >= MOST_ROWS:
            raise FairmendError(f'feature "{feature.name}" has too many values to be looked up; give it bands instead')
        return self._read_steps(feature, np.arange(low + 1, high + 1, dtype=np.float64), ports), np.arange(
            low, high + 1, dtype=np.float64
        )

    def _read_steps(self, feature: Feature, firsts: Floats, ports: Sequence[Port]) -> Code:
        """Return how to read which step a number is on: each begins at one of the first values, in order."""
        place = self.place(feature, ports)
        kind = ports[place.port].type
        dtype = ELEMENT_TYPES[kind]
        if kind == "bool":
            return Code(place.port, place.columns, "==", (True,) * len(firsts), (1,) * len(firsts))
        begin = hold(feature, firsts, kind)[:, 0]
        if feature.kind == "continuous" or not np.issubdtype(dtype, np.floating):
            limits = begin
        else:
            before = hold(feature, firsts - 1, kind)[:, 0]
            if not (before < begin).all():
                raise FairmendError(f'feature "{feature.name}": {dtype} does not tell its values apart')
            limits = ((before.astype(np.float64) + begin) / 2).astype(dtype)
        return Code(place.port, place.columns, ">=", tuple(limits.tolist()), (1,) * len(limits))

    def cells(self, linked: LinkedClasses, values: Mapping[str, float]) -> tuple[int, ...]:
        """Return the cells of values of the features that a link depends on."""
        pairs = zip(linked.when, linked.cells, strict=True)
        return tuple(_cell_of(cells, values[name]) for name, cells in pairs)

    def _numbers(self, feature: Feature, values: Floats) -> Ints:
        """Return the numbers of values in the table of a linked feature: from 0 on, in order."""
        return (values - feature.bounds[0]).astype(np.int64)


def _cell_of(cells: Sequence[Sequence[tuple[float, float]]], value: float) -> int:
    return next(k for k, runs in enumerate(cells) if any(low <= value <= high for low, high in runs))


def hold(feature: Feature, values: Floats, kind: str) -> Matrix:
    """Return what a port of a type holds for values, or codes, of a feature: (values, columns)."""
    if kind == "string":
        return np.array(feature.categories, dtype=object)[values.astype(np.int64)][:, None]
    if feature.one_hot or kind in ("float32", "float64"):
        return feature.encode(values, ELEMENT_TYPES[kind])
    return np.rint(values).astype(ELEMENT_TYPES[kind])[:, None]


def spec_port(spec: Spec, kind: str) -> Port:
    """Return the port of a model that reads the columns of a spec as they are."""
    return Port("input", kind, 2, tuple(feature.name for feature in spec.features))


def choose_map(spec: Spec, X: FloatArray) -> CanonicalMap:
    """Return the map whose references and representatives are typical of rows X (rows, width) of data."""
    classes = _without_continuous(similarity_classes(spec))
    reference, representative = {}, {}
    values = {feature.name: spec.values_of(feature, X) for feature in spec.features}
    for feature in spec.features:
        if feature.name in classes.free:
            reference[feature.name] = _typical(feature, values[feature.name])
    draft = CanonicalMap(spec, classes, reference, {})
    for feature in spec.features:
        own = values[feature.name]
        if feature.name in classes.banded:
            representative[feature.name] = _band_values(feature, own)
        elif feature.name in classes.linked:
            linked = classes.linked[feature.name]
            at_reference = linked.table[draft.cells(linked, reference)]
            count = np.bincount(draft._numbers(feature, own), minlength=len(at_reference))
            representative[feature.name] = np.array(
                [
                    feature.bounds[0]
                    + max(np.flatnonzero(at_reference == number), key=lambda each: (count[each], -each))
                    for number in range(linked.count)
                ],
                dtype=np.float64,
            )
    return CanonicalMap(spec, classes, reference, representative)


def _without_continuous(classes: SimilarityClasses) -> SimilarityClasses:
    """Return the classes without linked features that depend on continuous ones: those are free."""
    lost = [
        name for name, linked in classes.linked.items() if any(each.kind == "continuous" for each in linked.conditions)
    ]
    kept = {name: linked for name, linked in classes.linked.items() if name not in lost}
    return replace(classes, free=(*classes.free, *lost), swallowed=(*classes.swallowed, *lost), linked=kept)


def _typical(feature: Feature, values: Floats) -> float:
    """Return the most frequent category, or the median."""
    if feature.categories:
        return float(np.bincount(values.astype(np.int64)).argmax())
    return float(np.quantile(values, 0.5, method="nearest"))


def _band_values(feature: Feature, own: Floats) -> Floats:
    """Return the value that stands for each band: the typical one of the data in it, or one in its middle."""
    if feature.categories:
        groups = [np.array(group, dtype=np.float64) for group in feature.groups]
        inside = [own[np.isin(own, group)] for group in groups]
        return np.array(
            [_typical(feature, some) if len(some) else group[0] for some, group in zip(inside, groups, strict=True)]
        )
    lower = np.asarray(feature.lower_ends, dtype=np.float64)
    upper = np.append(lower[1:], feature.bounds[1])
    band = np.searchsorted(lower, own, side="right") - 1
    middle = (lower + upper) / 2 if feature.kind == "continuous" else np.floor((lower + upper) / 2)
    middle = np.minimum(np.maximum(middle, lower), feature.bounds[1])
    return np.array([_typical(feature, own[band == k]) if (band == k).any() else middle[k] for k in range(len(lower))])
