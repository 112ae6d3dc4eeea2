"""Small spaces of people for quantify, and what is true about them by enumeration."""

from itertools import product

import numpy as np

from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Affine, Network
from fairmend.network.scores import compute_scores
from fairmend.quantifying.space import Boxes, Space
from fairmend.spec import Feature, Spec

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


def people_of(space: Space, boxes: Boxes, row: int, dtype) -> np.ndarray:
    """Return everyone in a box, with the lowest protected values."""
    ranges = [range(a, b + 1) for a, b in zip(boxes.first[row], boxes.last[row], strict=True)]
    encoded = {axis.feature.name: axis for axis in (*space.free, *space.protected)}
    X = []
    for cells in product(*ranges):
        x = np.zeros(space.spec.width)
        x[space.columns] = np.concatenate([axis.low[0] for axis in space.protected])
        for axis, cell in zip(space.axes, cells, strict=True):  # own protected values are among them if links need them
            x[space.spec.columns(axis.feature.name)] = encoded[axis.feature.name].low[cell]
        X.append(x)
    return np.array(X, dtype)


def unequal_people(net: Network, space: Space, boxes: Boxes, row: int) -> np.ndarray:
    """Return which people of a box are treated unequally, by enumeration of all similar people."""
    return find_unequal(net, space.spec, people_of(space, boxes, row, net.dtype)).rows


def random_boxes(space: Space, rng: np.random.Generator, count: int) -> Boxes:
    """Return boxes with random ends."""
    sizes = np.array([axis.cells for axis in space.axes])
    ends = np.sort(rng.integers(0, sizes, (2, count, len(sizes))), axis=0)
    return Boxes(ends[0], ends[1])


def linear(weight, bias, dtype=np.float32) -> Network:
    """Return a network of one affine layer."""
    return Network([Affine(np.array([weight], dtype), np.array([bias], dtype))], [])


def spreads_of(net: Network, space: Space, boxes: Boxes, row: int) -> np.ndarray:
    """Return how far apart the scores of similar people are for everyone in a box, by enumeration."""
    X = people_of(space, boxes, row, net.dtype)
    low, high = np.full((len(X), net.outputs), np.inf), np.full((len(X), net.outputs), -np.inf)
    for rows, points in space.spec.points(X, dtype=net.dtype):
        scores = compute_scores(net, points, space.spec.claim.on)
        np.minimum.at(low, rows, scores)
        np.maximum.at(high, rows, scores)
    return (high - low).max(axis=1)
