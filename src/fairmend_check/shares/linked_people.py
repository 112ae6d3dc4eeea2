"""Links among all people: which values the linked features of someone's counterfactuals can have.

A link does not apply to a counterfactual whose values are the person's own in all features of its `when`. So people
have own values of these features here. Over a box of people and a piece of protected values it can be open whether a
link applies. Then the values with the link and those without it both count, so that everyone has a counterfactual
among them, and what holds for all of them holds for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.features import Runs
from fairmend_check.kernel.links import Effect, Link
from fairmend_check.kernel.rounding import Array, down, up

if TYPE_CHECKING:
    from fairmend_check.shares.people import Axis

Whole = NDArray[np.int64]
Bools = NDArray[np.bool_]

ALL = -1  # the choice of all values that a link gives; choice k is the k-th of them


@dataclass(frozen=True, eq=False)
class Cases:
    """Pieces of boxes, all of the first box, then those of the second: cells first to last (rows, protected axes).

    ``choice`` (rows, linked axes) says which of the values that a link gives are meant.
    """

    first: Whole
    last: Whole
    choice: Whole


@dataclass(frozen=True, eq=False)
class LinkedAxis:
    """A feature that links set: its number among the axes of people, its axis as the model reads it, and the effects.

    An effect comes with the number of its link.
    """

    number: int
    axis: Axis
    effects: tuple[tuple[int, Effect], ...]

    @property
    def choices(self) -> int:
        """The most values that a link gives someone; 1 for a continuous feature, where they are not told apart."""
        if self.axis.feature.categories:
            named = (runs for _, effect in self.effects for _, runs in effect.categories)  # the others keep their own
            return int(max(sum(high - low + 1 for low, high in runs) for runs in named))
        widths = [effect.high - effect.low for _, effect in self.effects]
        return int(min(max(widths), self.axis.cells - 1)) + 1 if self.axis.feature.whole else 1

    def images(self, effect: Effect, choice: int) -> Iterator[list[int]]:
        """Yield lists of the category that replaces each one; all of them contain every one that is meant."""
        lists = [[code] for code in range(self.axis.cells)]
        for own, runs in effect.categories:
            lists[int(own)] = [number for low, high in runs for number in range(int(low), int(high) + 1)]
        most = max(map(len, lists))
        for number in range(most) if choice == ALL else [choice]:
            yield [each[min(number, len(each) - 1)] for each in lists]

    def numbers(self, effect: Effect, low: Array, high: Array, choice: Whole) -> tuple[Array, Array]:
        """Return the least and the largest value that an effect gives people with numbers from low to high (rows,).

        The values of a person, and the k-th of them, grow with the own number.
        """
        chosen = (choice != ALL) & self.axis.feature.whole
        least, most = self._given(effect, low), self._given(effect, high)
        return (
            np.where(chosen, np.minimum(least[0] + choice, least[1]), least[0]),
            np.where(chosen, np.minimum(most[0] + choice, most[1]), most[1]),
        )

    def _given(self, effect: Effect, own: Array) -> tuple[Array, Array]:
        """Return the least and the largest value that an effect gives people with these numbers (rows,)."""
        base, feature = np.zeros_like(own) if effect.kind == "range" else own, self.axis.feature
        low, high = (np.clip(base + by, feature.low, feature.high) for by in (effect.low, effect.high))
        return low, high


@dataclass(frozen=True, eq=False)
class PeopleLinks:
    """All links: of each, ``conditions`` has the protected axes, the axes of own values, and the runs that match."""

    conditions: tuple[tuple[tuple[int, int, Runs], ...], ...]
    protected: tuple[Axis, ...]
    axes: tuple[LinkedAxis, ...]

    @staticmethod
    def of(links: tuple[Link, ...], free: list[Axis], protected: tuple[Axis, ...]) -> PeopleLinks:
        """Return the links of people whose axes are the free ones, and then their own values (`own_axes`)."""
        own = own_axes(links, protected)
        names = [axis.feature.name for axis in protected]
        conditions = tuple(
            tuple((names.index(name), len(free) + own.index(names.index(name)), runs) for name, runs in link.when)
            for link in links
        )
        axes = []
        for number, axis in enumerate(free):
            effects = tuple(
                (i, dict(link.then)[axis.feature.name])
                for i, link in enumerate(links)
                if axis.feature.name in dict(link.then)
            )
            if effects:
                axes.append(LinkedAxis(number, axis, effects))
        return PeopleLinks(conditions, protected, tuple(axes))

    @property
    def steps(self) -> int:
        """How many steps it takes to apply all links: one for each condition, and for each choice of an effect."""
        choices = (linked.choices if linked.axis.feature.categories else 1 for linked in self.axes)
        effects = sum(len(linked.effects) * count for linked, count in zip(self.axes, choices, strict=True))
        return sum(map(len, self.conditions)) + effects

    @property
    def categories(self) -> int:
        """How many categories the features that links set have together."""
        return sum(linked.axis.cells for linked in self.axes if linked.axis.feature.categories)

    def cuts(self, number: int) -> set[int]:
        """Return where pieces of a protected axis must begin, so that links match all of a piece or nothing."""
        axis, found = self.protected[number], set()
        for each in self.conditions:
            for low, high in (run for protected, _, runs in each if protected == number for run in runs):
                found |= axis.cells_around(low, after=False) | axis.cells_around(high, after=True)
        return {cell for cell in found if 0 < cell < axis.cells}

    def matches(self, link: int, cases: Cases) -> tuple[Bools, Bools]:
        """Return where some protected values match a link, and where all do (rows,)."""
        some, every = np.ones((2, len(cases.first)), np.bool_)
        for protected, _, runs in self.conditions[link]:
            axis = self.protected[protected]
            low, high = axis.value_ends(cases.first[:, protected], cases.last[:, protected])
            some &= np.any([(low <= last) & (first <= high) for first, last in runs], axis=0)
            every &= np.any([(first <= low) & (high <= last) for first, last in runs], axis=0)
        return some, every

    def outcomes(self, first: Whole, last: Whole, cases: Cases) -> list[list[tuple[Effect | None, Bools]]]:
        """Return for each linked axis its effects, and None if it stays, with where each is possible (rows,).

        Of people in cells first to last (rows, axes).
        """
        applies, stays = [], []
        for link, conditions in enumerate(self.conditions):
            some, every = self.matches(link, cases)
            same, meets = np.ones((2, len(first)), np.bool_)
            for protected, own, _ in conditions:
                ends = cases.first[:, protected], cases.last[:, protected], first[:, own], last[:, own]
                whole = self.protected[protected].feature.whole
                gap = 0 if whole else 1  # cells of a continuous feature share their ends
                meets &= (ends[0] <= ends[3] + gap) & (ends[2] <= ends[1] + gap)
                # The own value of a continuous feature counts as changed, too.
                same &= (ends[0] == ends[1]) & (ends[2] == ends[3]) & (ends[0] == ends[2]) & whole
            applies.append(some & ~same)
            stays.append(~every | meets)
        found: list[list[tuple[Effect | None, Bools]]] = []
        for linked in self.axes:
            own_value = np.all([stays[link] for link, _ in linked.effects], axis=0)
            found.append([(None, own_value), *((effect, applies[link]) for link, effect in linked.effects)])
        return found


def own_axes(links: tuple[Link, ...], protected: tuple[Axis, ...]) -> list[int]:
    """Return the numbers of the protected axes that links depend on."""
    named = {name for link in links for name, _ in link.when}
    return [number for number, axis in enumerate(protected) if axis.feature.name in named]


def linked_hull(
    linked: LinkedAxis, outcomes: list[tuple[Effect | None, Bools]], first: Whole, last: Whole, choice: Whole
) -> tuple[Array, Array]:
    """Return boxes around the columns that counterfactuals of people in cells first to last can have (rows, width)."""
    axis = linked.axis
    if axis.feature.categories:
        return axis.hull_of(_reached(linked, outcomes, first, last, choice))
    low, high = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    for effect, possible in outcomes:
        if effect is None:
            ends = axis.lower(first), axis.upper(last)
        else:
            values = linked.numbers(effect, *axis.value_ends(first, last), choice)
            ends = axis.encoded_outwards(values[0], -1), axis.encoded_outwards(values[1], 1)
        low, high = (
            np.where(possible, np.minimum(low, ends[0]), low),
            np.where(possible, np.maximum(high, ends[1]), high),
        )
    return low[:, None], high[:, None]


def _reached(
    linked: LinkedAxis, outcomes: list[tuple[Effect | None, Bools]], first: Whole, last: Whole, choice: Whole
) -> Bools:
    """Return which categories counterfactuals can have (rows, categories)."""
    codes = np.arange(linked.axis.cells)
    among = (first[:, None] <= codes) & (codes <= last[:, None])
    reached = np.zeros_like(among)
    for effect, possible in outcomes:
        for image, rows in _images(linked, effect, possible, choice):
            order = np.argsort(image, kind="stable")  # categories with the same target follow one another
            targets, starts = np.unique(np.array(image)[order], return_index=True)
            reached[np.ix_(rows, targets)] |= np.logical_or.reduceat(among[np.ix_(rows, order)], starts, axis=1)
    return reached


def _images(
    linked: LinkedAxis, effect: Effect | None, possible: Bools, choice: Whole
) -> Iterator[tuple[list[int], Whole]]:
    """Yield which category replaces each one, and the rows where that is possible."""
    if effect is None:
        yield list(range(linked.axis.cells)), np.flatnonzero(possible)
        return
    for number in np.unique(choice[possible]).tolist():
        for image in linked.images(effect, number):
            yield image, np.flatnonzero(possible & (choice == number))


def category_terms(linked: LinkedAxis, outcomes: list[tuple[Effect | None, Bools]], choice: Whole, A: Array) -> Array:
    """Return for each own category the least term A·x of those that can replace it (rows, categories)."""
    values = linked.axis.category_values(A)
    least = np.full(values.shape, np.inf)
    for effect, possible in outcomes:
        for image, rows in _images(linked, effect, possible, choice):
            least[rows] = np.minimum(least[rows], values[rows][:, image])
    return least


def number_terms(
    linked: LinkedAxis, outcomes: list[tuple[Effect | None, Bools]], first: Whole, last: Whole, choice: Whole
) -> tuple[Bools, Array, Array]:
    """Return whether the column depends on the own one, and bounds of what is added to that, or to 0 (rows,).

    With an offset that the range cuts off, the value minus the own one does not grow with the own value.
    """
    axis = linked.axis
    depends = np.zeros(len(first), np.bool_)
    for effect, possible in outcomes:
        depends |= possible & (effect is None or effect.kind == "offset")
    low, high = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    lowest, highest = axis.value_ends(first, last)
    for effect, possible in outcomes:
        if effect is None:
            least, most = np.zeros(len(first)), np.zeros(len(first))
        elif effect.kind == "range":
            values = linked.numbers(effect, lowest, highest, choice)
            least, most = axis.encoded_outwards(values[0], -1), axis.encoded_outwards(values[1], 1)
            least = np.where(depends, down(least - axis.upper(last)), least)
            most = np.where(depends, up(most - axis.lower(first)), most)
        else:
            factor = axis.feature.affine[1]
            rounding = axis.rounding(max(abs(effect.low), abs(effect.high)))
            least = (linked.numbers(effect, highest, highest, choice)[0] - highest) / factor - rounding
            most = (linked.numbers(effect, lowest, lowest, choice)[1] - lowest) / factor + rounding
        low = np.where(possible, np.minimum(low, least), low)
        high = np.where(possible, np.maximum(high, most), high)
    return depends, low, high
