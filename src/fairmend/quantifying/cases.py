"""Cases of boxes: pieces of protected values with what links make of them, and linear forms in terms of the person.

A network reads the columns of a counterfactual, and people are counted by their own values. Where links tie the two
together, a form of the counterfactual's columns becomes a form of the person's own: a linked category has a term for
each own category, and a linked number differs from the own one by an offset, or not at all depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.quantifying.linked import WHOLE, Change, LinkedAxis, State

if TYPE_CHECKING:
    from fairmend.quantifying.space import Boxes, Space


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases of boxes, all of the first box, then those of the second: protected cells ``(rows, protected axes)``.

    ``choice (rows, linked axes)`` says which of the values that links give are meant; see `linked`.
    """

    first: Ints
    last: Ints
    choice: Ints


def linked_hulls(space: Space, boxes: Boxes, cases: Cases, lower: Floats, upper: Floats) -> None:
    """Write the ends of linked features of all cases into columns ``(rows, width)``."""
    for linked, state, first, last, choice in _rows_of_links(space, boxes, cases):
        columns = space.spec.columns(linked.axis.feature.name)
        if linked.axis.feature.categories:
            reached = _reached(linked, state, first, last, choice)
            lower[:, columns], upper[:, columns] = _hull_of(linked, reached)
        else:
            lower[:, columns.start], upper[:, columns.start] = _ends(linked, state, first, last, choice)


