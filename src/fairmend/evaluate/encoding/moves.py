"""How far an encoding is from the scores that the model gave, and a descent by small changes of it.

A change exchanges columns, moves one, or reads one in another way.

An exchange that puts a column into its place lowers the distance, whatever the other columns do: each column adds its
own part to the error. So the network itself tells where its columns belong, without trying all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.evaluate.encoding.candidates import Column, State
from fairmend.network import Network
from fairmend.network.gradients import backward, forward
from fairmend.network.model import scores_of
from fairmend.spec.draft.readings import Reading
from fairmend.spec.read_values import read_values

_BATCH = 16_384  # rows in one evaluation of the network
_LEAST_SHARE = 1e-9  # probabilities nearer to 0 or 1 tell no more


_MOST_CATEGORIES = 12  # in whose order single categories are exchanged
_MOST_SWEEPS = 40
_MANY = 30  # readings, beyond which single ones are exchanged but not moved past all between
_LESS = 1 - 1e-9  # an improvement is more than rounding


class Distance:
    """The distance of states from given scores (rows, columns) of the rows of a frame.

    Outputs and scores are compared as logits, so that errors near 0 and 1 count too; as outputs for a number to
    predict. Large errors count by their logarithm: a wrong scale must not hide which columns are right.
    """

    def __init__(
        self,
        net: Network,
        frame: pd.DataFrame,
        given: Floats,
        *,
        regression: bool,
        possible: Callable[[State], bool] = lambda state: True,
    ) -> None:
        """Keep the network in float64, and the scores as logits; a state that is not possible is infinitely far."""
        self._possible = possible
        self._net, self._frame, self._regression = net.astype(np.float64), frame, regression
        if net.rescaling is not None and given.shape[1] == 1 and not regression:
            given = net.rescaling.as_probabilities(given)
        self._target = self._as_logits(given)
        self._limit = np.abs(self._target).max() if not regression else np.inf
        self._centre = np.median(self._target, axis=0)
        spread = self._target.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._wanted = self._squash(self._target)
        self._columns: dict[Reading, Floats] = {}
        self.evaluations = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._frame)

    @property
    def target(self) -> Floats:
        """The given scores as logits (rows, outputs)."""
        return self._target

    def columns(self, reading: Reading) -> Floats:
        """Return the encoded columns (rows, width) of a reading."""
        if reading not in self._columns:
            feature = reading.feature
            self._columns[reading] = feature.encode(read_values(feature, self._frame))
        return self._columns[reading]

    def encode(self, state: State) -> Floats:
        """Return the encoded rows (rows, inputs)."""
        return np.hstack([self.columns(reading) for reading in state])

    def links(self, X: Floats) -> Floats:
        """Return the outputs of the network for X (rows, inputs) in the form of the target."""
        return self._in_form(scores_of(self._net.logits(X), "logit"))

    def _in_form(self, outputs: Floats) -> Floats:
        if self._regression or outputs.shape[1] == 1:
            return outputs
        if self._target.shape[1] == 1:
            return outputs[:, 1:2] - outputs[:, :1]
        return np.asarray(outputs - outputs.mean(axis=1, keepdims=True))

    def slopes(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the residual (rows, outputs), and in the inputs (rows, inputs) its slopes times itself, and alone."""
        values = forward(self._net, X)
        residual = self._in_form(scores_of(values[-1], "logit")) - self._target
        last = len(values) - 1
        weighted, plain = (
            backward(self._net, values, {last: self._before_form(part)}) for part in (residual, np.ones_like(residual))
        )
        return residual, weighted, plain

    def _before_form(self, slopes: Floats) -> Floats:
        """Return the slopes of the network's outputs, given those of the form of the target."""
        if self._regression or self._net.outputs == 1:
            return slopes
        if self._target.shape[1] == 1:
            return np.hstack([-slopes, slopes])
        centred = slopes - slopes.mean(axis=1, keepdims=True)
        return np.asarray(centred if centred.any() else slopes * np.where(np.arange(slopes.shape[1]) % 2, 1.0, -1.0))

    def of(self, states: Sequence[State]) -> Floats:
        """Return the distance of each state (states,)."""
        self.evaluations += len(states)
        found = np.full(len(states), np.inf)
        step = max(1, _BATCH // self.rows)
        possible = np.array([place for place, state in enumerate(states) if self._possible(state)], dtype=np.int64)
        for start in range(0, len(possible), step):
            chosen = possible[start : start + step]
            batch = [states[place] for place in chosen]
            links = self.links(np.concatenate([self.encode(state) for state in batch]))
            limited = np.clip(links, -self._limit, self._limit)
            difference = self._squash(limited).reshape(len(batch), self.rows, -1) - self._wanted
            found[chosen] = (difference**2).mean(axis=(1, 2))
        return found

    def _squash(self, links: Floats) -> Floats:
        return np.arcsinh((links - self._centre) / self._spread)

    def _as_logits(self, given: Floats) -> Floats:
        """Return given scores as logits: of one or two classes (rows, 1), of several with mean 0 (rows, classes)."""
        if self._regression:
            return given
        shares = bool(((given >= 0) & (given <= 1)).all())
        if given.shape[1] == 2 and (self._net.outputs == 1 or shares):
            given = given[:, 1:] if shares else given[:, 1:] - given[:, :1]
        if not shares:
            return given if given.shape[1] == 1 else given - given.mean(axis=1, keepdims=True)
        inside = np.clip(given, _LEAST_SHARE, 1 - _LEAST_SHARE)
        if given.shape[1] == 1:
            return np.log(inside / (1 - inside))
        logs = np.log(inside)
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Move:
    """A change of a state, in words; ``apply`` returns None where the state no longer allows it."""

    words: str
    apply: Callable[[State], State | None]


def all_moves(state: State, columns: Sequence[Column], *, fixed_order: bool) -> list[Move]:
    """Return every small change of a state that keeps its number of columns."""
    by_name = {column.name: column for column in columns}
    moves = [] if fixed_order else order_moves(state, exchanges_only=len(state) > _MANY)
    for reading in state:
        moves += _readings(reading, by_name)
        moves += _category_orders(reading)
    return moves


def descend(state: State, moves_of: Callable[[State], list[Move]], distance: Distance) -> tuple[State, float]:
    """Apply moves while they lower the distance; return the last state and its distance."""
    nearest = float(distance.of([state])[0])
    for _ in range(_MOST_SWEEPS):
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


def order_moves(state: State, *, exchanges_only: bool = False) -> list[Move]:
    """Return the exchanges of two readings, and the moves of one to another place."""
    names = [reading.feature.name for reading in state]
    moves = []
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            if i < j:
                moves.append(Move(f'"{first}" and "{second}" exchanged', _exchange(first, second)))
            if abs(i - j) > 1 and not exchanges_only:
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
                reading = reading.with_categories(tuple(swap.get(category, category) for category in categories))
            made.append(reading)
        return tuple(made)

    return apply
