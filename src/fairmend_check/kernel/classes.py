"""Whether an entry is constant on classes: whether similar people are the same, bit for bit, behind it.

Similar people have the same number in every column of a feature that does not vary; such columns may be kept. A column
that is cut is the same for all. What is looked up depends on the features that the codes read, and on nothing else. So
for each look-up all combinations of values of these features are listed, as cells: values that no code tells apart, and
that move alike. Then everyone in a cell must find the same row of the table, bit for bit, as everyone they are similar
to: with any other value of a protected feature or one with a tolerance (neighbours chain), with any other value of the
same band, and with what links make of the features that they set. `why_not_constant` says where that fails. What it
checks is sufficient: moves in one feature after the other lead from a person to every similar one, and all people on
the way are listed too. docs/classes.md has the order of the moves, and the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.entry import FLOATS, Code, Entry, Lookup, Port, array_of
from fairmend_check.kernel.features import Feature
from fairmend_check.kernel.links import Link
from fairmend_check.kernel.neighbourhood import encode, encode_one_hot, slack
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Spec

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_VALUES = 2**20  # of a feature that a code reads
MAX_CELLS = 2**24  # combinations of cells of one look-up
MAX_WORK = 2**31  # comparisons of rows of one look-up
_QUARTER = 0.25  # a whole number may be off by no more than this, however large it is


@dataclass(frozen=True, eq=False)
class Axis:
    """The cells of one feature: what codes read in them, and how people move between them.

    ``values`` are those of the feature, or numbers of the model if it is continuous, and ``cells`` the cell of each.
    ``sums`` (codes, cells) are what the columns of the feature add to each code. ``groups`` (cells,) are the cells that
    a move of this feature alone joins, all different if it has none. ``members`` (cells,) counts the values of each
    cell, and ``first`` (cells,) is one of them. ``matches`` (links, cells) says which links name all values of a cell.
    """

    feature: Feature
    values: Array
    cells: Whole
    sums: Whole
    groups: Whole
    members: Whole
    first: Array
    matches: Bools


@dataclass(frozen=True, eq=False)
class Table:
    """All people that a look-up tells apart, and the row that each finds: equal numbers for rows of equal bits.

    ``rows`` has an axis for each feature: first those protected ones that links depend on, ``whens`` of them, then the
    features that these links set, ``thens`` of them, then the others.
    """

    axes: tuple[Axis, ...]
    whens: int
    thens: int
    links: tuple[Link, ...]
    rows: Whole


def why_not_constant(spec: Spec, entry: Entry) -> list[str]:
    """Return why similar people may differ behind an entry; nothing if they are the same, bit for bit."""
    reasons = []
    varying = {feature.name for feature in spec.varying}
    for number, port in enumerate(entry.ports):
        kept = dict.fromkeys(port.owners[column][0].name for column in entry.kept_columns(number))
        reasons += [
            f'certificate.entry: feature "{name[:40]}" varies among similar people, but a column of it is kept'
            for name in kept
            if name in varying
        ]
    for number, lookup in enumerate(entry.lookups):
        where = f"certificate.entry.lookups[{number}]"
        table = table_of(spec, entry, lookup, where)
        found = table if isinstance(table, str) else _why_not_equal(table, where)
        reasons += [found] if found else []
    return reasons


def ignored_features(spec: Spec, entry: Entry) -> list[Feature]:
    """Return the features in which similar people may differ and that reach nothing behind the entry."""
    seen = {
        port.owners[column][0].name
        for number, port in enumerate(entry.ports)
        for column in (*entry.kept_columns(number), *entry.read_columns(number))
    }
    return [feature for feature in spec.varying if feature.name not in seen]


def table_of(spec: Spec, entry: Entry, lookup: Lookup, where: str) -> Table | str:
    """Return who finds which row of a look-up, or why that cannot be said."""
    read = {entry.ports[code.port].owners[column][0].name for code in lookup.codes for column in code.columns}
    links = tuple(link for link in spec.links if any(name in read for name, _ in link.then))
    # Of a link that depends on a continuous feature, it is left open whether it applies.
    when = {name for link in links for name, _ in link.when if spec.places[name][0].whole}
    then = {name for link in links for name, _ in link.then if name in read and spec.places[name][0].whole}
    named = [feature for feature in spec.features if feature.name in when]
    named += [feature for feature in spec.features if feature.name in then]
    named += [feature for feature in spec.features if feature.name in read - when - then]
    axes = []
    for feature in named:
        axis = _axis(spec, entry, lookup, links, feature, feature.name in when, feature.name in then, where)
        if isinstance(axis, str):
            return axis
        axes.append(axis)
    shape = tuple(len(axis.groups) for axis in axes)
    if prod(shape) > MAX_CELLS:
        raise CheckError(f"{where}: more than {MAX_CELLS:,} combinations of values are looked up")
    index = np.zeros(shape, dtype=np.int64)
    for number, (code, stride) in enumerate(zip(lookup.codes, lookup.strides, strict=True)):
        total = np.zeros(shape, dtype=np.int64)
        for place, axis in enumerate(axes):
            total += axis.sums[number].reshape([-1 if at == place else 1 for at in range(len(axes))])
        index += stride * np.minimum(total, code.most)
    return Table(tuple(axes), len(when), len(then), links, _row_numbers(lookup, entry.ports[lookup.port])[index])


def _row_numbers(lookup: Lookup, port: Port) -> Whole:
    """Return a number for each row of a table; rows of equal bits have the same."""
    rows = array_of(lookup.table, port.type)
    known: dict[Any, int] = {}
    keys = [tuple(row) for row in rows.tolist()] if port.type == "string" else [row.tobytes() for row in rows]
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _axis(
    spec: Spec,
    entry: Entry,
    lookup: Lookup,
    links: Sequence[Link],
    feature: Feature,
    in_when: bool,
    in_then: bool,
    where: str,
) -> Axis | str:
    """Return the cells of a feature; a text if it cannot be said what a code makes of a value."""
    number = next(at for at, port in enumerate(entry.ports) if feature in port.features)
    port = entry.ports[number]
    start = port.starts[port.features.index(feature)]
    codes = [code if code.port == number else None for code in lookup.codes]
    if feature.whole:
        count = int(feature.high) - int(feature.low) + 1
        if count > MAX_VALUES:
            raise CheckError(f'{where}: feature "{feature.name[:40]}" has more than {MAX_VALUES:,} values')
        values = np.arange(int(feature.low), int(feature.high) + 1, dtype=np.float64)
        held = _held(feature, port, values)
    else:
        values, held = _pieces(feature, port, start, codes)
    sums = np.zeros((len(codes), len(values)), dtype=np.int64)
    for at, code in enumerate(codes):
        for column, constant, weight in () if code is None else code.comparisons:
            if code is None or not start <= column < start + feature.width:
                continue
            sure, possible = _compare(held[column - start], code.compare, constant)
            if (sure != possible).any():
                value = values[np.flatnonzero(sure != possible)[0]]
                return (
                    f'{where}: feature "{feature.name[:40]}" is compared with {constant!r}, which a value of '
                    f"{value:.10g} may be on either side of when it is scaled in float32"
                )
            sums[at] += weight * sure
    matches = np.zeros((len(links), len(values)), dtype=np.bool_)
    for at, link in enumerate(links):
        for low, high in dict(link.when).get(feature.name, ()) if in_when else ():
            matches[at] |= (values >= low) & (values <= high)
    moves = None if in_when or in_then else _moves(spec, feature, port, values)
    apart = np.arange(len(values)) if in_then else np.zeros(len(values), dtype=np.int64) if moves is None else moves
    # Cells of a linked feature are its values, in their order: `_reached` finds them by that.
    _, first, cells, members = np.unique(
        np.vstack([apart, sums, matches]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    groups = np.arange(len(first)) if moves is None else moves[first]
    return Axis(feature, values, cells.reshape(-1), sums[:, first], groups, members, values[first], matches[:, first])


def _moves(spec: Spec, feature: Feature, port: Port, values: Array) -> Whole | None:
    """Return a number for each value, the same for values that similar people may have; None if they have the same.

    It is about features that links do not depend on. One that is continuous and that a link sets may have any value.
    """
    if feature.groups:
        bands = {name: number for number, group in enumerate(feature.groups) for name in group}
        return np.array([bands[name] for name in feature.categories], dtype=np.int64)
    if feature.bands:
        return np.searchsorted(_upper_ends(feature, port), values, side="right").astype(np.int64)
    return np.zeros(len(values), dtype=np.int64) if feature in spec.varying else None


def _upper_ends(feature: Feature, port: Port) -> Array:
    """Return where the bands of a number end, but the last: the first value, or number of the model, of the next."""
    ends = np.array(feature.bands[1:], dtype=np.float64)
    return ends if feature.whole else encode(feature, ends, np.dtype(port.type))


def _held(feature: Feature, port: Port, values: Array) -> list[Any]:
    """Return what each column of a feature holds for whole values: the least and the largest number, or the texts."""
    if port.type == "string":
        return [np.array(feature.categories, dtype=object)]
    if feature.one_hot:
        columns = encode_one_hot(feature, values.astype(np.int64))
        return [(column, column) for column in columns.T]
    if port.type not in FLOATS:
        return [(values, values)]
    (offset, factor), exact = feature.affine, encode(feature, values, np.dtype(port.type))
    room = np.minimum(1.01 * slack(feature, values), _QUARTER)
    least, largest = ((values + sign * room - offset) / factor for sign in (-1, 1))
    return [(np.minimum(exact, least), np.maximum(exact, largest))]


def _compare(held: Any, compare: str, constant: Any) -> tuple[Bools, Bools]:
    """Return where a comparison surely holds and where it possibly does."""
    if isinstance(constant, str):
        return held == constant, held == constant
    least, largest = held
    if compare == ">=":
        return least >= constant, largest >= constant
    return (least == constant) & (largest == constant), (least <= constant) & (largest >= constant)


def _pieces(feature: Feature, port: Port, start: int, codes: Sequence[Code | None]) -> tuple[Array, list[Any]]:
    """Cut the numbers of a continuous feature where comparisons change, and bands: such numbers, and those between.

    Each piece has a number in it, or one beside it if there is none of the type: no code tells these apart.
    """
    compared = (each for code in codes if code is not None for each in code.comparisons)
    found = {float(constant) for column, constant, _ in compared if column == start}
    ends = sorted(found | set(_upper_ends(feature, port).tolist() if feature.bands else ()))
    if not ends:
        return np.zeros(1), [(np.zeros(1), np.zeros(1))]
    # Between neighbouring numbers there is none; then the middle is rounded to one of them, which is listed anyway.
    between = [low / 2 + high / 2 for low, high in pairwise(ends)]
    outside = [float(np.nextafter(ends[0], -np.inf)), float(np.nextafter(ends[-1], np.inf))]
    values = np.array(sorted({*ends, *between, *outside}))
    return values, [(values, values)]


def _why_not_equal(table: Table, where: str) -> str:
    """Return two similar people who find different rows, in words; empty if there are none."""
    for place, axis in list(enumerate(table.axes))[table.whens + table.thens :]:
        _, leaders, group = np.unique(axis.groups, return_index=True, return_inverse=True)
        first = leaders[group.reshape(-1)]
        different = np.argwhere(table.rows != table.rows.take(first, axis=place))
        if len(different):
            one = different[0]
            other = [*one[:place], first[one[place]], *one[place + 1 :]]
            return _two_people(table, one, other, where)
    return _why_not_linked(table, where) if table.whens + table.thens else ""


def _why_not_linked(table: Table, where: str) -> str:
    """Return two people, of whom one is what links make of the other, who find different rows.

    The target is a cell of every protected feature that links depend on. In some of these, ``agreed``, the person has
    the value of the target already; in the others another one, of another cell or of the same if that has several. A
    link that depends on agreed features alone does not apply.
    """
    whens, thens = table.axes[: table.whens], table.axes[table.whens : table.whens + table.thens]
    sizes = [len(axis.groups) for axis in whens]
    work = prod(size * (size + 1) for size in sizes) * (table.rows.size // prod(sizes))
    if work * (1 + sum(len(axis.groups) for axis in thens)) > MAX_WORK:
        raise CheckError(f"{where}: links connect too many combinations of values to list them")
    for target in product(*map(range, sizes)):
        for agreed in product((False, True), repeat=len(whens)):
            sources = [
                [cell] if same else [other for other in range(size) if other != cell or axis.members[cell] > 1]
                for axis, size, cell, same in zip(whens, sizes, target, agreed, strict=True)
            ]
            if not all(sources):
                continue
            least = largest = table.rows[target]
            for place, axis in enumerate(thens):
                reached = _reached(table, axis, target, agreed)
                least, largest = _over(least, reached, place, np.min), _over(largest, reached, place, np.max)
            people = table.rows[np.ix_(*sources)]
            wrong = np.argwhere((people != least) | (people != largest))
            if len(wrong):
                one = [each[at] for each, at in zip(sources, wrong[0], strict=False)] + list(wrong[0][len(whens) :])
                names = ", ".join(f'"{axis.feature.name[:40]}"' for axis in thens)
                return f"{_person(table, one, where)} finds another row than someone whom links make of them in {names}"
    return ""


def _reached(table: Table, axis: Axis, target: Sequence[int], agreed: Sequence[bool]) -> Bools:
    """Return which values of a linked feature (own, new) people of the target may have, by their own one."""
    low, size = int(axis.feature.low), len(axis.groups)
    found = np.zeros((size, size), dtype=np.bool_)
    stays = np.ones(size, dtype=np.bool_)
    places = {each.feature.name: place for place, each in enumerate(table.axes[: table.whens])}
    for number, link in enumerate(table.links):
        effect = dict(link.then).get(axis.feature.name)
        known = [places[name] for name, _ in link.when if name in places]
        certain = len(known) == len(link.when)  # whether it applies does not depend on a continuous feature
        applies = all(table.axes[place].matches[number, target[place]] for place in known)
        if effect is None or not applies or (certain and all(agreed[place] for place in known)):
            continue
        for own in range(size):
            runs = effect.values(axis.feature, axis.first[own])
            for first, last in runs or ():
                found[own, int(first) - low : int(last) - low + 1] = True
            stays[own] &= runs is None or not certain
    found[np.arange(size), np.arange(size)] |= stays
    return found


def _over(rows: Whole, reached: Bools, place: int, extreme: Any) -> Whole:
    """Return for each own value the least or the largest row over those that are reached, along one axis."""
    parts = [extreme(rows.take(np.flatnonzero(each), axis=place), axis=place) for each in reached]
    return np.asarray(np.stack(parts, axis=place))


def _two_people(table: Table, one: Sequence[Any], other: Sequence[Any], where: str) -> str:
    return f"{_person(table, one, where)} finds another row than with {', '.join(_differences(table, one, other))}"


def _person(table: Table, cells: Sequence[Any], where: str) -> str:
    values = (
        f"{axis.feature.name[:40]} = {_shown(axis, int(cell))}" for axis, cell in zip(table.axes, cells, strict=True)
    )
    return f"{where}: someone with {', '.join(values)}"


def _differences(table: Table, one: Sequence[Any], other: Sequence[Any]) -> Iterator[str]:
    for axis, mine, theirs in zip(table.axes, one, other, strict=True):
        if mine != theirs:
            yield f"{axis.feature.name[:40]} = {_shown(axis, int(theirs))}"


def _shown(axis: Axis, cell: int) -> str:
    """Return a value of a cell; of a continuous feature the number that the model reads."""
    value = float(axis.first[cell])
    return axis.feature.categories[int(value)][:40] if axis.feature.categories else f"{value:.10g}"
