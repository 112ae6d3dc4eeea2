"""Planted bumps: networks that predict one class but for a narrow bump of a logit in one person's neighbourhood.

The planted counterfactual has another class in exact rational arithmetic, by fractions that share no code with
fairmend. FAIR is therefore wrong, whatever an engine computes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.spec import Feature, Spec
from support.exact import exact_logits


@dataclass(frozen=True)
class Bump:
    """A network, an input x (width,), and a counterfactual of x with another class in exact arithmetic."""

    kind: str
    network: Network
    spec: Spec
    x: np.ndarray
    other: np.ndarray


Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weight and bias of each affine layer, in float64; the last has one output, which is 0 away from the bump."""


def plant_bump(rng: np.random.Generator) -> Bump:
    """Return a random bump that the planted counterfactual reaches, and the input does not."""
    while True:
        dtype = np.dtype(rng.choice(["float32", "float64"]))
        spec = random_spec(rng)
        x, other = random_pair(rng, spec, dtype)
        changed = np.flatnonzero(x != other)
        if not len(changed):
            continue
        kind, build = KINDS[rng.integers(len(KINDS))]
        layers = build(rng, x.astype(np.float64), other.astype(np.float64), changed)
        activation = (
            Activation("leaky_relu", 0.125) if kind == "triangle" and rng.random() < 0.5 else Activation("relu")
        )
        network = embed(rng, layers, len(x), dtype, activation)
        if all(np.isfinite(part).all() for a in network.affines for part in (a.weight, a.bias)) and (
            exact_class(network, x) != exact_class(network, other)
        ):
            return Bump(kind, network, spec, x, other)


def exact_class(network: Network, x: np.ndarray) -> int:
    """The class in exact arithmetic: a logit of 0 is class 1, and of several equal logits the first counts."""
    logits = exact_logits(network, x)
    return int(logits[0] >= 0) if len(logits) == 1 else logits.index(max(logits))


def random_spec(rng: np.random.Generator) -> Spec:
    """One to three features that vary, of any kind, and up to two that do not."""
    features = [_feature(rng, f"varies{i}", varies=True, protected=not i) for i in range(rng.integers(1, 4))]
    features += [_feature(rng, f"fixed{i}", varies=False) for i in range(rng.integers(0, 3))]
    return Spec([features[i] for i in rng.permutation(len(features))])


def _feature(rng: np.random.Generator, name: str, *, varies: bool, protected: bool = False) -> Feature:
    kind = str(rng.choice(["continuous", "continuous", "integer", "ordinal", "one-hot"]))
    protected = protected or (varies and bool(rng.random() < 0.7))
    if kind in ("ordinal", "one-hot"):
        categories = tuple("abcde"[: rng.integers(2, 6)])
        return Feature(name, "categorical", categories=categories, encoding=kind, protected=varies)
    if kind == "integer":
        span = int(rng.choice([3, 20, 100, 5000]))
        scale = {"mean": span / 2, "std": 1 + span * rng.random()} if rng.random() < 0.5 else None
        tolerance = 0.0 if protected or not varies else float(rng.integers(1, span + 1))
        return Feature(name, "integer", range=(0, span), scale=scale, protected=protected, tolerance=tolerance)
    low, span = float(rng.choice([-1.0, 0.0, 0.0, 100.0])), float(rng.choice([1.0, 8.0, 1000.0]))
    scale = {"min": low, "max": low + span} if rng.random() < 0.4 else None
    tolerance = 0.0 if protected or not varies else span * rng.random()
    return Feature(name, "continuous", range=(low, low + span), scale=scale, protected=protected, tolerance=tolerance)


