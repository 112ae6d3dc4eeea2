"""What is true about a case, computed without fairmend's bounds, engines and neighbourhoods.

The neighbourhood is written down again from docs/certificate.md. Points are evaluated in float64 with a bound of the
error; a point that is too close to a tie for that is evaluated in rational arithmetic (with curves: to 60 digits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import mpmath
import numpy as np

from fairmend import Feature, Network
from soundness_cases import Case, scale_of

SAMPLED = 5  # values of a continuous feature, besides its ends and the input's own
MOST_EXACT = 1000  # points of a case that are evaluated in exact arithmetic
MOST_TO_MANY_DIGITS = 20  # if the network has curves
DIGITS, SURE = 60, 1e-45
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}


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
        self.points = self._all_points()
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
        most = MOST_TO_MANY_DIGITS if is_curved(self.network) else MOST_EXACT
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
        if not is_curved(self.network):
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
    if feature.protected:
        return True
    if feature.kind == "integer":
        return feature.tolerance >= 1 and feature.range[0] < feature.range[1]
    return feature.kind == "continuous" and feature.tolerance > 0 and feature.range[0] < feature.range[1]


def evaluate(network: Network, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits (points, outputs) in float64, a bound of their error, and one of the error of inference."""
    h = points
    precisions = (UNIT["float64"], UNIT[network.dtype.name])
    errors = [np.zeros_like(h) for _ in precisions]
    for layer, affine in enumerate(network.affines):
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        size = np.abs(weight).T
        z = h @ weight.T + bias
        for place, unit in enumerate(precisions):
            growth = 2 * (h.shape[1] + 2) * unit
            errors[place] = errors[place] @ size * (1 + growth) + growth * (np.abs(h) @ size + np.abs(bias)) + 1e-40
        if layer < len(network.activations):
            activation = network.activations[layer]
            h = activate(activation.name, activation.slope, z)
            if activation.name not in ("relu", "identity"):
                errors = [error + 16 * unit * (np.abs(h) + 1) for error, unit in zip(errors, precisions, strict=True)]
        else:
            h = z
    return h, errors[0], errors[1]


def activate(name: str, slope: float, z: np.ndarray) -> np.ndarray:
    if name == "tanh":
        return np.tanh(z)
    if name == "sigmoid":
        return 0.5 * (1 + np.tanh(0.5 * z))
    return z if name == "identity" else np.where(z >= 0, z, slope * z)


def classify(logits: np.ndarray, error: np.ndarray, rounding: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return classes (points,), whether each is certain, and whether inference must give it too."""
    if logits.shape[1] == 1:
        lead, count = np.abs(logits[:, 0]), 1
        classes = (logits[:, 0] >= 0).astype(np.int64)
    else:
        ordered = np.sort(logits, axis=1)
        lead, count = ordered[:, -1] - ordered[:, -2], 2
        classes = logits.argmax(axis=1)
    return classes, lead > count * error.max(axis=1), lead > count * (rounding.max(axis=1) + error.max(axis=1))


def margins(logits: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return how far each point (points,) is from another class than the answer."""
    if logits.shape[1] == 1:
        return np.where(answers == 1, logits[:, 0], -logits[:, 0])
    others = logits.copy()
    every = np.arange(len(logits))
    others[every, answers] = -np.inf
    return np.asarray(logits[every, answers] - others.max(axis=1))


def is_curved(network: Network) -> bool:
    return any(activation.name in ("tanh", "sigmoid") for activation in network.activations)


def exact_classes(network: Network, points: np.ndarray) -> list[int]:
    """Return the classes of points (points, width) in exact arithmetic, or to 60 digits if the network has curves."""
    if is_curved(network):
        return [class_to_many_digits(network, point) for point in points]
    h, exponent = as_integers(points)
    for layer, affine in enumerate(network.affines):
        weight, of_weight = as_integers(affine.weight)
        bias, of_bias = as_integers(affine.bias)
        shift = max(0, of_bias - exponent - of_weight)
        exponent += of_weight + shift
        h = (h @ weight.T) * 2**shift + bias * 2 ** (exponent - of_bias)
        if layer < len(network.activations) and network.activations[layer].name != "identity":
            slope, of_slope = as_integers(np.array(network.activations[layer].slope))
            exponent += of_slope
            h = np.where(h >= 0, h * 2**of_slope, h * slope.item())
    if h.shape[1] == 1:
        return [int(value >= 0) for value in h[:, 0]]
    return [max(range(len(row)), key=lambda place: (row[place], -place)) for row in h.tolist()]


def as_integers(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return whole numbers, as Python integers, and e such that values = whole numbers / 2^e."""
    ratios = [float(value).as_integer_ratio() for value in np.ravel(values)]
    exponent = max(below.bit_length() - 1 for _, below in ratios)
    whole = np.array([above * (2**exponent // below) for above, below in ratios], dtype=object)
    return whole.reshape(np.shape(values)), exponent


def class_to_many_digits(network: Network, point: np.ndarray) -> int:
    number = mpmath.mpf
    with mpmath.workdps(DIGITS):
        h = [number(float(value)) for value in point]
        for layer, affine in enumerate(network.affines):
            h = [
                sum((number(float(w)) * value for w, value in zip(row, h, strict=True) if w), number(float(b)))
                for row, b in zip(affine.weight, affine.bias, strict=True)
            ]
            if layer < len(network.activations):
                activation = network.activations[layer]
                h = [precise_activation(activation.name, activation.slope, z) for z in h]
        return int(h[0] >= -SURE) if len(h) == 1 else max(range(len(h)), key=lambda place: (h[place], -place))


def precise_activation(name: str, slope: float, z: Any) -> Any:
    if name == "tanh":
        return mpmath.tanh(z)
    if name == "sigmoid":
        return 1 / (1 + mpmath.exp(-z))
    return z if name == "identity" or z >= 0 else mpmath.mpf(slope) * z


def kinks(network: Network, start: np.ndarray, end: np.ndarray, most: int = 400) -> np.ndarray:
    """Return the points (kinks, width) between two points at which a piecewise linear network bends, and the two."""
    at = np.array([0.0, 1.0])

    def points(at: np.ndarray) -> np.ndarray:
        return np.clip(start + at[:, None] * (end - start), np.minimum(start, end), np.maximum(start, end))

    for layer in range(len(network.activations)):
        if network.activations[layer].name == "identity":
            continue
        h = points(at)
        for affine, activation in zip(network.affines[:layer], network.activations, strict=False):
            h = activate(activation.name, activation.slope, h @ affine.weight.astype(np.float64).T + affine.bias)
        z = h @ network.affines[layer].weight.astype(np.float64).T + network.affines[layer].bias
        before, after = z[:-1], z[1:]
        piece, unit = np.nonzero(before * after < 0)
        share = before[piece, unit] / (before[piece, unit] - after[piece, unit])
        at = np.unique(np.concatenate([at, at[piece] + share * (at[piece + 1] - at[piece])]))[:most]
    return points(at)
