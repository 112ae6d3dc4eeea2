"""Connected neighbourhoods: against the points that they share, enumerated."""

import numpy as np
import pandas as pd

from fairmend import Feature, Spec
from fairmend.repairing.connected import connected_groups, groups_of_rows


def small_spec(scale=None):
    return Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True),
            Feature("priors", "integer", range=(0, 30), tolerance=1, scale=scale),
            Feature("flag", "integer", range=(0, 1)),
            Feature("score", "continuous", range=(0, 1), tolerance=0.1),
        ]
    )


def rows(spec, *people):
    return spec.encode(pd.DataFrame(people, columns=["sex", "priors", "flag", "score"]))


def test_neighbourhoods_are_connected_along_chains():
    spec = small_spec()
    X = rows(spec, ("f", 2, 0, 0.5), ("m", 6, 0, 0.5), ("m", 4, 0, 0.4), ("m", 4, 1, 0.4), ("f", 9, 0, 0.5))
    groups = connected_groups(spec.regions(X))
    np.testing.assert_array_equal(groups, [0, 0, 0, 1, 2])  # 2 ~ 4 ~ 6 share 3 and 5; another flag, and 9, are apart


def test_a_row_belongs_to_the_group_that_contains_it():
    spec = small_spec()
    regions = spec.regions(rows(spec, ("f", 2, 0, 0.5), ("m", 4, 0, 0.5)))
    X = rows(spec, ("m", 1, 0, 0.45), ("f", 5, 0, 0.6), ("f", 6, 0, 0.5), ("f", 2, 1, 0.5), ("f", 2, 0, 0.75))
    np.testing.assert_array_equal(groups_of_rows(X, regions, connected_groups(regions)), [0, 0, -1, -1, -1])


def test_groups_are_those_of_the_points_that_neighbourhoods_share():
    spec = Spec(
        [
            Feature("group", "integer", range=(0, 2), protected=True),
            Feature("priors", "integer", range=(0, 19), tolerance=1, scale={"mean": 3.3, "std": 2.7}),
            Feature("years", "integer", range=(0, 29), tolerance=2, scale={"mean": 1.1, "std": 0.3}),
        ]
    )
    rng = np.random.default_rng(0)
    X = spec.sample_inputs(25, rng)
    groups = connected_groups(spec.regions(X))
    expected = np.arange(len(X))
    members: dict[bytes, set[int]] = {}
    for numbers, points in spec.points(X):
        for number, point in zip(numbers, points.round(3), strict=True):
            members.setdefault(point.tobytes(), set()).add(int(number))
    for sharing in members.values():
        joined = {expected[number] for number in sharing}
        expected[np.isin(expected, list(joined))] = min(joined)
    np.testing.assert_array_equal(groups[:, None] == groups, expected[:, None] == expected)
    assert 1 < len(set(groups)) < len(X)
