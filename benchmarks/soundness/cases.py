"""Random networks, specs and inputs for run.py: what is common, and what is numerically hard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairmend import FairmendError, Feature, Network, Spec
from fairmend.network import Activation, Affine

KINKED = [Activation("relu"), Activation("leaky_relu", 0.125), Activation("leaky_relu", 0.01), Activation("identity")]
CURVED = [Activation("tanh"), Activation("sigmoid")]
MOST_POINTS = 1200  # in the neighbourhood of one input
WEIGHTS = ["normal", "normal", "normal", "small", "large", "mixed", "sparse", "cancelling", "bump"]


@dataclass(frozen=True)
class Case:
    """A network, a spec and inputs (inputs, width) in the network's precision."""

    network: Network
    spec: Spec
    X: np.ndarray


def random_case(rng: np.random.Generator, inputs: int) -> Case:
    """Return a case whose neighbourhoods can be listed, or sampled well if a continuous feature varies."""
    spec = random_spec(rng)
    dtype = np.float64 if rng.random() < 0.25 else np.float32
    network = random_network(rng, spec.width, dtype)
    X = random_inputs(rng, spec, inputs, dtype)
    return Case(move_threshold(rng, network, spec, X), spec, X)


def move_threshold(rng: np.random.Generator, network: Network, spec: Spec, X: np.ndarray) -> Network:
    """Return the network with another bias of its head: classes are balanced, or one input is on or near a tie."""
    kind = str(rng.choice(["as it is", "balanced", "balanced", "tie", "own bits"]))
    if kind == "as it is":
        return network
    logits = network.logits(X).reshape(len(X), -1).astype(np.float64)
    row = int(rng.integers(len(X)))
    if kind == "own bits":
        twins = network.logits(encoded_again(spec, X)).reshape(logits.shape).astype(np.float64)
        apart = np.flatnonzero((twins != logits).any(axis=1))
        row = int(rng.choice(apart)) if len(apart) else row
        shift = (logits[row] + twins[row]) / 2
    else:
        shift = np.median(logits, axis=0) if kind == "balanced" else logits[row]
    head = network.head
    moved = Affine(head.weight, head.bias - shift.astype(head.bias.dtype))
    return network.with_operations({len(network.nodes) - 1: moved})


def encoded_again(spec: Spec, X: np.ndarray) -> np.ndarray:
    """Return the same people with the bits that the spec's own encoding gives them."""
    again = X.copy()
    # A column that is looked up holds such bits anyway.
    for feature in spec.features:
        if feature.kind != "continuous" and not feature.one_hot:
            column = spec.columns(feature.name).start
            offset, factor = scale_of(feature)
            again[:, column] = (feature.nearest(X[:, column]) - offset) / factor
    return again


def random_network(
    rng: np.random.Generator,
    inputs: int,
    dtype: Any = np.float32,
    *,
    activations: list[Activation] | None = None,
    outputs: int | None = None,
) -> Network:
    """Return a network of 0 to 6 hidden layers of any width up to 12, now and then up to 40."""
    depth = int(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 6]))
    widest = 40 if rng.random() < 0.05 else 12
    widths = [inputs, *rng.integers(1, widest + 1, depth), outputs or int(rng.choice([1, 1, 1, 2, 3, 5]))]
    style = WEIGHTS[rng.integers(len(WEIGHTS))]
    affines = [random_affine(rng, into, out, style, dtype) for into, out in pairwise(widths)]
    if activations is None:
        activations = KINKED if rng.random() < 0.6 else KINKED + CURVED
    network = Network(affines, [activations[rng.integers(len(activations))] for _ in range(depth)])
    return plant_bump(rng, network) if style == "bump" and depth > 0 else network


