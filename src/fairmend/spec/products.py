"""Neighbourhoods as unions of products: in each product, every feature takes its values independently of the others.

Without links a neighbourhood is one product, unless a band of categories has several runs of codes. Links tie the
values of some features to those of protected ones. So the values of each protected feature that a link depends on are
cut into cells to which the same links apply, and one cell of each such feature makes a product, in which the linked
features have other values. The person's own value is a cell of its own, because a link does not apply to people who
differ in none of the features it depends on.

Cells of a continuous feature include both ends, and a cell that holds the own value keeps it. Neighbourhoods are
therefore closed sets, which boxes can cover exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, Run, ends_of, find_runs, linked_names, match_links, matching_runs

_OF_INPUTS = ("x", "own", "lowest", "highest", "apart", "kept", "moved")  # fields with an entry for each input


@dataclass(frozen=True, eq=False)
class ReachableValues:
    """The values that a feature can have in the neighbourhoods of some inputs: what a neighbourhood is.

    docs/certificate.md defines it, and the checker reads that definition independently. Everything in fairmend that
    lists, encloses, samples or recognises neighbours builds on this class.

    A numeric or ordinal feature reaches e(v), the encoding of v, for every value v in reach, and the input's own column
    as well. The two differ at the input's own value if the input was scaled elsewhere: by an ulp if that was done in
    float32, and by much more if the mean of the scale is much larger than its standard deviation.

    Attributes
    ----------
    columns : the encoded columns of the feature
    x : (inputs,), the inputs' own encoded column; of a one-hot feature, the first of its columns
    own : float64 (inputs,), the inputs' own values, or codes
    lowest, highest : float64 (inputs,), the ends of what neighbours can have, as values or codes
    apart : bool (inputs,), whether ``x`` is a further value of a whole-number feature: not the encoding of any other
    kept : bool (inputs,), whether ``x`` is the only value, bit for bit
    moved : bool (inputs,), whether ``x`` is not among the values
    """

    feature: Feature
    columns: slice
    x: FloatArray
    own: NDArray[np.float64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    apart: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    moved: NDArray[np.bool_]

    @staticmethod
    def around(feature: Feature, columns: slice, X: FloatArray) -> ReachableValues:
        """Return the values around inputs X (inputs, width), which must be valid."""
        x = X[:, columns.start]
        own = feature.decode(X[:, columns])
        lo, hi = feature.bounds
        lowest, highest = np.full(len(x), lo, np.float64), np.full(len(x), hi, np.float64)
        if feature.bands is not None:
            lowest, highest = _own_band(feature, x, own)
        elif not feature.protected:
            room = feature.reach + feature.own_error(x, feature.reach) if feature.varies else 0.0
            lowest, highest = np.maximum(own - room, lowest), np.minimum(own + room, highest)
        none = np.zeros(len(x), dtype=np.bool_)
        return ReachableValues.within(feature, columns, x, own, (lowest, highest), kept=none, moved=none)

    @staticmethod
    def within(
        feature: Feature,
        columns: slice,
        x: FloatArray,
        own: NDArray[np.float64],
        ends: tuple[NDArray[np.float64], NDArray[np.float64]],
        *,
        kept: NDArray[np.bool_],
        moved: NDArray[np.bool_],
    ) -> ReachableValues:
        """Return the values between ``ends``, and ``x`` where it is one of them."""
        apart = np.zeros(len(x), dtype=np.bool_)
        if feature.kind != "continuous" and not feature.one_hot:
            apart = ~(_are_encodings(feature, x, own, *ends) | kept | moved)
        return ReachableValues(feature, columns, x, own, *ends, apart, kept, moved)

    def take(self, rows: NDArray[np.int64]) -> ReachableValues:
        """Return the values around some of the inputs, in any order."""
        return replace(self, **{field: getattr(self, field)[rows] for field in _OF_INPUTS})

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of values (inputs,) of a feature that is not continuous."""
        return self.highest.astype(np.int64) - self.lowest.astype(np.int64) + 1 + self.apart

    def encoded(self, rows: NDArray[np.int64], number: NDArray[np.int64]) -> FloatArray:
        """Return the columns (k, width of the feature) of the values with these numbers (k,), around inputs (k,).

        The values come in order; ``x``, where it is apart from them, comes last.
        """
        value = self.lowest[rows] + number
        encoded = self.feature.encode(value, self.x.dtype)
        if self.feature.one_hot:
            return encoded
        column = encoded[:, 0]
        if self.apart.any():
            column = np.where(value > self.highest[rows], self.x[rows], column)
        return self._with_kept(rows, column)[:, None]

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest box around the values: lower and upper ends, each (inputs, 1); not for one-hot."""
        # Rounding is monotone, so the rounded ends contain every rounded value between them.
        first, last = (encode_column(self.feature, end, self.x.dtype) for end in (self.lowest, self.highest))
        if self.feature.kind == "continuous" and self.feature.bands is not None:
            # The lower end of the next band is no part of this one, unless it is the only number of its own.
            is_open = np.isin(self.highest, self.feature.lower_ends) & (self.lowest < self.highest)
            last = np.where(is_open, np.nextafter(last, last.dtype.type(-np.inf)), last)
        lower, upper = np.minimum(first, self.x), np.maximum(last, self.x)
        if self.moved.any():
            lower, upper = np.where(self.moved, first, lower), np.where(self.moved, last, upper)
        if self.kept.any():
            lower, upper = np.where(self.kept, self.x, lower), np.where(self.kept, self.x, upper)
        return lower[:, None], upper[:, None]

    def snap(self, rows: NDArray[np.int64], column: FloatArray) -> FloatArray:
        """Return the encodings nearest to a column (k,) that are in reach of inputs (k,); not for one-hot."""
        values = np.clip(self.feature.nearest(column), self.lowest[rows], self.highest[rows])
        return self._with_kept(rows, encode_column(self.feature, values, self.x.dtype))

    def contain(self, others: FloatArray) -> NDArray[np.bool_]:
        """Return whether the columns of others (inputs, width of the feature), valid inputs, are in reach."""
        if self.feature.one_hot:
            code = self.feature.category_of(others)
            return np.asarray((self.lowest <= code) & (code <= self.highest))
        column = others[:, 0]
        if self.feature.kind == "continuous":
            lower, upper = self.ends()
            return np.asarray((lower[:, 0] <= column) & (column <= upper[:, 0]))
        guess = np.clip(self.feature.nearest(column), self.lowest, self.highest)
        known = _are_encodings(self.feature, column, guess, self.lowest, self.highest)
        return np.asarray((known & ~self.kept) | ((column == self.x) & ~self.moved))

    def _with_kept(self, rows: NDArray[np.int64], column: FloatArray) -> FloatArray:
        """Return a column (k,) of values around inputs (k,), with own bits where they are the only value."""
        return np.where(self.kept[rows], self.x[rows], column) if self.kept.any() else column


def _own_band(feature: Feature, x: FloatArray, own: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the band of each input (inputs,); of categories, those of the run with the own code.

    A continuous feature decides by the numbers that the network reads; its highest value is the lower end of the next
    band. A whole number decides by the own value.
    """
    if feature.categories:
        runs = np.array([run for group in band_runs(feature) for run in group], np.float64)
        runs = runs[np.argsort(runs[:, 0])]
        number = np.searchsorted(runs[:, 0], own, side="right") - 1
        return runs[number, 0], runs[number, 1]
    ends = np.array([*feature.lower_ends, feature.bounds[1]], np.float64)
    if feature.kind == "continuous":
        number = np.searchsorted(encode_column(feature, ends[:-1], x.dtype), x, side="right") - 1
    else:
        number = np.searchsorted(ends[:-1], own, side="right") - 1
        ends[1:-1] -= 1
    number = np.maximum(number, 0)  # the lowest value, scaled elsewhere, may be below its encoding
    return np.array(feature.lower_ends, np.float64)[number], ends[number + 1]


