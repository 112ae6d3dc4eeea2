"""The entry of a model: its first nodes, which replace what similar people may differ in; as typed data.

A *port* is an input of the model. A column of a port is *cut* (replaced by a constant, whatever it holds), *looked up*
(replaced by what stands in a table at an index that is computed from columns) or *kept*, bit for bit. docs/classes.md
describes the data, and `readers.onnx_entry` which nodes they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.json_reader import only_keys, take
from fairmend_check.kernel.features import EXACT, Feature
from fairmend_check.kernel.spec import Spec

FLOATS, WHOLE = ("float32", "float64"), ("int32", "int64")
TYPES = (*FLOATS, *WHOLE, "string", "bool")
MAX_WIDTH = 100_000  # columns of a port
MAX_ROWS = 2**20  # of a table, and entries of it
_MAX_WEIGHT = 2**31 - 1


@dataclass(frozen=True)
class Port:
    """An input of the model, of ``rank`` 2 (rows, width), or 1 (rows,) with a width of 1."""

    name: str
    type: str
    rank: int
    features: tuple[Feature, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first column of each feature."""
        return tuple(int(start) for start in np.cumsum([0, *(feature.width for feature in self.features)])[:-1])

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(feature.width for feature in self.features)

    @cached_property
    def owners(self) -> tuple[tuple[Feature, int], ...]:
        """For each column the feature that it belongs to, and its place among the columns of that feature."""
        return tuple((feature, place) for feature in self.features for place in range(feature.width))


@dataclass(frozen=True)
class Cut:
    """A column that is replaced by a constant of the port's type."""

    port: int
    column: int
    value: float | int | bool | str


@dataclass(frozen=True)
class Code:
    """A whole number from 0 to ``most``, computed from columns of a port: the sum of weights of comparisons that hold.

    One column is compared with every constant, or as many columns as constants each with its own.
    """

    port: int
    columns: tuple[int, ...]
    compare: str  # ">=" or "=="
    constants: tuple[float | int | bool | str, ...]
    weights: tuple[int, ...]

    @property
    def most(self) -> int:
        """The largest code; a larger sum becomes this."""
        return len(self.weights) if set(self.weights) == {1} else max(self.weights)

    @property
    def comparisons(self) -> list[tuple[int, float | int | bool | str, int]]:
        """Each comparison: its column, its constant and its weight."""
        columns = self.columns * len(self.constants) if len(self.columns) == 1 else self.columns
        return list(zip(columns, self.constants, self.weights, strict=True))