def random_affine(rng: np.random.Generator, into: int, out: int, style: str, dtype: Any) -> Affine:
    weight = rng.normal(size=(out, into)) * np.sqrt(2 / into)
    bias = 0.5 * rng.normal(size=out)
    if style == "small":
        weight, bias = weight * 1e-2, bias * 1e-3
    elif style == "large":
        weight, bias = weight * 33, bias * 33
    elif style == "mixed":
        weight = weight * 10.0 ** rng.uniform(-3, 2, weight.shape)
    elif style == "sparse":
        weight, bias = weight * (rng.random(weight.shape) < 0.5), bias * (rng.random(out) < 0.5)
    elif style == "cancelling":
        nearly = -weight[:, :1] * (1 + 2.0 ** -rng.integers(10, 24))
        weight = np.where(rng.random(weight.shape) < 0.5, weight[:, :1], nearly)
        bias = bias * 1e-3
    return Affine(weight.astype(dtype), bias.astype(dtype))


def plant_bump(rng: np.random.Generator, network: Network) -> Network:
    """Give the first hidden layer a narrow ramp with a steep weight behind it: a small set of inputs decides."""
    first, *rest = network.affines
    weight, bias = first.weight.copy(), first.bias.copy()
    unit = int(rng.integers(len(weight)))
    weight[unit] *= 30
    bias[unit] = -np.abs(weight[unit]).sum() * rng.uniform(0.2, 0.9)
    following = rest[0].weight.copy()
    following[:, unit] *= 30
    return Network([Affine(weight, bias), Affine(following, rest[0].bias), *rest[1:]], network.activations)


def random_spec(rng: np.random.Generator) -> Spec:
    """Return two to five features, the first protected; in a third of the specs a continuous one varies."""
    continuous = rng.random() < 0.33
    features: list[Feature] = []
    points = 1
    for number in range(int(rng.integers(2, 6))):
        left = MOST_POINTS // points
        feature, size = random_feature(rng, f"f{number}", protected=number == 0, continuous=continuous, left=left)
        features.append(feature)
        points *= size
    return Spec(features=[features[place] for place in rng.permutation(len(features))])


def random_feature(
    rng: np.random.Generator, name: str, *, protected: bool, continuous: bool, left: int
) -> tuple[Feature, int]:
    """Return a feature, and a bound on the number of values that a neighbour can have; at most ``left`` of them.

    Some that would vary in nothing, or by a tolerance, have bands.
    """
    feature, size = _without_bands(rng, name, protected=protected, continuous=continuous, left=left)
    if feature.protected or left < 8 or rng.random() > 0.3 or (feature.kind == "continuous" and not continuous):
        return feature, size
    try:
        banded = replace(feature, bands=random_bands(rng, feature, left), tolerance=0.0)
    except FairmendError:  # one band, or edges that float32 cannot tell apart
        return feature, size
    if banded.groups:
        return banded, max(map(len, banded.groups)) + 1
    ends = [*banded.lower_ends, banded.bounds[1] + 1]
    return banded, 8 if banded.kind == "continuous" else max(int(b - a) for a, b in pairwise(ends)) + 1


def random_bands(rng: np.random.Generator, feature: Feature, left: int) -> Any:
    """Return bands of a feature, of fewer than ``left`` whole numbers each; they may be refused."""
    if feature.categories:
        band = rng.integers(int(rng.integers(2, 4)), size=len(feature.categories))
        groups = [[c for c, b in zip(feature.categories, band, strict=True) if b == k] for k in range(3)]
        return [group for group in groups if group]
    low, high = feature.bounds
    if feature.kind == "integer":
        return {"width": int(rng.integers(2, min(left - 1, 9)))}
    return [low, *sorted(rng.uniform(low, high, int(rng.integers(1, 5))))]


