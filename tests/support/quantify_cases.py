"""Small spaces of people for quantify, and what is true about them by enumeration."""

from itertools import product

import numpy as np

from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Affine, Network
from fairmend.network.model import compute_scores
from fairmend.spec import Feature, Spec
from fairmend_check.shares.people import Boxes

SMALL = Spec(
    [
        Feature(name="age", kind="integer", range=(20, 24), protected=True),
        Feature(name="hours", kind="integer", range=(0, 9), scale={"mean": 4, "std": 3}),
        Feature(name="colour", kind="categorical", categories=("red", "green", "blue"), encoding="one-hot"),
        Feature(name="level", kind="categorical", categories=("low", "middle", "high", "top")),
    ]
)
TOLERANT = Spec(
    [
        Feature(
            name="race", kind="categorical", categories=("A", "B", "C"), encoding="one-hot", protected=True, dropped="B"
        ),
        Feature(name="hours", kind="integer", range=(0, 7), scale={"mean": 4, "std": 3}, tolerance=1),
        Feature(name="grade", kind="integer", range=(1, 6), tolerance=2),
        Feature(name="colour", kind="categorical", categories=("red", "green"), encoding="one-hot", dropped="red"),
    ]
)
MANY = Spec(
    [
        Feature(name="age", kind="integer", range=(18, 60), protected=True, scale={"mean": 40, "std": 10}),
        Feature(name="race", kind="categorical", categories=("A", "B", "C"), encoding="one-hot", protected=True),
        Feature(name="hours", kind="integer", range=(0, 12), scale={"mean": 4, "std": 3}),
        Feature(name="level", kind="integer", range=(0, 5)),
    ]
)
CONTINUOUS = Spec([SMALL.features[0], *(Feature(name=n, kind="continuous", range=(-1, 2)) for n in "ab")])
_SEX = Feature(name="sex", kind="categorical", categories=("M", "F"), encoding="one-hot", protected=True)
_AGE = Feature(name="age", kind="integer", range=(20, 23), protected=True, scale={"mean": 21, "std": 2})
_RELATION = {"name": "relation", "kind": "categorical", "categories": ("Husband", "Wife", "Other")}
_YEARS = Feature(name="years", kind="integer", range=(0, 5), scale={"mean": 3, "std": 2})
_MARRIED = [
    {"when": {"sex": "F"}, "then": {"relation": {"Husband": "Wife"}}},
    {"when": {"sex": "M"}, "then": {"relation": {"Wife": "Husband", "Other": ["Husband", "Other"]}}},
]
_GRADE = Feature(name="grade", kind="integer", range=(0, 4), tolerance=1)
LINKED = {
    "categories": Spec([_SEX, Feature(**_RELATION, encoding="one-hot"), _YEARS], links=_MARRIED),
    "dropped": Spec([_SEX, Feature(**_RELATION, encoding="one-hot", dropped="Wife"), _YEARS, _GRADE], links=_MARRIED),
    "ordinal": Spec([_AGE, _SEX, Feature(**_RELATION)], links=_MARRIED),
    "offset": Spec([_AGE, _SEX, _YEARS], links=[{"when": {"age": [20, 21]}, "then": {"years": {"offset": -2}}}]),
    "range": Spec(
        [_AGE, _SEX, Feature(**_RELATION), _YEARS],
        links=[*_MARRIED, {"when": {"age": 22, "sex": "F"}, "then": {"years": {"range": [1, 3]}}}],
    ),
    "offsets": Spec([_AGE, _YEARS, _GRADE], links=[{"when": {"age": 20}, "then": {"years": {"offset": [-1, 2]}}}]),
}
"""Specs with links of every kind."""

SPECS = {"small": SMALL, "tolerant": TOLERANT, "many": MANY}


def axes_of(spec: Spec) -> list[Feature]:
    """Return the features of people: the unprotected ones, and then the protected ones that links depend on."""
    named = {name for link in spec.links for name in link.when}
    free = [feature for feature in spec.features if not feature.protected]
    return free + [feature for feature in spec.features if feature.protected and feature.name in named]


def everyone_of(spec: Spec) -> Boxes:
    """Return the box of all people of a finite spec."""
    last = np.array([[int(high - low) for low, high in (feature.bounds for feature in axes_of(spec))]])
    return Boxes(np.zeros_like(last), last)


def people_of(spec: Spec, boxes: Boxes | None = None, row: int = 0, dtype=np.float32) -> np.ndarray:
    """Return everyone in a box, or everyone, with the lowest protected values."""
    boxes = everyone_of(spec) if boxes is None else boxes
    axes = axes_of(spec)
    x = {feature.name: encoded(feature, 0) for feature in spec.features}
    X = []
    for cells in product(*(range(a, b + 1) for a, b in zip(boxes.first[row], boxes.last[row], strict=True))):
        own = {feature.name: encoded(feature, cell) for feature, cell in zip(axes, cells, strict=True)}
        X.append(np.concatenate([(x | own)[feature.name] for feature in spec.features]))
    return np.array(X).astype(dtype)


def encoded(feature: Feature, cell: int) -> np.ndarray:
    """Return the columns of a value."""
    return feature.encode(np.array([feature.bounds[0] + cell]))[0]


def unequal_people(net: Network, spec: Spec, boxes: Boxes | None = None, row: int = 0) -> np.ndarray:
    """Return which people of a box, or of all, are treated unequally, by enumeration of all similar people."""
    return find_unequal(net, spec, people_of(spec, boxes, row, net.dtype)).rows


def random_boxes(spec: Spec, rng: np.random.Generator, count: int) -> Boxes:
    """Return boxes with random ends."""
    sizes = everyone_of(spec).last[0] + 1
    ends = np.sort(rng.integers(0, sizes, (2, count, len(sizes))), axis=0)
    return Boxes(ends[0], ends[1])


def linear(weight, bias, dtype=np.float32) -> Network:
    """Return a network of one affine layer."""
    return Network([Affine(np.array([weight], dtype), np.array([bias], dtype))], [])


def spreads_of(net: Network, spec: Spec, boxes: Boxes | None = None, row: int = 0) -> np.ndarray:
    """Return how far apart the scores of similar people are for everyone in a box, by enumeration."""
    X = people_of(spec, boxes, row, net.dtype)
    low, high = np.full((len(X), net.outputs), np.inf), np.full((len(X), net.outputs), -np.inf)
    for rows, points in spec.points(X, dtype=net.dtype):
        scores = compute_scores(net, points, spec.claim.on)
        np.minimum.at(low, rows, scores)
        np.maximum.at(high, rows, scores)
    return (high - low).max(axis=1)