@dataclass(frozen=True)
class Lookup:
    """Columns that are replaced by a row of a table: the one whose number is that of the codes in mixed radix."""

    port: int
    columns: tuple[int, ...]
    codes: tuple[Code, ...]
    table: tuple[tuple[float | int | bool | str, ...], ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """What each code is multiplied with to give the index; the first one is the most significant."""
        radices = [code.most + 1 for code in self.codes]
        return tuple(math.prod(radices[place + 1 :]) for place in range(len(radices)))


@dataclass(frozen=True)
class Entry:
    """Ports, cuts and look-ups; every column is in at most one cut or look-up."""

    ports: tuple[Port, ...]
    cuts: tuple[Cut, ...]
    lookups: tuple[Lookup, ...]

    def cut_columns(self, port: int) -> dict[int, float | int | bool | str]:
        """Return the constants of the columns of a port that are cut."""
        return {cut.column: cut.value for cut in self.cuts if cut.port == port}

    def kept_columns(self, port: int) -> list[int]:
        """Return the columns of a port that pass as they are."""
        taken = {column for each in self.lookups if each.port == port for column in each.columns}
        taken |= set(self.cut_columns(port))
        return [column for column in range(self.ports[port].width) if column not in taken]

    def read_columns(self, port: int) -> set[int]:
        """Return the columns of a port that codes read."""
        return {column for each in self.lookups for code in each.codes if code.port == port for column in code.columns}


def array_of(values: Sequence[Any], kind: str) -> np.ndarray[Any, Any]:
    """Return values of a port's type as an array; texts are objects."""
    return np.array(values, dtype=object if kind == "string" else kind)


def read_entry(data: dict[str, Any], spec: Spec, where: str = "certificate.entry") -> Entry:
    """Return the entry in plain data; refuse one whose parts do not fit together, or that does not fit the spec."""
    only_keys(data, ("ports", "cuts", "lookups"), where)
    ports = tuple(_port(each, spec, f"{where}.ports[{i}]") for i, each in enumerate(take(data, "ports", list, where)))
    _check_features(ports, spec, where)
    cuts = tuple(_cut(each, ports, f"{where}.cuts[{i}]") for i, each in enumerate(take(data, "cuts", list, where)))
    lookups = tuple(
        _lookup(each, ports, f"{where}.lookups[{i}]") for i, each in enumerate(take(data, "lookups", list, where))
    )
    written = [(cut.port, cut.column) for cut in cuts]
    written += [(each.port, column) for each in lookups for column in each.columns]
    if len(set(written)) != len(written):
        raise CheckError(f"{where} cuts or looks up a column twice")
    return Entry(ports, cuts, lookups)


def _port(data: Any, spec: Spec, where: str) -> Port:
    name, kind = take(data, "name", str, where), take(data, "type", str, where)
    only_keys(data, ("name", "type", "rank", "width", "features"), where)
    rank, width = take(data, "rank", int, where), take(data, "width", int, where)
    names = take(data, "features", list, where)
    if not name or kind not in TYPES or rank not in (1, 2):
        raise CheckError(f"{where} needs a name, one of the types {', '.join(TYPES)}, and the rank 1 or 2")
    unknown = [each for each in names if type(each) is not str or each not in spec.places]
    if unknown or not names:
        raise CheckError(f"{where}.features must be features of the spec, not {str(unknown[:1])[:60]}")
    port = Port(name, kind, rank, tuple(spec.places[each][0] for each in names))
    if not 1 <= width <= MAX_WIDTH or width != port.width or (rank == 1 and width != 1):
        raise CheckError(f"{where}.width is {width}, but its features have {port.width} columns")
    for feature in port.features:
        if not _fits(feature, kind):
            raise CheckError(f'{where}: feature "{feature.name[:40]}" cannot be read by an input of the type {kind}')
        if kind == "string" and any("\0" in category for category in feature.categories):
            raise CheckError(
                f'{where}: a category of "{feature.name[:40]}" has a NUL character, where programs end a text'
            )
    return port


def _fits(feature: Feature, kind: str) -> bool:
    """Return whether a port of a type can hold the values of a feature."""
    if kind == "string":
        return bool(feature.categories) and not feature.one_hot and not feature.scale
    if kind in FLOATS or feature.one_hot:
        return True
    largest = 1 if kind == "bool" else np.iinfo(kind).max
    return (
        feature.whole
        and not feature.scale
        and (0 if kind == "bool" else -largest) <= feature.low <= (feature.high) <= largest
    )


def _check_features(ports: Sequence[Port], spec: Spec, where: str) -> None:
    """Refuse ports that do not read every feature of the spec once, in its order, and at the input that it names."""
    if len({port.name for port in ports}) != len(ports) or not ports:
        raise CheckError(f"{where}.ports must have distinct names")
    for port in ports:
        if any(feature.input not in (None, port.name) for feature in port.features):
            raise NotConfirmedError(f'{where}: the spec gives a feature of the input "{port.name[:40]}" to another one')
        if list(port.features) != [feature for feature in spec.features if feature in port.features]:
            raise NotConfirmedError(f'{where}: the features of "{port.name[:40]}" are not in the order of the spec')
    if sorted(feature.name for port in ports for feature in port.features) != sorted(spec.places):
        raise NotConfirmedError(f"{where}: a feature of the spec is read by no input, or by several")


def _cut(data: Any, ports: Sequence[Port], where: str) -> Cut:
    port = _number(data, "port", len(ports), where)
    only_keys(data, ("port", "column", "value"), where)
    column = _number(data, "column", ports[port].width, where)
    if "value" not in data:
        raise CheckError(f'{where} has no "value"')
    return Cut(port, column, _constant(data["value"], ports[port].type, where))


def _lookup(data: Any, ports: Sequence[Port], where: str) -> Lookup:
    port = _number(data, "port", len(ports), where)
    only_keys(data, ("port", "columns", "codes", "table"), where)
    columns = _columns(data, ports[port], where)
    entries = take(data, "codes", list, where)
    codes = tuple(_code(each, ports, f"{where}.codes[{i}]") for i, each in enumerate(entries))
    rows = take(data, "table", list, where)
    expected = math.prod(code.most + 1 for code in codes)
    if not codes or expected * len(columns) > MAX_ROWS:
        raise CheckError(f"{where} must have codes, and a table of at most {MAX_ROWS:,} numbers")
    if len(rows) != expected or not all(type(row) is list and len(row) == len(columns) for row in rows):
        raise CheckError(f"{where}.table must have {expected:,} rows of {len(columns)}")
    kind = ports[port].type
    table = tuple(tuple(_constant(each, kind, f"{where}.table") for each in row) for row in rows)
    return Lookup(port, columns, codes, table)


def _code(data: Any, ports: Sequence[Port], where: str) -> Code:
    port = _number(data, "port", len(ports), where)
    only_keys(data, ("port", "columns", "compare", "with", "weights"), where)
    columns, compare = _columns(data, ports[port], where), take(data, "compare", str, where)
    kind = ports[port].type
    if compare not in ((">=", "==") if kind in (*FLOATS, *WHOLE) else ("==",)):
        raise CheckError(f'{where}.compare is {compare[:10]!r}; it must be "==", or ">=" for numbers')
    constants = tuple(_constant(each, kind, f"{where}.with") for each in take(data, "with", list, where))
    weights = take(data, "weights", list, where)
    if not constants or len(weights) != len(constants) or len(columns) not in (1, len(constants)):
        raise CheckError(f"{where} must have a weight for each constant, and one column or as many as constants")
    if not all(type(each) is int and 1 <= each <= MAX_ROWS for each in weights) or sum(weights) > _MAX_WEIGHT:
        raise CheckError(f"{where}.weights must be whole numbers from 1 to {MAX_ROWS:,}")
    return Code(port, columns, compare, constants, tuple(weights))


def _number(data: Any, key: str, end: int, where: str) -> int:
    found = take(data, key, int, where)
    if not 0 <= found < end:
        raise CheckError(f"{where}.{key} is {found}; it must be 0 to {end - 1}")
    return found


def _columns(data: Any, port: Port, where: str) -> tuple[int, ...]:
    columns = take(data, "columns", list, where)
    if not columns or not all(type(each) is int and 0 <= each < port.width for each in columns):
        raise CheckError(f"{where}.columns must be columns of its port, from 0 to {port.width - 1}")
    if len(set(columns)) != len(columns):
        raise CheckError(f"{where}.columns names a column twice")
    return tuple(columns)


def _constant(value: Any, kind: str, where: str) -> float | int | bool | str:
    """Return a constant of a port's type; a number must be one of that type already, so that nothing is rounded.

    Whole numbers are compared as doubles (`classes._compare`), so they must be ones up to 2^53.
    """
    if kind == "string":
        fits = type(value) is str and "\0" not in value and not any(0xD800 <= ord(c) < 0xE000 for c in value)
    elif kind == "bool":
        fits = type(value) is bool
    elif kind in WHOLE:
        fits = type(value) is int and abs(value) <= min(np.iinfo(kind).max, EXACT)
    else:
        value = float(value) if type(value) is int else value
        with np.errstate(over="ignore"):
            fits = type(value) is float and math.isfinite(value) and float(np.dtype(kind).type(value)) == value
    if not fits:
        raise CheckError(f"{where} holds {str(value)[:40]!r}, which is not of the type {kind} of its input")
    return value  # type: ignore[no-any-return]
