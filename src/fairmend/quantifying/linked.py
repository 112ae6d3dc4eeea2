"""Links in the space of people: which values the linked features of a person's counterfactuals have.

A person of a space with links has own values of the features that links depend on: a link does not apply to a
counterfactual with the same values there. Over a box of people and a piece of protected values it may be open whether a
link applies; then both sets of values count. So whatever holds for all of them holds for each counterfactual, and every
person has a counterfactual among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.spec.encoding import encode_values
from fairmend.spec.links import Link, ends_of, find_runs, matching_runs

if TYPE_CHECKING:
    from fairmend.quantifying.space import Axis


WHOLE = -1
"""The choice of all values that a link gives; choice k is the k-th of them."""

_SLACK = 2.0**-48  # of the size of a value, for the roundings of its computation


class Condition(NamedTuple):
    """One feature of a link's ``when``: its numbers among the protected axes and among the axes of people.

    ``may`` and ``must (cells + 1,)`` count the cells before each one in which some values, and all values, match.
    """

    protected: int
    own: int
    may: Ints
    must: Ints
    continuous: bool

    def cuts(self) -> set[int]:
        """Return the cells where what matches changes."""
        changes = [np.flatnonzero(np.diff(np.diff(counts))) + 1 for counts in (self.may, self.must)]
        return {int(cell) for each in changes for cell in each}

    def matches(self, first: Ints, last: Ints) -> tuple[Bools, Bools]:
        """Return whether some values in cells first to last match, and whether all do."""
        may = self.may[last + 1] - self.may[first] > 0
        return may, self.must[last + 1] - self.must[first] == last - first + 1

    def apart(self, first: Ints, last: Ints, own_first: Ints, own_last: Ints) -> Bools:
        """Return whether no value is the own one; the cells of a continuous feature share their ends."""
        gap = int(self.continuous)
        return np.asarray((own_last + gap < first) | (last + gap < own_first))

    def same(self, first: Ints, last: Ints, own_first: Ints, own_last: Ints) -> Bools:
        """Return whether all values are the own one."""
        if self.continuous:
            return np.zeros(len(first), np.bool_)
        return np.asarray((first == last) & (own_first == own_last) & (first == own_first))


class Change:
    """What a link does to a feature: ``choices`` values for each cell; of a continuous one, both ends of an interval.

    ``targets (choices, cells)`` are the categories that replace each one, if it has categories.
    """

    def __init__(self, link: int, axis: Axis, then: dict[str, Any], dtype: DTypeLike) -> None:
        self.link, self.axis, self._dtype = link, axis, dtype
        self.targets = _targets(axis, then) if axis.feature.categories else np.zeros((0, axis.cells), np.int64)
        self.is_range = not axis.feature.categories and "range" in then
        self._differences: dict[int, tuple[Floats, Floats]] = {}
        if axis.feature.categories:
            self.choices = len(self.targets)
            return
        self._ends = ends_of(then["range"] if self.is_range else then["offset"])
        width = self._ends[1] - self._ends[0]
        self.choices = int(min(width, axis.cells - 1)) + 1 if axis.feature.kind != "continuous" else 1 + (width > 0)

    def chosen(self, choice: int) -> Ints:
        """Return the categories ``(choices, cells)`` of a choice."""
        return self.targets if choice == WHOLE else self.targets[[min(choice, self.choices - 1)]]

    def ends(self, choice: int, cells: Ints) -> tuple[Floats, Floats]:
        """Return the least and the largest column of a number in cells; both grow with the cells."""
        low, high = self._ends
        if choice != WHOLE and self.axis.feature.kind == "continuous":
            low = high = low if choice == 0 else high
        first, last = (np.zeros(len(cells)),) * 2 if self.is_range else value_ends(self.axis, cells)
        if choice != WHOLE and self.axis.feature.kind != "continuous":
            # The range may cut values off, so that several choices give the same one.
            first, last = self._clipped(first + low, 0), self._clipped(last + high, 0)
            first = last = np.minimum(first + choice, last)
            low = high = 0.0
        return self._encoded(first + low, -1), self._encoded(last + high, 1)

    def differences(self, choice: int) -> tuple[Floats, Floats]:
        """Return bounds of how far the column of an offset is from the own one: ``(cells,)`` each.

        The first bounds it from below for all cells up to each one, the second from above for all cells from each one
        on. The difference does not grow with the cell, but for rounding, as the range cuts it off.
        """
        if choice not in self._differences:
            low, high = self.ends(choice, np.arange(self.axis.cells))
            least = np.nextafter(low - self.axis.high[:, 0], -np.inf)
            most = np.nextafter(high - self.axis.low[:, 0], np.inf)
            self._differences[choice] = np.minimum.accumulate(least), np.maximum.accumulate(most[::-1])[::-1]
        return self._differences[choice]

    def _clipped(self, values: Floats, side: int) -> Floats:
        """Return values, rounded outwards if they are of a continuous feature, in its range."""
        if self.axis.feature.kind == "continuous":
            values = values + side * _SLACK * (np.abs(values) + sum(map(abs, self.axis.feature.bounds)))
        return np.clip(values, *self.axis.feature.bounds)

    def _encoded(self, values: Floats, side: int) -> Floats:
        columns: FloatArray = encode_values(self.axis.feature, self._clipped(values, side)).astype(self._dtype)
        return columns[:, 0].astype(np.float64)


def value_ends(axis: Axis, cells: Ints) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value in cells; of a continuous feature, rounded outwards."""
    low, high = axis.feature.bounds
    if axis.feature.kind != "continuous":
        return low + cells.astype(np.float64), low + cells.astype(np.float64)
    slack = _SLACK * (abs(low) + abs(high))
    first, last = (low + (high - low) * ((cells + step) / axis.cells) for step in (0, 1))
    return np.clip(first - slack, low, high), np.clip(last + slack, low, high)


