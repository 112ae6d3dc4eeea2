"""People on whom a model is run belong to the spec, or to the neighbourhoods of a certificate."""

import numpy as np
import pytest

from fairmend_check.kernel.neighbourhood import neighbourhood
from fairmend_check.kernel.spec import read_spec
from fairmend_check.run.compare import MAX_INPUTS, ListedPeople, neighbours, people_of_spec
from support.checker_cases import SPECS


def spec_of(name):
    return read_spec(SPECS[name].to_dict(), "spec")


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", SPECS)
def test_people_are_those_of_the_spec(name):
    rows = people_of_spec(spec_of(name), "float32", 200, rng())
    SPECS[name].as_inputs(rows.astype(np.float32))  # raises an error for what is no person
    assert (rows.astype(np.float32) == rows).all()
    assert len(np.unique(rows, axis=0)) > 20


def test_corners_are_at_the_ends_of_every_range():
    spec = SPECS["tolerance"]
    rows = spec.decode(people_of_spec(spec_of("tolerance"), "float32", 200, rng()).astype(np.float32))
    assert rows["income"][:100].round(4).isin([0, 100]).all()
    assert rows["income"][100:].nunique() > 90


@pytest.mark.parametrize("name", SPECS)
def test_neighbours_are_similar(name):
    spec = SPECS[name]
    x = spec.sample_inputs(1, rng())
    found = neighbours(neighbourhood(spec_of(name), x[0].astype(np.float64), "float32"), 50, rng())
    assert spec.are_similar(np.repeat(x, 50, axis=0), found.astype(np.float32)).all()
    assert len(np.unique(found, axis=0)) > 1


def test_all_members_of_small_finite_neighbourhoods_are_run():
    spec = SPECS["ordinal"]
    X = spec.sample_inputs(3, rng()).astype(np.float64)
    listed = ListedPeople(spec_of("ordinal"), "float32", rng())
    listed.add(X)
    rows = listed.and_others(0)
    wanted = np.concatenate([each[-1] for each in spec.points(X.astype(np.float32))])
    assert {tuple(row) for row in wanted.reshape(-1, spec.width).astype(float)} <= {tuple(row) for row in rows}


def test_of_many_inputs_some_are_kept_and_each_with_the_same_chance():
    spec = spec_of("tolerance")
    X = np.tile(SPECS["tolerance"].sample_inputs(1, rng()).astype(np.float64), (1000, 1))
    listed = ListedPeople(spec, "float32", rng())
    for start in range(0, 1000, 100):
        listed.add(X[start : start + 100])
    assert len(listed.and_others(0)) == 3 * MAX_INPUTS
    by_points = ListedPeople(spec_of("ordinal"), "float32", rng())
    X = SPECS["ordinal"].sample_inputs(300, rng()).astype(np.float64)
    by_points.add(X)
    assert len(by_points.and_others(0)) == 3 * MAX_INPUTS  # too many for all of their neighbours