def band_runs(feature: Feature) -> list[list[Run]]:
    """Return the bands of a categorical feature, each as runs of consecutive codes."""
    categories = feature.categories or ()
    return [find_runs(feature, [categories[code] for code in group]) for group in feature.groups]


def most_in_band(feature: Feature) -> int:
    """Return the most values in a band of a feature that is not continuous."""
    if feature.categories:
        return max(map(len, feature.groups))
    ends = [*feature.lower_ends, feature.bounds[1] + 1]
    return int(max(after - before for before, after in pairwise(ends)))


def encode_column(feature: Feature, values: NDArray[np.float64], dtype: DTypeLike) -> FloatArray:
    """Return e(v), the encoding of values (or codes) of a feature with one column, in the network's precision."""
    encoded: FloatArray = feature.scaled(values).astype(dtype)
    return encoded


def _are_encodings(
    feature: Feature,
    column: FloatArray,
    guess: NDArray[np.float64],
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return where a column (k,) is e(v) of a whole number v from lowest to highest (k,); mostly v is the guess."""
    found = np.asarray(encode_column(feature, guess, column.dtype) == column)
    rest = np.flatnonzero(~found)
    if len(rest):
        # Encoding is monotone: bisect for the first value whose encoding is not below the column.
        low, high = lowest[rest].astype(np.int64), highest[rest].astype(np.int64)
        while np.any(low < high):
            middle = low + (high - low) // 2
            reached = encode_column(feature, middle.astype(np.float64), column.dtype) >= column[rest]
            low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
        found[rest] = encode_column(feature, low.astype(np.float64), column.dtype) == column[rest]
    return found


Placed = Sequence[tuple[Feature, slice]]  # the features, each with its encoded columns

MOST_PRODUCTS = 1_000
"""A spec whose links split a neighbourhood into more products is refused."""


@dataclass(frozen=True, eq=False)
class Products:
    """The neighbourhoods of some inputs: product k belongs to input owner[k] and has row k of all values.

    Attributes
    ----------
    values : the values of each feature that varies, in the order of the features
    owner : int64 (products,), sorted, each input at least once
    count : number of inputs
    """

    values: list[ReachableValues]
    owner: NDArray[np.int64]
    count: int

    @staticmethod
    def around(placed: Placed, X: FloatArray, links: Sequence[Link] = ()) -> Products:
        """Return the neighbourhoods of the inputs X (inputs, width), which must be valid."""
        values = [ReachableValues.around(feature, where, X) for feature, where in varying(placed, links)]
        if not len(X) or not (links or any(_in_runs(each.feature) for each in values)):
            return Products(values, np.arange(len(X), dtype=np.int64), len(X))
        return _split(values, links, len(X))

    def with_value(self, name: str, value: float) -> tuple[Floats, Products]:
        """Return the own values (inputs,) of a protected feature, and the people with this value of it.

        They are the inputs in everything else but what is linked to the feature.
        """
        fits = np.ones(len(self.owner), np.bool_)
        for each in self.values:
            if each.feature.name == name:
                fits &= (each.lowest <= value) & (value <= each.highest)
                own = each.own[self.starts]
            elif each.feature.varies:
                fits &= (each.lowest <= each.own) & (each.own <= each.highest) & ~each.moved
        chosen = np.flatnonzero(fits)
        values = [_fixed(each.take(chosen), value if each.feature.name == name else None) for each in self.values]
        return own, Products(values, self.owner[chosen], self.count)

    @property
    def single(self) -> bool:
        """Whether each neighbourhood is one product."""
        return len(self.owner) == self.count

    @property
    def starts(self) -> Ints:
        """The number of the first product of each input (inputs,)."""
        return np.searchsorted(self.owner, np.arange(self.count))


def _fixed(values: ReachableValues, value: float | None) -> ReachableValues:
    """Return one value of a feature instead of many: a given one, or the own one; linked features keep theirs."""
    if value is None and not values.feature.varies:
        return values
    every = np.ones(len(values.own), np.bool_)
    if value is None:
        return replace(values, lowest=values.own, highest=values.own, apart=~every, kept=every, moved=~every)
    at = np.full(len(values.own), value, np.float64)
    return replace(values, lowest=at, highest=at, apart=~every, kept=~every, moved=every)


def varying(placed: Placed, links: Sequence[Link]) -> list[tuple[Feature, slice]]:
    """Return the features in which neighbours can differ, in order."""
    linked = linked_names(links)
    return [(feature, where) for feature, where in placed if feature.varies or feature.name in linked]


def count_parts(feature: Feature, links: Sequence[Link]) -> int:
    """Return into how many parts links, or bands, split the values of a feature at the most."""
    if feature.groups:
        return max(map(len, band_runs(feature)))
    if any(feature.name in link.when for link in links):
        # The own value splits one of the cells into the values below it, the value itself and those above it.
        return len(_cells(feature, links)) + 2
    changes = [link.then[feature.name] for link in links if feature.name in link.then]
    if not changes or not feature.categories:
        return 1
    return max(len(find_runs(feature, new)) for change in changes for new in change.values())


def require_few_products(features: Sequence[Feature], links: Sequence[Link]) -> None:
    """Raise an error for links and bands that split neighbourhoods into more products than can be handled."""
    products = math.prod(count_parts(feature, links) for feature in features)
    if products > MOST_PRODUCTS:
        way_out = "Let links depend on fewer features, or on fewer separate values"
        if any(map(_in_runs, features)):
            way_out += ", or order categories so that those of a band follow each other"
        raise FairmendError(
            f"links or bands split each neighbourhood into up to {products:,} parts, and at most {MOST_PRODUCTS:,} are "
            f"possible. {way_out}."
        )


def _in_runs(feature: Feature) -> bool:
    """Return whether a band of a categorical feature has several runs of codes."""
    return count_parts(feature, ()) > 1


@dataclass(frozen=True)
class _Cell:
    """Consecutive values, or codes, of a protected feature that match the same links."""

    low: float
    high: float
    links: frozenset[int]


def _cells(feature: Feature, links: Sequence[Link]) -> list[_Cell]:
    """Return cells that cover the values of a protected feature; those of a continuous one share their ends."""
    at, matching = match_links(links, feature)
    if feature.kind == "continuous":
        cells = [_Cell(a, b, matching(a, b)) for a, b in pairwise(at)]
        points = [_Cell(a, a, matching(a, a)) for a in at]
        apart = [point for point in points if all(point.links != cell.links for cell in cells if _touch(cell, point))]
        return [*_merged(cells), *apart]
    return _merged([_Cell(a, b - 1, matching(a, a)) for a, b in pairwise([*at, feature.bounds[1] + 1])])


def _touch(cell: _Cell, point: _Cell) -> bool:
    return cell.low <= point.low <= cell.high


def _merged(cells: list[_Cell]) -> list[_Cell]:
    """Return the cells with neighbours that match the same links joined."""
    merged = cells[:1]
    for cell in cells[1:]:
        if cell.links == merged[-1].links:
            merged[-1] = _Cell(merged[-1].low, cell.high, cell.links)
        else:
            merged.append(cell)
    return merged


class _Values(NamedTuple):
    """Some values of one feature around inputs, or in products; the fields are those of `ReachableValues`."""

    lowest: Floats
    highest: Floats
    kept: Bools
    moved: Bools

    def take(self, rows: Ints) -> _Values:
        """Return the values around some of the inputs."""
        return _Values(self.lowest[rows], self.highest[rows], self.kept[rows], self.moved[rows])

    @staticmethod
    def join(parts: Sequence[_Values]) -> _Values:
        """Return the values around the inputs of all parts, in order."""
        return _Values(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class _Part:
    """Values of a protected feature that match the same links.

    Attributes
    ----------
    valid : bool (inputs,), the inputs that have such values
    links : the numbers of the links
    own : whether it is the inputs' own value
    """

    values: _Values
    valid: Bools
    links: frozenset[int]
    own: bool = False


def _split(values: list[ReachableValues], links: Sequence[Link], count: int) -> Products:
    """Return the products of neighbourhoods with links, or with bands of several runs."""
    linked = linked_names(links)
    conditions = [each for each in values if any(each.feature.name in link.when for link in links)]
    targets = [each for each in values if each.feature.name in linked]
    scattered = [each for each in values if _in_runs(each.feature)]
    owners: list[Ints] = []
    found: dict[str, list[_Values]] = {each.feature.name: [] for each in [*conditions, *targets, *scattered]}
    parts = [[part for part in _parts_of_condition(each, links) if part.valid.any()] for each in conditions]
    for chosen in product(*parts):
        rows = np.flatnonzero(np.logical_and.reduce([np.ones(count, np.bool_), *(part.valid for part in chosen)]))
        if not len(rows):
            continue
        here = {each.feature.name: part for each, part in zip(conditions, chosen, strict=True)}
        active = [link for i, link in enumerate(links) if _applies(i, link, here)]
        state = {name: part.values.take(rows) for name, part in here.items()}
        for target in targets:
            link = next((link for link in active if target.feature.name in link.then), None)
            changes = [_stay(target, rows)] if link is None else list(_changes(target, link, rows))
            rows, state = _with_values(target, changes, rows, state)
        for each in scattered:
            rows, state = _with_values(each, list(_runs_of_own_band(each, rows)), rows, state)
        owners.append(rows)
        for name, now in state.items():
            found[name].append(now)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    owner = owner[order]
    joined = {name: _Values.join(parts).take(order) for name, parts in found.items()}
    return Products([_of_product(each, joined.get(each.feature.name), owner) for each in values], owner, count)


def _applies(number: int, link: Link, parts: dict[str, _Part]) -> bool:
    """Return whether a link applies to counterfactuals with values in these parts."""
    matches = all(number in parts[name].links for name in link.when)
    return matches and not all(parts[name].own for name in link.when)


def _parts_of_condition(values: ReachableValues, links: Sequence[Link]) -> Iterator[_Part]:
    """Yield disjoint parts of the values of a protected feature, each of which matches the same links everywhere."""
    feature, own = values.feature, values.own
    whole = feature.kind != "continuous"
    none, everyone = np.zeros(len(own), np.bool_), np.ones(len(own), np.bool_)
    for cell in _cells(feature, links):
        low, high = (np.full(len(own), end, np.float64) for end in (cell.low, cell.high))
        holds = (low <= own) & (own <= high)
        if not cell.links:
            yield _Part(_Values(low, high, none, ~holds), everyone, cell.links)
        elif whole:
            below, above = np.where(holds, own - 1, high), own + 1
            yield _Part(_Values(low, below, none, everyone), low <= below, cell.links)
            yield _Part(_Values(above, high, none, everyone), holds & (above <= high), cell.links)
        else:
            yield _Part(_Values(low, high, none, everyone), everyone, cell.links)
    for matching, valid in _own_matches(feature, own, links):
        yield _Part(_Values(own, own, none if whole else everyone, none), valid, matching, own=True)


def _own_matches(feature: Feature, own: Floats, links: Sequence[Link]) -> Iterator[tuple[frozenset[int], Bools]]:
    """Yield the sets of links that own values match, except the empty one, and which inputs have them (inputs,)."""
    numbers = [i for i, link in enumerate(links) if feature.name in link.when]
    matches = np.zeros((len(own), len(numbers)), np.bool_)
    for k, i in enumerate(numbers):
        for low, high in matching_runs(links[i], feature):
            matches[:, k] |= (low <= own) & (own <= high)
    distinct, which = np.unique(matches, axis=0, return_inverse=True)
    for number, row in enumerate(distinct):
        if row.any():
            yield frozenset(numbers[k] for k in np.flatnonzero(row)), np.asarray(which.ravel() == number)


def _with_values(
    target: ReachableValues, found: Sequence[tuple[Ints, _Values]], rows: Ints, state: dict[str, _Values]
) -> tuple[Ints, dict[str, _Values]]:
    """Return products (rows and the values of features) with the values of one more feature, found at positions."""
    chosen = np.concatenate([positions for positions, _ in found])
    state = {name: values.take(chosen) for name, values in state.items()}
    state[target.feature.name] = _Values.join([values for _, values in found])
    return rows[chosen], state


def _runs_of_own_band(target: ReachableValues, rows: Ints) -> Iterator[tuple[Ints, _Values]]:
    """Yield positions in rows (k,), and the codes of a run of the band of their own category."""
    own = target.own[rows]
    for group, runs in zip(target.feature.groups, band_runs(target.feature), strict=True):
        positions = np.flatnonzero(np.isin(own, group))
        for first, last in runs:
            moved = ~((first <= own[positions]) & (own[positions] <= last))
            low, high = (np.full(len(positions), end, np.float64) for end in (first, last))
            yield positions, _Values(low, high, np.zeros(len(positions), np.bool_), moved)


def _stay(target: ReachableValues, rows: Ints, among: Bools | None = None) -> tuple[Ints, _Values]:
    """Return the positions of rows (k,) to which no link applies, and their own values."""
    positions = np.arange(len(rows)) if among is None else np.flatnonzero(among)
    own, every = target.own[rows[positions]], np.ones(len(positions), np.bool_)
    return positions, _Values(own, own, every, ~every)


def _changes(target: ReachableValues, link: Link, rows: Ints) -> Iterator[tuple[Ints, _Values]]:
    """Yield positions in rows (k,), and the values that a link gives a feature there."""
    feature, own = target.feature, target.own[rows]
    change = link.then[feature.name]
    if not feature.categories:
        low, high = ends_of(change["range"] if "range" in change else change["offset"])
        if "range" in change:
            least, most = np.full(len(rows), low), np.full(len(rows), high)
        else:
            error = feature.own_error(target.x[rows], max(-low, high))
            least, most = own + (low - error), own + (high + error)
        yield _moved(np.arange(len(rows)), np.clip(least, *feature.bounds), np.clip(most, *feature.bounds))
        return
    named = np.zeros(len(rows), np.bool_)
    for category, replacement in change.items():
        is_own = own == (feature.categories or ()).index(category)
        named |= is_own
        positions = np.flatnonzero(is_own)
        for first, last in find_runs(feature, replacement):
            ends = (np.full(len(positions), end, np.float64) for end in (first, last))
            yield _moved(positions, *ends)
    yield _stay(target, rows, ~named)


def _moved(positions: Ints, lowest: Floats, highest: Floats) -> tuple[Ints, _Values]:
    every = np.ones(len(positions), np.bool_)
    return positions, _Values(lowest, highest, ~every, every)


def _of_product(values: ReachableValues, split: _Values | None, owner: Ints) -> ReachableValues:
    """Return the values of a feature in the products of inputs `owner` (products,)."""
    if split is None:
        return values.take(owner)
    return ReachableValues.within(
        values.feature,
        values.columns,
        values.x[owner],
        values.own[owner],
        (split.lowest, split.highest),
        kept=split.kept,
        moved=split.moved,
    )
