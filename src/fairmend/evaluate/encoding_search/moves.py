"""Small changes of an encoding, and a descent by them: exchange columns, move one, read one in another way.

An exchange that puts a column into its place lowers the distance, whatever the other columns do: each column adds its
own part to the error. So the network itself tells where its columns belong, without trying all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend.evaluate.encoding_search.columns import Column
from fairmend.evaluate.encoding_search.distance import Distance, State
from fairmend.spec.draft.readings import Reading

_MOST_CATEGORIES = 12  # in whose order single categories are exchanged
_MOST_SWEEPS = 40
_LESS = 1 - 1e-9  # an improvement is more than rounding


@dataclass(frozen=True, eq=False)
class Move:
    """A change of a state, in words; ``apply`` returns None where the state no longer allows it."""

    words: str
    apply: Callable[[State], State | None]


def all_moves(state: State, columns: Sequence[Column], *, fixed_order: bool) -> list[Move]:
    """Return every small change of a state that keeps its number of columns."""
    by_name = {column.name: column for column in columns}
    moves = [] if fixed_order else order_moves(state)
    for reading in state:
        moves += _readings(reading, by_name)
        moves += _category_orders(reading)
    return moves


def descend(
    state: State, moves_of: Callable[[State], list[Move]], distance: Distance, sweeps: int = _MOST_SWEEPS
) -> tuple[State, float]:
    """Apply moves while they lower the distance; return the last state and its distance."""
    nearest = float(distance.of([state])[0])
    for _ in range(sweeps):
        made = [(move, after) for move in moves_of(state) if (after := move.apply(state)) is not None]
        if not made:
            break
        found = distance.of([after for _, after in made])
        before = nearest
        for place in np.argsort(found, kind="stable"):
            if found[place] >= before * _LESS:
                break
            after = made[place][0].apply(state)  # after the moves before it in this sweep
            reached = np.inf if after is None else float(distance.of([after])[0])
            if after is not None and reached < nearest * _LESS:
                state, nearest = after, reached
        if nearest >= before * _LESS:
            break
    return state, nearest


def order_moves(state: State) -> list[Move]:
    """Return the exchanges of two readings, and the moves of one to another place."""
    names = [reading.feature.name for reading in state]
    moves = []
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            if i < j:
                moves.append(Move(f'"{first}" and "{second}" exchanged', _exchange(first, second)))
            if abs(i - j) > 1:
                where = f'before "{second}"' if j < i else f'after "{second}"'
                moves.append(Move(f'"{first}" {where}', _place(first, second, before=j < i)))
    return moves


def _exchange(first: str, second: str) -> Callable[[State], State]:
    def apply(state: State) -> State:
        places = {reading.feature.name: place for place, reading in enumerate(state)}
        made = list(state)
        i, j = places[first], places[second]
        made[i], made[j] = made[j], made[i]
        return tuple(made)

    return apply


def _place(name: str, beside: str, *, before: bool) -> Callable[[State], State]:
    def apply(state: State) -> State:
        moved = next(reading for reading in state if reading.feature.name == name)
        made: list[Reading] = []
        for reading in state:
            if reading.feature.name == beside:
                made += [moved, reading] if before else [reading, moved]
            elif reading is not moved:
                made.append(reading)
        return tuple(made)

    return apply


def _readings(reading: Reading, by_name: Mapping[str, Column]) -> list[Move]:
    """Return the other readings of a column that take as many columns."""
    feature = reading.feature
    if feature.indicates is not None:
        column = by_name[feature.indicates]
        others = [column.indicator(standard) for standard in (False, True)]
    else:
        others = [other for other in by_name[feature.name].readings if other.feature.width == feature.width]
    return [
        Move(f'"{feature.name}" read as {other.words}', _read(feature.name, other))
        for other in others
        if other.feature != feature
    ]


def _read(name: str, other: Reading) -> Callable[[State], State]:
    return lambda state: tuple(other if reading.feature.name == name else reading for reading in state)


def _category_orders(reading: Reading) -> list[Move]:
    """Return the exchanges of two categories in their order."""
    categories = reading.feature.categories or ()
    if not 2 <= len(categories) <= _MOST_CATEGORIES:
        return []
    name = reading.feature.name
    return [
        Move(f'the categories "{one}" and "{other}" of "{name}" exchanged', _exchange_categories(name, one, other))
        for i, one in enumerate(categories)
        for other in categories[i + 1 :]
    ]


def _exchange_categories(name: str, one: str, other: str) -> Callable[[State], State | None]:
    def apply(state: State) -> State | None:
        made = []
        for reading in state:
            categories = reading.feature.categories or ()
            if reading.feature.name == name:
                if one not in categories or other not in categories:
                    return None
                swap = {one: other, other: one}
                order = tuple(swap.get(category, category) for category in categories)
                feature = replace(reading.feature, categories=order)
                reading = Reading(feature, (reading.style[0], "own order", *reading.style[2:]))
            made.append(reading)
        return tuple(made)

    return apply
