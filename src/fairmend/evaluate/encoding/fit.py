"""The scales of numbers, and the values that replace missing ones, fitted to the scores.

A scaler that was fitted on other rows, such as a training split, has other parameters than the data gives. With the
columns in their places, the network's outputs are a smooth function of offset, factor and filled-in value of each
column, and the right ones leave no error at all. Levenberg-Marquardt finds them.

The scores need not determine them: offsets of more columns than the first layer has units can cancel each other there.
Such columns are marked. For this network any of these scales is right, but not for a repaired one with other weights.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairmend.base.arrays import Bools, Floats
from fairmend.evaluate.encoding.candidates import State
from fairmend.evaluate.encoding.moves import Distance
from fairmend.spec import Feature
from fairmend.spec.draft.readings import Reading
from fairmend.spec.features import scale_parameters

_STEP = 1e-6
_MOST_STEPS = 60
_ENOUGH = 1e-10  # the largest error, relative to the spread of the scores, at which nothing is left to fit
_ROWS_PER_PARAMETER = 2
_NOISE = 1e-7  # the least error of scores, relative to their spread: networks compute in float32
_NULL = 1e-9  # of the largest slope of the scores: what numerical slopes do not tell from none
_DIFFERENT = 0.01  # a change of an encoded value that is more than another sample makes

LEFT_OPEN = "which allow others"
"""The mark of a fitted scale that the scores do not determine."""


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
    left_open = _left_open(start, slots, gaps, found, distance)
    made = list(state)
    shifts = dict(zip((slot.place for slot in gaps), found[2 * len(slots) :], strict=True))
    for number, slot in enumerate(slots):
        factor, offset = float(1 + found[2 * number]), float(found[2 * number + 1])
        fitted = _rescale(state[slot.place].feature, factor, offset, float(shifts.get(slot.place, 0.0)))
        if fitted is None:
            return None
        made[slot.place] = Reading(fitted, ("fitted to the scores", LEFT_OPEN if left_open[number] else ""))
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
        jacobian = _jacobian(start, slots, gaps, parameters, distance)
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


def _jacobian(start: Floats, slots: list[_Slot], gaps: list[_Slot], parameters: Floats, distance: Distance) -> Floats:
    """Return the slopes of all outputs (rows times outputs) in the parameters."""
    slopes = _slopes(_moved(start, slots, gaps, parameters), slots, distance)
    parts = [part for n, slot in enumerate(slots) for part in (slopes[n] * start[:, slot.column, None], slopes[n])]
    places = {slot.column: n for n, slot in enumerate(slots)}
    parts += [slopes[places[slot.column]] * slot.missing[:, None] for slot in gaps]
    return np.stack([part.ravel() for part in parts], axis=1)


def _left_open(
    start: Floats, slots: list[_Slot], gaps: list[_Slot], parameters: Floats, distance: Distance
) -> list[bool]:
    """Return for each slot whether other scales give the same scores, up to the error that is left of them.

    Along a singular vector of the Jacobian, the parameters can change by the error over the singular value. A slot is
    left open if its encoded values then change by more than another sample would change them.
    """
    target, X = distance.target, _moved(start, slots, gaps, parameters)
    noise = max(float(np.sqrt(np.mean((distance.links(X) - target) ** 2))), _NOISE * (float(target.std()) or 1.0))
    jacobian = _jacobian(start, slots, gaps, parameters, distance)
    sizes = np.linalg.norm(jacobian, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    _, singular, directions = np.linalg.svd(jacobian / sizes, full_matrices=False)
    steps = directions * (noise / np.maximum(singular, _NULL * singular.max()))[:, None] / sizes
    shifts = dict(zip((slot.place for slot in gaps), steps[:, 2 * len(slots) :].T, strict=True))
    found = []
    for number, slot in enumerate(slots):
        values = start[~slot.missing, slot.column]
        factors, offsets = steps[:, 2 * number], steps[:, 2 * number + 1]
        changes = np.stack([factors * values.std(), factors * values.mean() + offsets])
        if slot.place in shifts:
            changes = np.vstack([changes, shifts[slot.place]])
        found.append(bool((np.linalg.norm(changes, axis=1) > _DIFFERENT).any()))
    return found


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
