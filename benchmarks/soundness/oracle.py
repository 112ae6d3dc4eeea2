"""What is true about a case, computed without fairmend's bounds, engines and neighbourhoods.

The neighbourhood is written down again from docs/certificate.md. Points are evaluated by arithmetic.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from benchmarks.soundness.arithmetic import classify, evaluate, exact_classes, has_curves, kinks
from benchmarks.soundness.cases import Case, rounded_by, scale_of
from benchmarks.soundness.links import linked_points
from fairmend import Feature

SAMPLED = 5  # values of a continuous feature, besides its ends and the input's own
MOST_EXACT = 1000  # points of a case that are evaluated in exact arithmetic
MOST_TO_MANY_DIGITS = 20  # if the network has curves


@dataclass(frozen=True)
class Axis:
    """The values that neighbours of each input may have in one feature: (inputs, values, columns of the feature).

    A continuous feature has all values from ``low`` to ``high`` (inputs,), of which ``values`` are some.
    """

    columns: slice
    values: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def axis_of(feature: Feature, columns: slice, X: np.ndarray, rng: np.random.Generator) -> Axis:
    """Return the axis of a feature that varies, for the inputs X (inputs, width)."""
    if feature.bands is not None:
        return banded_axis(feature, columns, X, rng)
    if feature.one_hot:
        square = np.eye(len(feature.categories))
        if feature.dropped is not None:
            square = np.delete(square, feature.categories.index(feature.dropped), axis=1)
        return Axis(columns, np.broadcast_to(square, (len(X), *square.shape)))
    offset, factor = scale_of(feature)
    lowest, highest = feature.range if feature.range is not None else (0, len(feature.categories) - 1)
    own_bits = X[:, columns.start].astype(np.float64)
    own = np.clip(own_bits * factor + offset, lowest, highest)
    whole = feature.kind != "continuous"
    own = np.rint(own) if whole else own
    reach = np.inf if feature.protected else np.floor(feature.tolerance) if whole else feature.tolerance
    if not feature.protected and reach > 0:  # what the number in the data was rounded by
        reach = reach + rounded_by(feature, X[:, columns.start], own, reach)
    first, last = np.maximum(lowest, own - reach), np.minimum(highest, own + reach)
    encode = lambda values: ((values - offset) / factor).astype(X.dtype).astype(np.float64)  # noqa: E731
    if whole:
        steps = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
        values = np.concatenate([encode(steps), own_bits[:, None]], axis=1)
        return Axis(columns, values[:, :, None])
    low, high = np.minimum(encode(first), own_bits), np.maximum(encode(last), own_bits)
    inside = low[:, None] + rng.random((len(X), SAMPLED)) * (high - low)[:, None]
    values = np.concatenate([low[:, None], high[:, None], own_bits[:, None], inside], axis=1)
    return Axis(columns, np.clip(values, low[:, None], high[:, None])[:, :, None], low, high)


def banded_axis(feature: Feature, columns: slice, X: np.ndarray, rng: np.random.Generator) -> Axis:
    """Return the axis of a feature with bands: the values of the band of each input, and its own bits."""
    own_bits = X[:, columns].astype(np.float64)
    offset, factor = (0.0, 1.0) if feature.one_hot else scale_of(feature)
    encode = lambda values: ((np.asarray(values) - offset) / factor).astype(X.dtype).astype(np.float64)  # noqa: E731
    if feature.kind == "continuous":
        edges = encode(feature.bands)
        band = np.maximum((edges[None] <= own_bits).sum(axis=1) - 1, 0)
        below = np.nextafter(edges[1:].astype(X.dtype), X.dtype.type(-np.inf)).astype(np.float64)
        own = own_bits[:, 0]
        low, high = edges[band], np.append(below, encode(feature.range[1]))[band]
        low, high = np.minimum(low, own), np.maximum(high, own)
        inside = low[:, None] + rng.random((len(X), SAMPLED)) * (high - low)[:, None]
        values = np.concatenate([low[:, None], high[:, None], own[:, None], inside], axis=1)
        return Axis(columns, np.clip(values, low[:, None], high[:, None])[:, :, None], low, high)
    if feature.categories is None:
        lowest, highest = feature.range
        every = list(range(lowest, highest + 1))
        members = [[v for v in every if sum(e <= v for e in feature.bands) == k + 1] for k in range(len(feature.bands))]
        codes = np.clip(np.rint(own_bits[:, 0] * factor + offset), lowest, highest)
    else:
        members = [[feature.categories.index(name) for name in group] for group in feature.bands]
        square = np.eye(len(feature.categories))
        if feature.dropped is not None:
            square = np.delete(square, feature.categories.index(feature.dropped), axis=1)
        if feature.one_hot:
            codes = np.array([int(np.flatnonzero((square == row).all(axis=1))[0]) for row in own_bits])
        else:
            codes = np.clip(np.rint(own_bits[:, 0] * factor + offset), 0, len(feature.categories) - 1)
    most = max(map(len, members))
    found = [next(group for group in members if code in group) for code in codes]
    filled = np.array([[*group, *[group[-1]] * (most - len(group))] for group in found])
    values = square[filled] if feature.one_hot else encode(filled.astype(np.float64))[:, :, None]
    return Axis(columns, np.concatenate([values, own_bits[:, None]], axis=1))


class Oracle:
    """The neighbours of the inputs of a case, and their classes.

    points : (inputs, neighbours, width); all neighbours, or some of them if a continuous feature varies
    classes, sure : (inputs, neighbours), the class of each in exact arithmetic, and whether it is known
    by_inference : (inputs, neighbours), whether inference in the network's precision must give that class too
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.network, self.spec, self.X = case.network, case.spec, case.X
        self.axes = [
            axis_of(feature, case.spec.columns(feature.name), case.X, rng)
            for feature in case.spec.features
            if varies(feature)
        ]
        self.finite = all(axis.low is None for axis in self.axes)
        self.points = linked_points(case.spec, case.X) if case.spec.links else self._all_points()
        flat = self.points.reshape(-1, self.points.shape[2])
        self.logits, self.error, self.rounding = evaluate(self.network, flat)
        shape = self.points.shape[:2]
        classes, sure, by_inference = classify(self.logits, self.error, self.rounding)
        self.classes, self.sure = classes.reshape(shape), sure.reshape(shape)
        self.by_inference = by_inference.reshape(shape)
        self.exact_evaluations = 0

    def _all_points(self) -> np.ndarray:
        sizes = [axis.values.shape[1] for axis in self.axes]
        chosen = np.array(list(product(*(range(size) for size in sizes))), dtype=np.int64).reshape(-1, len(sizes))
        points = np.repeat(self.X.astype(np.float64)[:, None, :], len(chosen), axis=1)
        for axis, index in zip(self.axes, chosen.T, strict=True):
            points[:, :, axis.columns] = axis.values[:, index]
        return points

    @cached_property
    def own_classes(self) -> np.ndarray:
        """The class of each input itself, in exact arithmetic."""
        logits, error, rounding = evaluate(self.network, self.X.astype(np.float64))
        classes, sure, _ = classify(logits, error, rounding)
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            classes[unsure] = exact_classes(self.network, self.X[unsure])
        return classes

    def resolve(self, rows: np.ndarray, rng: np.random.Generator) -> int:
        """Evaluate unsure neighbours of these inputs exactly, as many as is affordable; return how many are left."""
        unsure = np.argwhere(~self.sure[rows])
        rng.shuffle(unsure)
        most = MOST_TO_MANY_DIGITS if has_curves(self.network) else MOST_EXACT
        chosen = unsure[: max(0, most - self.exact_evaluations)]
        if len(chosen):
            where = rows[chosen[:, 0]], chosen[:, 1]
            self.classes[where] = exact_classes(self.network, self.points[where])
            self.sure[where] = True
            self.exact_evaluations += len(chosen)
        return len(unsure) - len(chosen)

    def contradiction(self, row: int, answer: int) -> np.ndarray | None:
        """Return a neighbour of an input whose class in exact arithmetic is not ``answer``; None if none is known."""
        wrong = np.flatnonzero(self.sure[row] & (self.classes[row] != answer))
        return self.points[row, wrong[0]] if len(wrong) else None

    def is_neighbour(self, row: int, point: np.ndarray) -> bool:
        """Whether a point is in the neighbourhood of an input, bit for bit."""
        if self.spec.links:
            return bool((self.points[row] == point.astype(np.float64)).all(axis=1).any())
        fixed = np.ones(len(point), dtype=bool)
        for axis in self.axes:
            fixed[axis.columns] = False
            value = point[axis.columns].astype(np.float64)
            if axis.low is not None:
                if not axis.low[row] <= value[0] <= axis.high[row]:
                    return False
            elif not (axis.values[row] == value).all(axis=1).any():
                return False
        return bool((point[fixed] == self.X[row][fixed]).all())

    def search(self, rows: np.ndarray, answers: np.ndarray, rng: np.random.Generator) -> list[tuple[int, np.ndarray]]:
        """Look for neighbours of some inputs with another class than ``answers`` (all inputs,): continuous features.

        Random steps around the neighbour with the least margin, and all kinks of the network on a line through it.
        """
        margin = margins(self.logits, np.repeat(answers, self.points.shape[1]))
        margin = margin.reshape(self.points.shape[:2])
        best = self.points[rows, margin[rows].argmin(axis=1)]
        least = margin[rows].min(axis=1)
        continuous = [axis for axis in self.axes if axis.low is not None]
        for radius in 0.3 ** np.arange(1, 7):
            tried = np.repeat(best[:, None], 8, axis=1)
            for axis in continuous:
                low, high = axis.low[rows][:, None], axis.high[rows][:, None]
                step = rng.uniform(-radius, radius, tried.shape[:2]) * (high - low)
                tried[:, :, axis.columns.start] = np.clip(tried[:, :, axis.columns.start] + step, low, high)
            found = margins(
                evaluate(self.network, tried.reshape(-1, tried.shape[2]))[0], np.repeat(answers[rows], tried.shape[1])
            ).reshape(tried.shape[:2])
            better = found.min(axis=1) < least
            best[better] = tried[better, found.argmin(axis=1)[better]]
            least = np.minimum(least, found.min(axis=1))
        candidates = [(int(row), point) for row, point in zip(rows, best, strict=True)]
        if not has_curves(self.network):
            for place in rng.permutation(len(rows))[:10]:
                axis = continuous[rng.integers(len(continuous))]
                row = int(rows[place])
                line = np.repeat(best[place][None], 2, axis=0)
                line[:, axis.columns.start] = axis.low[row], axis.high[row]
                candidates += [(row, point) for point in kinks(self.network, *line)]
        points = np.array([point for _, point in candidates])
        classes, sure, _ = classify(*evaluate(self.network, points))
        expected = answers[[row for row, _ in candidates]]
        return [candidates[number] for number in np.flatnonzero(sure & (classes != expected))]


def varies(feature: Feature) -> bool:
    """Whether a neighbour can have another value of a feature."""
    if feature.protected or feature.bands is not None:
        return True
    if feature.kind == "integer":
        return feature.tolerance >= 1 and feature.range[0] < feature.range[1]
    return feature.kind == "continuous" and feature.tolerance > 0 and feature.range[0] < feature.range[1]


def margins(logits: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return how far each point (points,) is from another class than the answer."""
    if logits.shape[1] == 1:
        return np.where(answers == 1, logits[:, 0], -logits[:, 0])
    others = logits.copy()
    every = np.arange(len(logits))
    others[every, answers] = -np.inf
    return np.asarray(logits[every, answers] - others.max(axis=1))