def person_forms(space: Space, boxes: Boxes, cases: Cases, A: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Return forms of the columns of people below forms ``A (rows, width)``, ``c (rows,)`` of their counterfactuals.

    The columns are those of `Space.axes`, which include one for each category of a linked feature.
    """
    if space.links is None:
        return A, c
    G = np.zeros((len(A), space.width))
    G[:, : A.shape[1]] = A
    for linked, state, first, last, choice in _rows_of_links(space, boxes, cases):
        columns = space.spec.columns(linked.axis.feature.name)
        if linked.axis.feature.categories:
            G[:, columns] = 0.0
            G[:, space.axes[linked.number].columns] = _category_terms(linked, state, choice, A[:, columns])
        else:
            slope, low, high = _offsets(linked, state, first, last, choice)
            a = A[:, columns.start]
            G[:, columns.start] = np.where(slope, a, 0.0)
            c = np.nextafter(c + np.nextafter(np.minimum(a * low, a * high), -np.inf), -np.inf)
    return G, c


def link_looseness(space: Space, boxes: Boxes, cases: Cases, weight: Floats) -> Floats:
    """Return how much each axis adds to what links leave open ``(n, axes)``; a heuristic, for splitting only.

    ``weight (rows, inputs)`` is how much a column matters. A box is split along own values where that helps to tell
    which links apply, and along a linked number where its range cuts offsets off.
    """
    found = np.zeros((len(cases.first), len(space.axes)))
    if space.links is not None:
        helps = space.links.own_helps(_own_cells(boxes, cases), cases.first, cases.last, found.shape[1])
    for linked, state, first, last, _ in _rows_of_links(space, boxes, cases):
        axis = linked.axis
        of_axis = weight[:, space.spec.columns(axis.feature.name)]
        spread = of_axis @ (axis.high.max(axis=0) - axis.low.min(axis=0))
        for change, applies in zip(linked.changes, state.applies, strict=True):
            found += np.where(applies[:, None] & helps[change.link], spread[:, None], 0.0)
            if not axis.feature.categories and not change.is_range:
                cut = [ends[first] - ends[last] for ends in change.differences(WHOLE)]
                found[:, linked.number] += np.where(applies, of_axis[:, 0] * np.maximum(*cut), 0.0)
    return np.asarray(found.reshape(len(boxes), -1, found.shape[1]).mean(axis=1))


def settled_cases(space: Space, boxes: Boxes, cases: Cases) -> Bools:
    """Return in which cases a person has a single counterfactual ``(rows,)``."""
    point = np.full(len(cases.first), not any(axis.reach for axis in space.axes))
    for k, axis in enumerate(space.protected):
        point &= (cases.first[:, k] == cases.last[:, k]) & np.array_equal(axis.low, axis.high)
    for linked, state, _, _, choice in _rows_of_links(space, boxes, cases):
        point &= np.sum([state.stays, *state.applies], axis=0) == 1
        point &= state.stays | (choice != WHOLE) | (linked.choices == 1)
    return point


def _own_cells(boxes: Boxes, cases: Cases) -> tuple[Ints, Ints]:
    """Return the first and last cells of people in each row ``(rows, axes)``."""
    count = len(cases.first) // len(boxes)
    return np.repeat(boxes.first, count, axis=0), np.repeat(boxes.last, count, axis=0)


def _rows_of_links(space: Space, boxes: Boxes, cases: Cases) -> list[tuple[LinkedAxis, State, Ints, Ints, Ints]]:
    """Return the linked features: their states, own cells and choices in each row."""
    if space.links is None:
        return []
    own = _own_cells(boxes, cases)
    states = space.links.states(own, cases.first, cases.last)
    rows = zip(space.links.axes, states, strict=True)
    return [
        (linked, state, own[0][:, linked.number], own[1][:, linked.number], cases.choice[:, k])
        for k, (linked, state) in enumerate(rows)
    ]


def _each_change(linked: LinkedAxis, state: State, choice: Ints) -> list[tuple[Change, int, Ints]]:
    """Return the changes that may apply, with a choice, and the rows where they may."""
    return [
        (change, number, np.flatnonzero(applies & (choice == number)))
        for change, applies in zip(linked.changes, state.applies, strict=True)
        for number in np.unique(choice[applies]).tolist()
    ]


def _reached(linked: LinkedAxis, state: State, first: Ints, last: Ints, choice: Ints) -> Bools:
    """Return which categories people of boxes may have ``(rows, categories)``."""
    codes = np.arange(linked.axis.cells)
    among = (first[:, None] <= codes) & (codes <= last[:, None])
    reached = among & state.stays[:, None]
    for change, number, rows in _each_change(linked, state, choice):
        for targets in change.chosen(number):
            image = np.zeros((linked.axis.cells, linked.axis.cells), np.int64)
            image[codes, targets] = 1
            reached[rows] |= among[rows].astype(np.int64) @ image > 0
    return reached


def _hull_of(linked: LinkedAxis, reached: Bools) -> tuple[Floats, Floats]:
    """Return the smallest boxes around the columns of categories ``(rows, categories)``."""
    axis = linked.axis
    if axis.one_hot:
        single = reached.sum(axis=1, keepdims=True) == 1
        return (reached & single) @ axis.low, (reached @ axis.low).astype(np.float64)
    column = axis.low[:, 0]
    low = np.where(reached, column, np.inf).min(axis=1)
    return low[:, None], np.where(reached, column, -np.inf).max(axis=1)[:, None]


def _category_terms(linked: LinkedAxis, state: State, choice: Ints, A: Floats) -> Floats:
    """Return the least term A·x of the categories that may replace each own one: ``(rows, categories)``."""
    values = A @ linked.axis.low.T
    if not linked.axis.one_hot:
        values = np.nextafter(values, -np.inf)
    least = np.where(state.stays[:, None], values, np.inf)
    for change, number, rows in _each_change(linked, state, choice):
        for targets in change.chosen(number):
            least[rows] = np.minimum(least[rows], values[rows][:, targets])
    return least


def _ends(linked: LinkedAxis, state: State, first: Ints, last: Ints, choice: Ints) -> tuple[Floats, Floats]:
    """Return the least and the largest column that people of boxes may have ``(rows,)``."""
    low = np.where(state.stays, linked.axis.low[first, 0], np.inf)
    high = np.where(state.stays, linked.axis.high[last, 0], -np.inf)
    for change, number, rows in _each_change(linked, state, choice):
        low[rows] = np.minimum(low[rows], change.ends(number, first[rows])[0])
        high[rows] = np.maximum(high[rows], change.ends(number, last[rows])[1])
    return low, high


def _offsets(linked: LinkedAxis, state: State, first: Ints, last: Ints, choice: Ints) -> tuple[Bools, Floats, Floats]:
    """Return whether the column depends on the own one, and bounds of what is added to it (or to 0) ``(rows,)``."""
    depends = state.stays.copy()
    for change, applies in zip(linked.changes, state.applies, strict=True):
        depends |= applies & (not change.is_range)
    low, high = np.where(state.stays, 0.0, np.inf), np.where(state.stays, 0.0, -np.inf)
    for change, number, rows in _each_change(linked, state, choice):
        if change.is_range:
            least, most = (change.ends(number, first[rows])[side] for side in (0, 1))
            own_low, own_high = linked.axis.low[first[rows], 0], linked.axis.high[last[rows], 0]
            least = np.where(depends[rows], np.nextafter(least - own_high, -np.inf), least)
            most = np.where(depends[rows], np.nextafter(most - own_low, np.inf), most)
        else:
            differences = change.differences(number)
            least, most = differences[0][last[rows]], differences[1][first[rows]]
        low[rows], high[rows] = np.minimum(low[rows], least), np.maximum(high[rows], most)
    return depends, low, high
