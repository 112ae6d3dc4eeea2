"""What a network computes, without fairmend's arithmetic: in float64 with a bound of the error, and exactly.

`evaluate` is for many points. Where its error could change a class, `exact_classes` computes with whole numbers times a
power of two, so that nothing is rounded; with curves, to 60 digits.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from benchmarks.soundness.functions import (
    POSITIVE,
    in_float64,
    is_curved,
    kinks_of,
    numbers_of,
    steepest,
    to_many_digits,
)
from fairmend import Network
from fairmend.network import Activation, Affine, Columns, Concatenate, Lookup, Normalise, Product, Scale, Softmax, Sum

DIGITS = 60
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}
Exact = tuple[np.ndarray, int]  # Python integers, and e: the numbers are integers / 2^e


def has_curves(network: Network) -> bool:
    multiplies = any(isinstance(node.operation, Product | Softmax | Normalise) for node in network.nodes)
    return multiplies or any(is_curved(activation) for activation in network.activations)


def offset_of(threshold: float) -> float:
    """Return the log-odds of a threshold: the logit from which class 1 is predicted."""
    return float(np.log(threshold) - np.log1p(-threshold)) if threshold != 0.5 else 0.0


def evaluate(network: Network, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits (points, outputs) in float64, a bound of their error, and one of the error of inference.

    The log-odds of the network's threshold are subtracted from the last one.
    """
    values, errors = [points.astype(np.float64)], [[np.zeros(points.shape)] * 2]
    units = (UNIT["float64"], UNIT[network.dtype.name])
    for node in network.nodes[1:]:
        before = [values[source] for source in node.sources]
        value = compute(node.operation, before)
        values.append(value)
        errors.append(
            [
                _error(node.operation, before, value, [errors[source][place] for source in node.sources], unit)
                for place, unit in enumerate(units)
            ]
        )
    offset = offset_of(network.threshold)
    logits = values[-1].copy()
    logits[:, -1] -= offset
    return logits, errors[-1][0] + 8 * units[0] * abs(offset), errors[-1][1] + 64 * units[1] * (1 + abs(offset))


def compute(operation: Any, before: list[np.ndarray]) -> np.ndarray:
    """Return an operation on values (points, width) in float64."""
    if isinstance(operation, Affine):
        return np.asarray(before[0] @ operation.weight.astype(np.float64).T + operation.bias.astype(np.float64))
    if isinstance(operation, Scale):
        return np.asarray(before[0] * operation.factor.astype(np.float64) + operation.shift.astype(np.float64))
    if isinstance(operation, Activation):
        return in_float64(operation, before[0])
    if isinstance(operation, Sum):
        return np.asarray(sum(before[1:], before[0]))
    if isinstance(operation, Concatenate):
        return np.concatenate(before, axis=1)
    if isinstance(operation, Columns):
        return before[0][:, list(operation.indices)]
    if isinstance(operation, Product):
        return sums_of_products(operation, *before)
    if isinstance(operation, Softmax):
        groups = grouped(before[0], operation)
        parts = np.exp(groups - groups.max(axis=2, keepdims=True))
        return np.asarray(parts / parts.sum(axis=2, keepdims=True)).reshape(before[0].shape)
    if isinstance(operation, Normalise):
        apart, spread = apart_and_spread(operation, before[0])
        return np.asarray(apart / np.sqrt(spread)).reshape(before[0].shape)
    assert isinstance(operation, Lookup)
    return operation.table.astype(np.float64)[before[0][:, 0].astype(np.int64)]


def grouped(values: np.ndarray, operation: Any) -> np.ndarray:
    """Return values (points, groups, numbers)."""
    return values.reshape(len(values), -1, operation.group)