def random_pair(rng: np.random.Generator, spec: Spec, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """An input and a counterfactual of it, encoded; now and then at an end of the range."""
    x = spec.sample_inputs(1, rng, dtype)[0]
    other = x.copy()
    regions = spec.regions(x[None], dtype)
    piece = int(rng.integers(len(regions.owner)))
    other[:] = regions.lower[piece]  # the one-hot columns
    for feature in spec.features:
        if feature.varies and not feature.one_hot:
            column = spec.columns(feature.name).start
            low, high = regions.lower[piece, column], regions.upper[piece, column]
            value = float(rng.choice([low, high, low + rng.random() * (float(high) - float(low))], p=[0.2, 0.2, 0.6]))
            if feature.kind != "continuous":
                encoded = feature.scaled(feature.nearest(np.array([value]))).astype(dtype)[0]
                value = float(encoded) if low <= encoded <= high else float(x[column])
            other[column] = np.clip(dtype.type(value), low, high)
    return x, other


def tent(rng: np.random.Generator, x: np.ndarray, other: np.ndarray, changed: np.ndarray) -> Layers:
    """relu(1 - sum |x_k - c_k| / w_k): two units for each column, then one; steep where w is small."""
    columns = rng.permutation(changed)[: rng.integers(1, len(changed) + 1)]
    weight, bias = np.zeros((2 * len(columns), len(x))), np.zeros(2 * len(columns))
    inner = 10.0 ** rng.uniform(-6, 6) if rng.random() < 0.5 else 1.0
    for i, k in enumerate(columns):
        slope = inner * _steepness(rng, x[k], other[k])
        centre = other[k] + (0.3 * rng.uniform(-1, 1) * inner / slope if rng.random() < 0.5 else 0.0)
        for row, sign in ((2 * i, 1), (2 * i + 1, -1)):
            weight[row, k], bias[row] = sign * slope, -sign * slope * centre
    return [(weight, bias), (np.full((1, len(bias)), -1 / inner), np.ones(1)), *_chain(rng)]


def triangle(rng: np.random.Generator, x: np.ndarray, other: np.ndarray, changed: np.ndarray) -> Layers:
    """The second difference of a projection: three units whose large outputs cancel away from the bump."""
    direction = np.zeros(len(x))
    columns = rng.permutation(changed)[: rng.integers(1, len(changed) + 1)]
    direction[columns] = rng.choice([1.0, -1.0, 0.5, 3.0], len(columns))
    here, there = float(direction @ other), float(direction @ x)
    width = 1 / _steepness(rng, there, here)
    weight = np.tile(direction, (3, 1))
    return [(weight, -here + np.array([width, 0.0, -width])), (np.array([[1.0, -2.0, 1.0]]) / width, np.zeros(1))]


def corner(rng: np.random.Generator, x: np.ndarray, other: np.ndarray, changed: np.ndarray) -> Layers:
    """A kink that is crossed by very little, in a corner at the planted point, times a very large weight."""
    columns = rng.permutation(changed)[: rng.integers(1, len(changed) + 1)]
    sign = np.zeros(len(x))
    sign[columns] = np.where(other > x, 1.0, -1.0)[columns] * 10.0 ** rng.integers(-2, 3)
    little = 10.0 ** rng.uniform(-15, -4) * max(1.0, float(np.abs(sign * other).max()))
    scale = 10.0 ** rng.uniform(-8, 2) if rng.random() < 0.5 else 1.0
    bias = np.array([scale * (little - float(sign @ other))])
    return [(scale * sign[None], bias), (np.array([[1 / (scale * little)]]), np.zeros(1)), *_chain(rng)[1:]]


def steep(rng: np.random.Generator, x: np.ndarray, other: np.ndarray, changed: np.ndarray) -> Layers:
    """A tent whose steepness is the product of the weights of several layers, such as 33."""
    columns = rng.permutation(changed)[: rng.integers(1, len(changed) + 1)]
    k = float(rng.choice([33.0, 10.0 ** rng.uniform(1, 3)]))
    sides = np.zeros((2 * len(columns), len(x)))
    for i, column in enumerate(columns):
        sides[2 * i : 2 * i + 2, column] = k, -k
    middle = [(np.full((1, len(sides)), k), np.zeros(1))]
    middle += [(np.array([[k]]), np.zeros(1)) for _ in range(rng.integers(0, 3))]
    return [(sides, -sides @ other), *middle, (np.array([[-k]]), np.ones(1)), (np.ones((1, 1)), np.zeros(1))]


KINDS: list[tuple[str, Callable[..., Layers]]] = [
    ("tent", tent),
    ("triangle", triangle),
    ("corner", corner),
    ("steep", steep),
]


def _steepness(rng: np.random.Generator, there: float, here: float) -> float:
    """One over the half width of a bump at `here` that does not reach `there`."""
    apart = abs(there - here) or 1.0
    return 10.0 ** rng.uniform(0.05, 6) / apart if rng.random() < 0.8 else max(33.0, 1.1 / apart)


def _chain(rng: np.random.Generator) -> Layers:
    """Up to three layers of one unit, whose weights multiply to 1."""
    factors = 10.0 ** rng.uniform(-4, 4, size=rng.integers(0, 3))
    last = 1 / np.prod(factors) if len(factors) else 1.0
    return [(np.array([[factor]]), np.zeros(1)) for factor in [*factors, last]]


def embed(rng: np.random.Generator, bump: Layers, inputs: int, dtype: np.dtype, activation: Activation) -> Network:
    """Put the bump into a network of one to three outputs, beside other units that change the logits only a little."""
    others = int(rng.choice([0, 0, 1, 4]))
    widths = [inputs] + [others] * (len(bump) - 1)
    affines: list[Affine] = []
    for layer, (weight, bias) in enumerate(bump[:-1]):
        beside = rng.normal(size=(others, widths[layer])) / np.sqrt(max(1, widths[layer]))
        across = weight.shape[1] if layer else 0  # after the first layer, two blocks without connections
        joined = np.zeros((len(weight) + others, across + widths[layer]))
        joined[: len(weight), : weight.shape[1]] = weight
        joined[len(weight) :, across:] = beside
        affines.append(Affine(joined.astype(dtype), np.concatenate([bias, rng.normal(size=others)]).astype(dtype)))
    affines.append(_head(rng, bump[-1][0], others, dtype))
    return Network(affines, [activation] * (len(affines) - 1))


def _head(rng: np.random.Generator, weight: np.ndarray, others: int, dtype: np.dtype) -> Affine:
    height, base = float(rng.choice([1.5, 2.0, 4.0, 1000.0])), float(rng.choice([0.125, 1.0, 1.0, 10.0]))
    outputs = int(rng.choice([1, 1, 1, 3]))
    rows = np.zeros((outputs, weight.shape[1] + others))
    rows[:, weight.shape[1] :] = 0.01 * base * rng.normal(size=(outputs, others))
    bias = np.zeros(outputs)
    if outputs == 1:
        sign = float(rng.choice([1.0, -1.0]))
        bias[0], rows[0, : weight.shape[1]] = sign * base, -sign * base * height * weight[0]
    else:
        first, second = rng.permutation(outputs)[:2]
        bias[first], rows[second, : weight.shape[1]] = base, base * height * weight[0]
    return Affine(rows.astype(dtype), bias.astype(dtype))
