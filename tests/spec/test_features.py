"""What a feature is: its columns, its values, and how far neighbours may differ in it."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.spec_cases import AGE, DROPPED_RACE, GAIN, HOURS, RACE, SEX
from support.strategies_spec import specs_and_inputs, unhurried


def test_the_repr_shows_what_is_not_a_default():
    assert repr(HOURS) == "Feature(name='hours', kind='integer', range=(1, 100), tolerance=1.0)"


def test_a_dropped_category_has_no_column():
    assert (AGE.width, RACE.width, DROPPED_RACE.width, SEX.width) == (1, 3, 2, 1)
    np.testing.assert_array_equal(RACE.corners, np.eye(3))
    np.testing.assert_array_equal(DROPPED_RACE.corners, [[1, 0], [0, 0], [0, 1]])
    assert DROPPED_RACE.category_of(DROPPED_RACE.corners).tolist() == [0, 1, 2]


def test_the_extent_is_a_range_or_a_number_of_categories():
    assert (AGE.extent, GAIN.extent, RACE.extent) == ("17 to 90", "0 to 0.1", "(3 categories)")
    assert (AGE.bounds, RACE.bounds) == ((17, 90), (0, 2))


def test_neighbours_differ_within_the_reach():
    assert (AGE.reach, HOURS.reach, GAIN.reach) == (math.inf, 1, 0)
    assert [f.varies for f in (AGE, HOURS, GAIN, RACE, SEX)] == [True, True, False, True, False]
    part = replace(HOURS, tolerance=0.5)
    assert part.reach == 0
    assert not part.varies


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 2**16))
def test_scaling_is_monotone_and_can_be_undone(case, seed):
    spec, _ = case
    rng = np.random.default_rng(seed)
    for feature in spec.features:
        if feature.one_hot:
            continue
        values = np.sort(rng.uniform(*feature.bounds, 20))
        x = feature.scaled(values)
        assert np.all(np.diff(x) >= 0)
        assert np.all(np.abs(feature.unscaled(x.astype(np.float32)) - values) <= feature.slack(values))
