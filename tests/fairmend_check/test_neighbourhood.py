"""Neighbourhoods: the checker's reading of docs/certificate.md and that of fairmend agree."""

import numpy as np
from hypothesis import given

from fairmend.spec import Feature, Spec
from fairmend_check.coverage import find_uncovered
from fairmend_check.neighbourhood import neighbourhood, points
from fairmend_check.spec import read_spec
from support.strategies_spec import specs_and_inputs, unhurried


@unhurried
@given(specs_and_inputs())
def test_neighbourhoods_are_those_of_the_rest_of_fairmend(drawn):
    """Two readings of docs/certificate.md: regions cover ours, and the points of finite ones are the same."""
    spec, X = drawn
    ours = read_spec(spec.to_dict(), "spec")
    dtype = X.dtype.name
    regions = spec.regions(X, X.dtype)
    for row in range(len(X)):
        around = neighbourhood(ours, X[row].astype(np.float64), dtype)
        mine = regions.owner == row
        lower, upper = regions.lower[mine].astype(np.float64), regions.upper[mine].astype(np.float64)
        assert find_uncovered(around, lower, upper, dtype) is None
        for column in np.flatnonzero((lower < upper).any(axis=0)):
            narrower = upper.copy()
            narrower[:, column] = np.nextafter(narrower[:, column].astype(dtype), X.dtype.type(-np.inf))
            assert find_uncovered(around, lower, narrower, dtype) is not None
        if len(lower) > 1:
            assert find_uncovered(around, lower[1:], upper[1:], dtype) is not None
    if spec.finite and spec.neighbourhood_sizes(X).max() < 500:
        theirs = np.concatenate([batch for rows, batch in spec.points(X[:1], dtype=X.dtype)])
        around = neighbourhood(ours, X[0].astype(np.float64), dtype)
        count = int(np.prod([len(axis.values) for axis in around.axes]))
        found = np.unique(points(around, 0, count), axis=0)
        assert {tuple(p) for p in theirs.astype(np.float64)} <= {tuple(p) for p in found}


def test_an_input_an_ulp_off_is_its_own_neighbour():
    spec = Spec([Feature("age", "integer", range=(0, 9), scale={"mean": 4.3, "std": 2.9}, protected=True)])
    ours = read_spec(spec.to_dict(), "spec")
    top = np.float32((9 - 4.3) / 2.9)
    x = np.array([np.nextafter(top, np.float32(np.inf))], dtype=np.float64)
    around = neighbourhood(ours, x, "float32")
    low = np.array([[(0 - 4.3) / 2.9]]).astype(np.float32).astype(np.float64)
    assert find_uncovered(around, low, np.array([[float(top)]]), "float32") is not None
    assert find_uncovered(around, low, x[None], "float32") is None