def _without_bands(
    rng: np.random.Generator, name: str, *, protected: bool, continuous: bool, left: int
) -> tuple[Feature, int]:
    kind = str(rng.choice(["integer", "integer", "ordinal", "one-hot", "continuous"]))
    protected = protected or (rng.random() < 0.3 and left >= 12)
    if kind == "continuous" and protected and not continuous:
        kind = "integer"
    if kind in ("ordinal", "one-hot"):
        categories = tuple("abcdef"[: int(rng.integers(2, 7))])
        dropped = str(rng.choice(categories)) if kind == "one-hot" and rng.random() < 0.3 else None
        scale = random_scale(rng, 0, len(categories) - 1) if kind == "ordinal" and rng.random() < 0.3 else None
        feature = Feature(name=name, kind="categorical", categories=categories, encoding=kind, protected=protected,
                          dropped=dropped, scale=scale)  # fmt: skip
        return feature, (len(categories) + 1 if protected else 1)
    low = int(rng.choice([0, 0, 0, 1, -3, 17, 40, 100_000, 16_777_000]))
    size = int(rng.integers(1, 10 if protected else 60))
    scale = random_scale(rng, low, low + size) if rng.random() < 0.6 else None
    tolerance = 0.0
    if not protected and left >= 8 and rng.random() < 0.5 and (kind == "integer" or continuous):
        tolerance = float(rng.integers(1, 3)) if rng.random() < 0.5 else float(rng.uniform(0.1, 2.5))
    feature = Feature(name=name, kind=kind, range=(low, low + size), scale=scale, protected=protected,
                      tolerance=tolerance)  # fmt: skip
    if kind == "continuous":
        return feature, (8 if protected or tolerance else 1)
    return feature, (size + 2 if protected else 2 * int(tolerance) + 2 if tolerance >= 1 else 1)


def random_scale(rng: np.random.Generator, low: float, high: float) -> dict[str, float]:
    """Return a standard or min-max scale; sometimes the mean is large beside the standard deviation."""
    kind = rng.integers(4)
    if kind == 0:
        return {"min": float(low), "max": float(high) + 1}
    if kind == 1:
        return {"mean": float(low + rng.uniform(0, 1e5)), "std": float(10.0 ** rng.uniform(-1, 4))}
    return {"mean": float((low + high) / 2 + rng.normal()), "std": float(1 + (high - low) * rng.random())}


def random_inputs(
    rng: np.random.Generator, spec: Spec, count: int, dtype: Any, exact: Collection[int] = ()
) -> np.ndarray:
    """Return inputs; a third are scaled elsewhere: their own bits differ from those of the spec's encoding.

    The columns ``exact`` are whole numbers, which are looked up.
    """
    X = spec.sample_inputs(count, rng, dtype)
    for feature in spec.features:
        column = spec.columns(feature.name).start
        if feature.one_hot or column in exact:
            continue
        x = X[:, column].copy()
        chosen = rng.random(count) < 1 / 3
        if feature.scale is not None and rng.random() < 0.5:
            offset, factor = scale_of(feature)
            with np.errstate(over="ignore"):
                other = ((x.astype(np.float64) * factor + offset).astype(np.float32) - np.float32(offset)) / np.float32(
                    factor
                )
        else:
            other = np.nextafter(x, rng.choice(np.array([-np.inf, np.inf], x.dtype), count))
        nearest = feature.nearest(other.astype(dtype))
        same_value = np.abs(feature.unscaled(other.astype(dtype)) - nearest) < 0.9 * feature.slack(nearest)
        X[:, column] = np.where(chosen & same_value, other.astype(dtype), x)
    return X


def rounded_by(feature: Feature, x: Any, own: Any, by: Any) -> Any:
    """Return by how much the number in the data may be off from ``own``, that of x, and what is ``by`` away from it."""
    offset, factor = scale_of(feature)
    lowest, highest = feature.range if feature.range is not None else (0, len(feature.categories) - 1)
    sizes = np.abs(own) + abs(offset) + np.minimum(by, highest - lowest)
    error = 0.5 * np.spacing(np.abs(x)).astype(np.float64) * factor + 2.0**-49 * sizes
    return error if feature.kind == "continuous" else np.floor(error + 0.5)


def scale_of(feature: Feature) -> tuple[float, float]:
    """Return offset and factor: the encoding of v is (v - offset) / factor."""
    scale = feature.scale
    if scale is None:
        return 0.0, 1.0
    return (scale["mean"], scale["std"]) if "mean" in scale else (scale["min"], scale["max"] - scale["min"])