def sums_of_products(product: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    left = a.reshape(len(a), product.groups, product.rows, 1, product.length)
    right = b.reshape(len(b), product.groups, 1, product.columns, product.length)
    return np.asarray((left * right).sum(axis=4)).reshape(len(a), -1)


def apart_and_spread(operation: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far numbers are from the mean of their group, if it is centred, and the mean square plus epsilon."""
    groups = grouped(values, operation)
    apart = groups - groups.mean(axis=2, keepdims=True) if operation.centred else groups
    return apart, (apart * apart).mean(axis=2, keepdims=True) + operation.epsilon


def _group_error(operation: Any, before: np.ndarray, error: np.ndarray, unit: float) -> np.ndarray:
    """Bound the error of a softmax or a normalisation, from derivatives that hold wherever the values may be."""
    values, off = grouped(before, operation), grouped(error, operation)
    size, n = np.abs(values) + off, operation.group
    if isinstance(operation, Softmax):
        # A probability times a factor between exp(-2 e) and exp(2 e), and never more than 1 apart.
        reach = 2 * off.max(axis=2, keepdims=True) + 2 * unit * (n + 32 + 4 * size.max(axis=2, keepdims=True))
        return np.broadcast_to(np.minimum(np.expm1(np.minimum(reach, 1.0)) + 1e-40, 1.0), values.shape)
    apart, spread = apart_and_spread(operation, before)
    moved = off + (off.mean(axis=2, keepdims=True) if operation.centred else 0.0)
    largest = np.abs(apart) + moved
    # All values that may be there have at least this spread; one pass or two, it is off by units of the squares.
    change = (2 * np.abs(apart) * moved + moved * moved).mean(axis=2, keepdims=True)
    rounding = 8 * (n + 16) * unit * ((size * size).mean(axis=2, keepdims=True) + operation.epsilon)
    least = spread - change - rounding
    root = 1 / np.sqrt(np.maximum(least, operation.epsilon / 4))
    slope = root * moved + largest * root**3 / 2 * (change + rounding)
    slope = slope + 8 * (n + 16) * unit * (root * (size + size.mean(axis=2, keepdims=True)) + largest * root) + 1e-38
    return np.where(least > operation.epsilon / 4, slope, 2 * np.sqrt(n) + slope)


def _error(
    operation: Any, before: list[np.ndarray], value: np.ndarray, errors: list[np.ndarray], unit: float
) -> np.ndarray:
    """Bound the error of a step, with that of what it reads."""
    if isinstance(operation, Affine):
        size = np.abs(operation.weight.astype(np.float64)).T
        growth = 2 * (before[0].shape[1] + 2) * unit
        own = growth * (np.abs(before[0]) @ size + np.abs(operation.bias)) + 1e-40
        return np.asarray(errors[0] @ size * (1 + growth) + own)
    if isinstance(operation, Scale):
        factor = np.abs(operation.factor.astype(np.float64))
        size = np.abs(before[0]) * factor + np.abs(operation.shift) + operation.line.size
        return np.asarray(errors[0] * factor * (1 + 4 * unit) + 32 * unit * size + 1e-40)
    if isinstance(operation, Activation):
        if operation.name in ("relu", "identity"):
            return errors[0]
        own = 32 * unit * (np.abs(before[0]) + np.abs(value) + 1)
        steep = steepest(operation, before[0] - errors[0], before[0] + errors[0])
        return np.asarray(errors[0] * steep * (1 + 4 * unit) + own)
    if isinstance(operation, Sum):
        size = sum(np.abs(part) for part in before) + sum(errors)
        return np.asarray(sum(errors) + 2 * len(before) * unit * size)
    if isinstance(operation, Product):
        a, b = (np.abs(part) for part in before)
        carried = sums_of_products(operation, errors[0], b + errors[1]) + sums_of_products(operation, a, errors[1])
        whole = sums_of_products(operation, a + errors[0], b + errors[1])
        return np.asarray(carried * (1 + 1e-12) + 2 * (operation.length + 4) * unit * whole + 1e-38)
    if isinstance(operation, Softmax | Normalise):
        return np.asarray(_group_error(operation, before[0], errors[0], unit)).reshape(value.shape)
    if isinstance(operation, Lookup):
        return np.zeros(value.shape)
    return compute(operation, errors)  # columns and concatenations move numbers around


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


def exact_classes(network: Network, points: np.ndarray) -> list[int]:
    """Return the classes of points (points, width) in exact arithmetic, or to 60 digits if the network has curves."""
    if has_curves(network):
        return [_class_to_many_digits(network, point) for point in points]
    found = [as_integers(points)]
    for node in network.nodes[1:]:
        found.append(_compute_exactly(node.operation, [found[source] for source in node.sources]))
    whole, exponent = found[-1]
    if network.threshold != 0.5:
        with mpmath.workdps(DIGITS):
            rows = [[mpmath.ldexp(mpmath.mpf(int(value)), -exponent) for value in row] for row in whole.tolist()]
            return [_decide(row, network.threshold) for row in rows]
    if whole.shape[1] == 1:
        return [int(value >= 0) for value in whole[:, 0]]
    return [_largest(row) for row in whole.tolist()]


def as_integers(values: np.ndarray) -> Exact:
    """Return whole numbers, as Python integers, and e such that values = whole numbers / 2^e."""
    ratios = [float(value).as_integer_ratio() for value in np.ravel(values)]
    exponent = max(below.bit_length() - 1 for _, below in ratios)
    whole = np.array([above * (2**exponent // below) for above, below in ratios], dtype=object)
    return whole.reshape(np.shape(values)), exponent


def _aligned(*parts: Exact) -> tuple[list[np.ndarray], int]:
    """Return the integers of all parts for one exponent."""
    exponent = max(own for _, own in parts)
    return [whole * 2 ** (exponent - own) for whole, own in parts], exponent


def _plus(first: Exact, second: Exact) -> Exact:
    (one, other), exponent = _aligned(first, second)
    return one + other, exponent


def _compute_exactly(operation: Any, before: list[Exact]) -> Exact:
    whole, exponent = before[0]
    if isinstance(operation, Affine):
        weight, of_weight = as_integers(operation.weight)
        return _plus((whole @ weight.T, exponent + of_weight), as_integers(operation.bias))
    if isinstance(operation, Scale):
        factor, of_factor = as_integers(operation.factor)
        return _plus((whole * factor, exponent + of_factor), as_integers(operation.shift))
    if isinstance(operation, Activation):
        return _function_exactly(operation, before[0])
    if isinstance(operation, Sum):
        for other in before[1:]:
            whole, exponent = _plus((whole, exponent), other)
        return whole, exponent
    if isinstance(operation, Concatenate):
        parts, exponent = _aligned(*before)
        return np.concatenate(parts, axis=1), exponent
    if isinstance(operation, Columns):
        return whole[:, list(operation.indices)], exponent
    assert isinstance(operation, Lookup)
    return as_integers(operation.table[[int(value) // 2**exponent for value in whole[:, 0]]])


def _function_exactly(activation: Activation, z: Exact) -> Exact:
    name, numbers = activation.name, numbers_of(activation)
    if name == "identity":
        return z
    if name == "hardsigmoid":
        slope, of_slope = as_integers(np.array(numbers[0]))
        line = _plus((z[0] * slope.item(), z[1] + of_slope), as_integers(np.array(numbers[1])))
        return _clip_exactly(line, 0.0, 1.0)
    if name == "clip":
        return _clip_exactly(z, *numbers)
    slope, of_slope = as_integers(np.array(numbers[0] if numbers else 0.0))
    slope = slope if slope.ndim else slope.item()
    return np.where(z[0] >= 0, z[0] * 2**of_slope, z[0] * slope), z[1] + of_slope


def _clip_exactly(z: Exact, low: float, high: float) -> Exact:
    for end, cut in ((low, np.maximum), (high, np.minimum)):
        if np.isfinite(end):
            (whole, limit), exponent = _aligned(z, as_integers(np.array([end])))
            z = cut(whole, limit), exponent
    return z


def _class_to_many_digits(network: Network, point: np.ndarray) -> int:
    for digits in (DIGITS, 10 * DIGITS):  # a sigmoid far from 0 may leave a logit of 1e-100, which is no tie
        with mpmath.workdps(digits):
            found = [_to_numbers(point)]
            for node in network.nodes[1:]:
                reads = [found[source] for source in node.sources]
                if isinstance(node.operation, Activation) and node.operation.name in POSITIVE and min(reads[0]) <= 0:
                    return -1  # no class: a forged network may have a logarithm of what is negative
                found.append(_compute_to_many_digits(node.operation, reads))
            least = mpmath.mpf(10) ** (-3 * digits // 4)
            if network.threshold != 0.5 or len(found[-1]) > 1 or abs(found[-1][0]) > least:
                return _decide(found[-1], network.threshold)
    return 1  # a tie


def _to_numbers(values: np.ndarray) -> list[Any]:
    return [mpmath.mpf(float(value)) for value in values]


def _compute_to_many_digits(operation: Any, before: list[list[Any]]) -> list[Any]:
    if isinstance(operation, Affine):
        return [
            sum((w * value for w, value in zip(_to_numbers(row), before[0], strict=True) if w), mpmath.mpf(float(b)))
            for row, b in zip(operation.weight, operation.bias, strict=True)
        ]
    if isinstance(operation, Scale):
        lines = zip(_to_numbers(operation.factor), _to_numbers(operation.shift), before[0], strict=True)
        return [factor * value + shift for factor, shift, value in lines]
    if isinstance(operation, Activation):
        return to_many_digits(operation, before[0])
    if isinstance(operation, Sum):
        return [sum(parts[1:], parts[0]) for parts in zip(*before, strict=True)]
    if isinstance(operation, Concatenate):
        return [value for part in before for value in part]
    if isinstance(operation, Columns):
        return [before[0][index] for index in operation.indices]
    if isinstance(operation, Product):
        left, right = (np.array(part, dtype=object)[None] for part in before)
        return list(sums_of_products(operation, left, right)[0])
    if isinstance(operation, Softmax | Normalise):
        starts = range(0, len(before[0]), operation.group)
        return [value for start in starts for value in _group(operation, before[0][start : start + operation.group])]
    assert isinstance(operation, Lookup)
    return _to_numbers(operation.table[int(before[0][0])])


def _group(operation: Any, numbers: list[Any]) -> list[Any]:
    """Return a softmax or a normalisation of one group, to many digits."""
    if isinstance(operation, Softmax):
        parts = [mpmath.exp(number - max(numbers)) for number in numbers]
        return [part / mpmath.fsum(parts) for part in parts]
    mean = mpmath.fsum(numbers) / len(numbers) if operation.centred else mpmath.mpf(0)
    apart = [number - mean for number in numbers]
    spread = mpmath.fsum(number**2 for number in apart) / len(apart) + mpmath.mpf(operation.epsilon)
    return [number / mpmath.sqrt(spread) for number in apart]


def _decide(logits: list[Any], threshold: float) -> int:
    """Return the class of logits to many digits."""
    if threshold != 0.5:
        odds = mpmath.mpf(threshold) / (1 - mpmath.mpf(threshold))
        return int(logits[-1] - (logits[0] if len(logits) == 2 else 0) >= mpmath.log(odds))
    return int(logits[0] >= 0) if len(logits) == 1 else _largest(logits)


def _largest(row: list[Any]) -> int:
    return max(range(len(row)), key=lambda place: (row[place], -place))


def kinks(network: Network, start: np.ndarray, end: np.ndarray, most: int = 400) -> np.ndarray:
    """Return the points (kinks, width) between two points at which a piecewise linear network bends, and the two."""
    at = np.array([0.0, 1.0])

    def points(at: np.ndarray) -> np.ndarray:
        return np.clip(start + at[:, None] * (end - start), np.minimum(start, end), np.maximum(start, end))

    for place, node in enumerate(network.nodes):
        if not isinstance(node.operation, Activation):
            continue
        values = [points(at)]
        for earlier in network.nodes[1:place]:
            values.append(compute(earlier.operation, [values[source] for source in earlier.sources]))
        for kink in kinks_of(node.operation):
            z = values[node.sources[0]] - kink
            before, after = z[:-1], z[1:]
            piece, unit = np.nonzero(before * after < 0)
            share = before[piece, unit] / (before[piece, unit] - after[piece, unit])
            crossings = at[: len(z)][piece] + share * (at[1 : len(z)] - at[: len(z) - 1])[piece]
            at = np.concatenate([at, crossings])  # those before them keep their places
        at = np.unique(at)[:most]
    return points(at)
