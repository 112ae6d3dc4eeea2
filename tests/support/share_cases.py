"""People, boxes and models for the checker's shares."""

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from fairmend.spec import Feature, Link, Spec
from fairmend_check.kernel.spec import Spec as CheckedSpec
from fairmend_check.kernel.spec import read_spec
from fairmend_check.shares.people import People
from fairmend_check.shares.prove import LINEAR, Leaves

CONTINUOUS = Spec(
    [
        Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True),
        Feature(name="income", kind="continuous", range=(0, 100), scale={"mean": 50.3, "std": 25.7}, tolerance=2.5),
        Feature(name="wealth", kind="continuous", range=(-1, 1.5)),
        Feature(name="age", kind="continuous", range=(18, 60), protected=True, scale={"min": 18, "max": 60}),
        Feature(name="race", kind="categorical", categories=("a", "b", "c"), encoding="one-hot", dropped="b"),
    ]
)


def checked_spec(spec: Spec) -> CheckedSpec:
    """Return a spec as the checker has it."""
    return read_spec(spec.with_about(None).to_dict(), "spec")


def people_of_spec(spec: Spec, parts: list[int] | None = None, dtype: str = "float32", cells: int = 2**16) -> People:
    """Return all people of a spec, with one piece for each protected feature unless ``parts`` says otherwise.

    A continuous feature has so many ``cells``, which a certificate chooses.
    """
    protected = sum(feature.protected for feature in spec.features)
    return People.of(checked_spec(spec), dtype, cells, parts or [1] * protected)


def random_leaves(people: People, rng: np.random.Generator, splits: int) -> Leaves:
    """Return the leaves of a random tree."""
    boxes = [(np.zeros(len(people.axes), np.int64), np.array([axis.cells - 1 for axis in people.axes]))]
    for _ in range(splits):
        k = int(rng.integers(len(boxes)))
        first, last = boxes[k]
        wide = np.flatnonzero(last > first)
        if len(wide):
            axis = rng.choice(wide)
            below, above = last.copy(), first.copy()
            below[axis] = rng.integers(first[axis], last[axis])
            above[axis] = below[axis] + 1
            boxes[k] = first, below
            boxes.append((above, last))
    firsts, lasts = (np.stack(ends) for ends in zip(*boxes, strict=True))
    return Leaves(firsts, lasts, np.full(len(firsts), LINEAR))


def part_of(leaves: Leaves, row: int) -> Leaves:
    """Return one leaf."""
    return Leaves(leaves.first[[row]], leaves.last[[row]], leaves.proof[[row]])


def many_linked(features: int = 5, categories: int = 10) -> Spec:
    """Return a spec with a link to so many features, each of which it can give any of its categories."""
    names = tuple(f"c{number}" for number in range(categories))
    jobs = [Feature(f"job{k}", "categorical", categories=names) for k in range(features)]
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    return Spec([sex, *jobs], links=(Link(when={"sex": "f"}, then={job.name: {"c0": list(names)} for job in jobs}),))


def few_at_once(*parts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Do as `itertools.product` does, but fail if there are many combinations."""
    assert math.prod(map(len, parts)) <= 2**10
    return product(*parts)