class LinkedAxis(NamedTuple):
    """A feature that links set: its number among the axes, its axis in the columns of inputs, and its changes."""

    number: int
    axis: Axis
    changes: tuple[Change, ...]

    @property
    def choices(self) -> int:
        """The most values that a link gives."""
        return max(change.choices for change in self.changes)


class State(NamedTuple):
    """What may become of a linked feature in each row: it stays, or one of its changes applies (changes, rows)."""

    stays: Bools
    applies: list[Bools]


@dataclass(frozen=True, eq=False)
class SpaceLinks:
    """The links of a space: for each link its conditions, and the features that links set."""

    conditions: tuple[tuple[Condition, ...], ...]
    axes: tuple[LinkedAxis, ...]

    @cached_property
    def cuts(self) -> dict[int, set[int]]:
        """By protected axis: the cells where a piece must begin, so that a link matches all of a piece or nothing."""
        found: dict[int, set[int]] = {}
        for conditions in self.conditions:
            for each in conditions:
                found.setdefault(each.protected, set()).update(each.cuts())
        return found

    def may_match(self, link: int, first: Ints, last: Ints) -> Bools:
        """Return whether a link matches some protected values of pieces ``(pieces, protected axes)``."""
        parts = [each.matches(first[:, each.protected], last[:, each.protected])[0] for each in self.conditions[link]]
        return np.asarray(np.all(parts, axis=0))

    def states(self, own: tuple[Ints, Ints], first: Ints, last: Ints) -> list[State]:
        """Return what may become of each linked feature, for own cells ``(rows, axes)`` and protected ones."""
        each = [self._link(number, own, first, last) for number in range(len(self.conditions))]
        may_apply, may_stay = zip(*each, strict=True)
        found = []
        for linked in self.axes:
            stays = np.all([may_stay[change.link] for change in linked.changes], axis=0)
            found.append(State(stays, [may_apply[change.link] for change in linked.changes]))
        return found

    def own_helps(self, own: tuple[Ints, Ints], first: Ints, last: Ints, axes: int) -> list[Bools]:
        """Return for each link along which axes a split helps to tell whether it applies ``(rows, axes)``."""
        found = []
        for conditions in self.conditions:
            helps = np.zeros((len(first), axes), np.bool_)
            for each in conditions:
                ends = first[:, each.protected], last[:, each.protected], own[0][:, each.own], own[1][:, each.own]
                inside = (ends[0] <= ends[2]) & (ends[3] <= ends[1])
                helps[:, each.own] = ~each.apart(*ends) & ~inside
            found.append(helps)
        return found

    def _link(self, number: int, own: tuple[Ints, Ints], first: Ints, last: Ints) -> tuple[Bools, Bools]:
        """Return where a link may apply, and where it may not."""
        some, every, same, apart = [], [], [], []
        for each in self.conditions[number]:
            ends = first[:, each.protected], last[:, each.protected], own[0][:, each.own], own[1][:, each.own]
            may, must = each.matches(*ends[:2])
            some.append(may)
            every.append(must)
            same.append(each.same(*ends))
            apart.append(each.apart(*ends))
        applies = np.all(some, axis=0) & ~np.all(same, axis=0)
        return applies, ~np.all(every, axis=0) | ~np.any(apart, axis=0)


def make_links(
    links: tuple[Link, ...], free: tuple[Axis, ...], protected: tuple[Axis, ...], own: list[int], dtype: DTypeLike
) -> SpaceLinks:
    """Return the links of a space; ``own`` are the protected axes that follow the free ones among those of people."""
    conditions = []
    for link in links:
        named = [number for number, axis in enumerate(protected) if axis.feature.name in link.when]
        conditions.append(
            tuple(_condition(link, protected[number], number, len(free) + own.index(number)) for number in named)
        )
    axes = []
    for number, axis in enumerate(free):
        name = axis.feature.name
        changes = [Change(i, axis, dict(link.then[name]), dtype) for i, link in enumerate(links) if name in link.then]
        if changes:
            axes.append(LinkedAxis(number, axis, tuple(changes)))
    return SpaceLinks(tuple(conditions), tuple(axes))


def _condition(link: Link, axis: Axis, protected: int, own: int) -> Condition:
    may, must = np.zeros((2, axis.cells), np.bool_)
    low, high = value_ends(axis, np.arange(axis.cells))
    for first, last in matching_runs(link, axis.feature):
        may |= (low <= last) & (first <= high)
        must |= (first <= low) & (high <= last)
    some, every = (np.concatenate([[0], np.cumsum(each)]) for each in (may, must))
    return Condition(protected, own, some, every, axis.feature.kind == "continuous")


def _targets(axis: Axis, then: dict[str, Any]) -> Ints:
    """Return the categories that replace each one ``(choices, categories)``; where they are fewer, the last repeats."""
    feature = axis.feature
    lists = [[code] for code in range(axis.cells)]
    for own, value in then.items():
        runs = find_runs(feature, value)
        lists[(feature.categories or ()).index(own)] = [int(k) for a, b in runs for k in range(int(a), int(b) + 1)]
    most = max(map(len, lists))
    return np.array([[each[min(k, len(each) - 1)] for each in lists] for k in range(most)], np.int64)
