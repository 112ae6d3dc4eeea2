"""First guesses of an encoding from the scores: the order of the columns, and the scales of numbers.

The order: the slope of the scores in a column of the data is that of their linear regression; the slope of the network
in an input is the mean of its derivative. For standardised inputs the two agree (Stein's lemma: exactly so for normal
ones), so the column belongs to the input with the same slope.

The scales: a scaler that was fitted on other rows, such as a training split, has other parameters than the data gives.
With the columns in their places, the scores determine them: the network's outputs are a smooth function of offset,
factor and filled-in value of each column, and the right ones leave no error at all. Levenberg-Marquardt finds them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

import numpy as np
import pandas as pd

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.evaluate.encoding.candidates import State
from fairmend.evaluate.encoding.moves import Distance
from fairmend.spec import Feature
from fairmend.spec.draft.readings import Reading
from fairmend.spec.features import scale_parameters

_ROUNDS = 6
_SLOPE_STEP = 1e-4
_MOST_PLACEMENTS = 3_000  # of the one-hot groups


_STEP = 1e-6
_MOST_STEPS = 60
_ENOUGH = 1e-10  # the largest error, relative to the spread of the scores, at which nothing is left to fit
_ROWS_PER_PARAMETER = 2


def assign_order(state: State, distance: Distance) -> State:
    """Return the readings in the order in which their slopes agree best with those of the inputs."""
    nearest, best = float(distance.of([state])[0]), state
    slopes = _slopes_of_scores(state, distance)
    for _ in range(_ROUNDS):
        made = _arrange(state, slopes, _slopes_of_network(distance.encode(state), distance))
        if made is None or made == state:
            break
        state = made
        reached = float(distance.of([state])[0])
        if reached < nearest:
            nearest, best = reached, state
    return best


def _slopes_of_scores(state: State, distance: Distance) -> dict[str, Floats]:
    """Return the slopes (columns, outputs) of the scores in the columns of each reading."""
    parts = [distance.columns(reading) for reading in state]
    centred = np.hstack([part - part.mean(axis=0) for part in parts])
    target = distance.target - distance.target.mean(axis=0)
    found = np.linalg.lstsq(centred, target, rcond=1e-8)[0]  # of one-hot columns, the least slopes
    ends = np.cumsum([part.shape[1] for part in parts])
    names = [reading.feature.name for reading in state]
    return dict(zip(names, np.split(found, ends[:-1]), strict=True))


def _slopes_of_network(X: Floats, distance: Distance) -> Floats:
    """Return the mean slope (inputs, outputs) of the network in each input."""
    found = []
    for column in range(X.shape[1]):
        up, down = X.copy(), X.copy()
        up[:, column] += _SLOPE_STEP
        down[:, column] -= _SLOPE_STEP
        found.append((distance.links(up) - distance.links(down)).mean(axis=0) / (2 * _SLOPE_STEP))
    return np.array(found)


def _arrange(state: State, scores: dict[str, Floats], network: Floats) -> State | None:
    """Return the readings in the best order: every place of the one-hot groups, and the best places of the others."""
    wide = [reading for reading in state if reading.feature.width > 1]
    narrow = [reading for reading in state if reading.feature.width == 1]
    inputs = len(network)
    costs = np.array([[_cost(scores[r.feature.name], network[p : p + 1]) for p in range(inputs)] for r in narrow])
    best, found = np.inf, None
    widths = [reading.feature.width for reading in wide]
    group_costs = [
        np.array([_cost(scores[r.feature.name], network[s : s + width]) for s in range(inputs - width + 1)])
        for r, width in zip(wide, widths, strict=True)
    ]
    for starts in _placements(widths, group_costs):
        placed = {start: reading for reading, start in zip(wide, starts, strict=True)}
        cost = float(sum(own[start] for own, start in zip(group_costs, starts, strict=True)))
        if cost >= best:
            continue
        taken = {place for start, r in placed.items() for place in range(start, start + r.feature.width)}
        free = np.array([place for place in range(inputs) if place not in taken], dtype=np.int64)
        chosen = _assign(costs[:, free]) if narrow else free
        cost += float(costs[np.arange(len(narrow)), free[chosen]].sum()) if narrow else 0.0
        if cost < best:
            best = cost
            found = placed | {int(free[place]): reading for reading, place in zip(narrow, chosen, strict=True)}
    return None if found is None else tuple(found[place] for place in sorted(found))


def _placements(widths: list[int], costs: list[Floats]) -> Iterator[tuple[int, ...]]:
    """Yield first columns of groups that do not overlap, from the cheapest ones of each group."""
    kept = max(1, int(_MOST_PLACEMENTS ** (1 / max(1, len(widths)))))
    cheapest = [np.argsort(own, kind="stable")[:kept].tolist() for own in costs]
    for starts in islice(product(*cheapest), _MOST_PLACEMENTS):
        spans = sorted(zip(starts, widths, strict=True))
        if all(start + width <= after for (start, width), (after, _) in pairwise(spans)):
            yield starts


def _assign(costs: Floats) -> Ints:
    """Return a column for each row of a square matrix with a low sum: the least entry first, then better exchanges."""
    count = len(costs)
    chosen = np.full(count, -1, dtype=np.int64)
    left = costs.copy()
    for _ in range(count):
        row, column = np.unravel_index(int(left.argmin()), left.shape)
        chosen[row] = column
        left[row, :] = left[:, column] = np.inf
    improved = True
    while improved:
        own = costs[np.arange(count), chosen]
        crossed = costs[:, chosen]  # the cost of row i in the column of row j
        gain = own[:, None] + own[None, :] - crossed - crossed.T
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        improved = bool(gain[i, j] > 1e-12)
        if improved:
            chosen[i], chosen[j] = chosen[j], chosen[i]
    return chosen


def _cost(ours: Floats, theirs: Floats) -> float:
    """Return how far two slopes (columns, outputs) differ; those of a one-hot group up to a constant."""
    difference = ours - theirs
    if len(difference) > 1:
        difference = difference - difference.mean(axis=0)
    return float((difference**2).sum())


@dataclass(frozen=True, eq=False)
class _Slot:
    """A column with a scale: its place in the state and in the inputs, and which rows have no value."""

    place: int
    column: int
    missing: Bools


def fit_scales(state: State, distance: Distance, frame: pd.DataFrame, looked_up: Collection[int] = ()) -> State | None:
    """Return the state with fitted scales; None if there is nothing to fit, or too few rows to fit it.

    ``frame`` holds the rows of ``distance``. Inputs that are ``looked_up`` in tables are codes, and stay.
    """
    slots = [slot for slot in _slots(state, frame) if slot.column not in looked_up]
    gaps = [slot for slot in slots if slot.missing.any()]
    count = 2 * len(slots) + len(gaps)
    if not slots or distance.rows < _ROWS_PER_PARAMETER * count:
        return None
    start = distance.encode(state)
    found = _solve(start, slots, gaps, distance)
    if found is None:
        return None
    made = list(state)
    shifts = dict(zip((slot.place for slot in gaps), found[2 * len(slots) :], strict=True))
    for number, slot in enumerate(slots):
        factor, offset = float(1 + found[2 * number]), float(found[2 * number + 1])
        fitted = _rescale(state[slot.place].feature, factor, offset, float(shifts.get(slot.place, 0.0)))
        if fitted is None:
            return None
        made[slot.place] = Reading(fitted, ("fitted to the scores",))
    return tuple(made)


def _slots(state: State, frame: pd.DataFrame) -> list[_Slot]:
    found, column = [], 0
    for place, reading in enumerate(state):
        feature = reading.feature
        if not feature.one_hot and not feature.as_is and feature.indicates is None:
            missing = frame[feature.name].isna().to_numpy(bool)
            varied = len(frame[feature.name].dropna().unique()) > 1
            if varied:
                number = feature.categories is None
                found.append(_Slot(place, column, missing if number else np.zeros(len(frame), bool)))
        column += feature.width
    return found


def _solve(start: Floats, slots: list[_Slot], gaps: list[_Slot], distance: Distance) -> Floats | None:
    """Return for each slot the change of its factor and its offset, then for each gap the shift of its value."""
    target, spread = distance.target, float(distance.target.std()) or 1.0
    parameters = np.zeros(2 * len(slots) + len(gaps))
    damping = 1e-3
    residual = (distance.links(start) - target).ravel()
    for _ in range(_MOST_STEPS):
        if np.abs(residual).max() <= _ENOUGH * spread:
            break
        X = _moved(start, slots, gaps, parameters)
        slopes = _slopes(X, slots, distance)
        parts = [part for n, slot in enumerate(slots) for part in (slopes[n] * start[:, slot.column, None], slopes[n])]
        places = {slot.column: n for n, slot in enumerate(slots)}
        parts += [slopes[places[slot.column]] * slot.missing[:, None] for slot in gaps]
        jacobian = np.stack([part.ravel() for part in parts], axis=1)
        improved = False
        for _ in range(12):
            step = _step(jacobian, residual, damping)
            tried = parameters - step
            error = (distance.links(_moved(start, slots, gaps, tried)) - target).ravel()
            if np.isfinite(error).all() and error @ error < residual @ residual:
                small = error @ error > (1 - 1e-12) * (residual @ residual)
                parameters, residual, damping, improved = tried, error, max(damping / 10, 1e-15), not small
                break
            damping *= 10
        if not improved:
            break
    return parameters if np.isfinite(parameters).all() else None


def _step(jacobian: Floats, residual: Floats, damping: float) -> Floats:
    """Return the damped least-squares step; columns are scaled, as scales of money and of ages differ."""
    sizes = np.linalg.norm(jacobian, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    scaled = np.vstack([jacobian / sizes, np.sqrt(damping) * np.eye(jacobian.shape[1])])
    solution = np.linalg.lstsq(scaled, np.concatenate([residual, np.zeros(jacobian.shape[1])]), rcond=None)[0]
    return np.asarray(solution / sizes)


def _moved(start: Floats, slots: list[_Slot], gaps: list[_Slot], parameters: Floats) -> Floats:
    X = start.copy()
    for number, slot in enumerate(slots):
        X[:, slot.column] = X[:, slot.column] * (1 + parameters[2 * number]) + parameters[2 * number + 1]
    for slot, shift in zip(gaps, parameters[2 * len(slots) :], strict=True):
        X[slot.missing, slot.column] += shift
    return X


def _slopes(X: Floats, slots: list[_Slot], distance: Distance) -> list[Floats]:
    """Return the slope of the outputs (rows, outputs) in each slot, by central differences."""
    found = []
    for slot in slots:
        step = _STEP * max(1.0, float(np.abs(X[:, slot.column]).max()))
        up, down = X.copy(), X.copy()
        up[:, slot.column] += step
        down[:, slot.column] -= step
        found.append((distance.links(up) - distance.links(down)) / (2 * step))
    return found


def _rescale(feature: Feature, factor: float, offset: float, shift: float) -> Feature | None:
    """Return a feature with factor * x + offset for an encoding x, plus the shift for a missing value; None if none."""
    mean, std = scale_parameters(feature.scale)
    if not (np.isfinite(factor) and factor > 0):
        return None
    scale = {"mean": mean - offset * std / factor, "std": std / factor}
    made = replace(feature, scale=scale)
    if not shift or feature.missing is None or feature.categories:
        return made
    value = float(feature.missing) + shift * scale["std"]
    low, high = feature.bounds
    kind = "continuous" if not value.is_integer() else feature.kind
    return replace(made, kind=kind, missing=value, range=(min(low, value), max(high, value)))
