"""Neighbourhoods contain exactly the similar people: boxes contain the points, and the points are exact."""

import itertools
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Spec
from fairmend.spec.neighbourhoods import Regions, are_neighbours, describe_count
from support.spec_cases import dropped_spec
from support.strategies_spec import specs_and_inputs, unhurried

AGE = Feature("age", "integer", range=(17, 90), protected=True)
HOURS = Feature("hours", "integer", range=(1, 100), tolerance=1)
RACE = Feature("race", "categorical", categories=("W", "B", "O"), encoding="one-hot", protected=True)
SEX = Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)


def expected_values(feature, x):
    """The values of neighbours of x, one by one, as the definition says."""
    if feature.kind == "categorical":
        own = feature.categories.index(x)
        return set(range(len(feature.categories))) if feature.protected else {own}
    values = range(feature.range[0], feature.range[1] + 1)
    return {v for v in values if feature.protected or abs(v - x) <= feature.tolerance}


def gathered(spec, X, batch=65536):
    rows, points = zip(*spec.points(X, batch=batch, dtype=X.dtype), strict=True)
    return np.concatenate(rows), np.concatenate(points)


def inside(regions, row, point):
    mine = regions.owner == row
    return ((regions.lower[mine] <= point) & (point <= regions.upper[mine])).all(axis=1).any()


@unhurried
@given(case=specs_and_inputs(finite=True))
def test_points_are_exactly_the_neighbours(case):
    spec, X = case
    rows, points = gathered(spec, X)
    values = spec.decode(X)
    for row in range(len(X)):
        expected = set(itertools.product(*(expected_values(f, values[f.name].iloc[row]) for f in spec.features)))
        mine = spec.decode(points[rows == row])
        codes = [
            [f.categories.index(v) for v in mine[f.name]] if f.categories else mine[f.name].tolist()
            for f in spec.features
        ]
        found = list(zip(*codes, strict=True))
        assert len(found) == len(set(found))
        assert set(found) == expected


@unhurried
@given(case=specs_and_inputs(finite=True))
def test_every_point_lies_in_a_piece_of_its_row(case):
    spec, X = case
    assert spec.finite
    regions = spec.regions(X, X.dtype)
    rows, points = gathered(spec, X)
    assert all(inside(regions, row, point) for row, point in zip(rows, points, strict=True))
    assert all((points[rows == row] == X[row]).all(axis=1).any() for row in range(len(X)))


@unhurried
@given(case=specs_and_inputs(finite=True))
def test_pieces_have_one_value_of_a_feature_that_is_split(case):
    spec, X = case
    numbers = [f.name for f in spec.varying if not f.one_hot]
    regions = spec.regions(X, X.dtype, numbers)
    rows, points = gathered(spec, X)
    assert np.array_equal(regions.lower, regions.upper)
    for row in range(len(X)):
        mine = {piece.tobytes() for piece in regions.lower[regions.owner == row]}
        assert mine == {point.tobytes() for point in points[rows == row]}


def test_only_the_features_that_are_named_are_split():
    spec = Spec([AGE, HOURS, SEX])
    regions = spec.regions(np.array([[40, 100, 0, 1], [40, 38, 0, 1]], np.float32), split=("hours",))
    assert regions.owner.tolist() == [0] * 4 + [1] * 6
    assert np.all(regions.lower[:, 0] == 17)
    assert np.all(regions.upper[:, 0] == 90)
    assert np.array_equal(regions.lower[:, 1:], regions.upper[:, 1:])
    assert sorted(regions.lower[:, 1].tolist()) == [37] * 2 + [38] * 2 + [39] * 2 + [99] * 2 + [100] * 2


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 1000))
def test_regions_contain_the_input_and_everyone_similar(case, seed):
    spec, X = case
    regions = spec.regions(X, X.dtype)
    rng = np.random.default_rng(seed)
    for row, x in enumerate(X):
        assert inside(regions, row, x)
        other = x.copy()
        stranger = spec.sample_inputs(1, rng, X.dtype)[0]
        for f in spec.protected:
            other[spec.columns(f.name)] = stranger[spec.columns(f.name)]
        for f in spec.features:
            if f.varies and not f.protected:
                column = spec.columns(f.name).start
                value = f.nearest(x[column]) + f.reach * rng.uniform(-1, 1)
                value = np.clip(np.rint(value) if f.kind == "integer" else value, *f.bounds)
                other[column] = f.scaled(value)
        assert inside(regions, row, other)
    for f in spec.features:
        if not f.varies or f.one_hot:
            where = spec.columns(f.name)
            assert np.array_equal(regions.lower[:, where], regions.upper[:, where])
        if not f.varies:
            assert np.array_equal(regions.lower[:, where], X[regions.owner][:, where])


@unhurried
@given(case=specs_and_inputs(finite=True), batch=st.integers(1, 40))
def test_streaming_keeps_order_sizes_and_batch(case, batch):
    spec, X = case
    chunks = list(spec.points(X, batch=batch, dtype=X.dtype))
    assert all(len(rows) == batch for rows, _ in chunks[:-1])
    assert 1 <= len(chunks[-1][0]) <= batch
    rows, points = gathered(spec, X, batch)
    assert rows.dtype == np.int64
    assert points.dtype == X.dtype
    assert np.all(np.diff(rows) >= 0)
    assert np.array_equal(np.bincount(rows, minlength=len(X)), spec.neighbourhood_sizes(X))
    assert np.array_equal(points, gathered(spec, X)[1])


def test_one_hot_groups_are_points_and_never_a_box():
    spec = Spec([AGE, RACE, SEX])
    x = np.array([[40, 0, 1, 0, 1, 0]], dtype=np.float32)
    regions = spec.regions(x)
    assert not regions.single
    assert len(regions.owner) == 6
    assert np.array_equal(regions.lower[:, 1:], regions.upper[:, 1:])
    assert {tuple(row) for row in regions.lower[:, 1:].tolist()} == {
        (*r, *s) for r in np.eye(3).tolist() for s in np.eye(2).tolist()
    }
    assert np.all(regions.lower[:, 0] == 17)
    assert np.all(regions.upper[:, 0] == 90)
    assert regions.varying.tolist() == [True] + [False] * 5
    lower, upper = regions.hull()
    assert lower.tolist() == [[17, 0, 0, 0, 0, 0]]
    assert upper.tolist() == [[90, 1, 1, 1, 1, 1]]


def test_neighbourhoods_of_a_dropped_category_have_every_category_once():
    spec = dropped_spec()
    X = spec.encode(pd.DataFrame({"race": ["b"], "age": [18]}))
    expected = [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    points = np.concatenate([found for _, found in spec.points(X)])
    np.testing.assert_array_equal(points, expected)
    regions = spec.regions(X)
    np.testing.assert_array_equal(regions.lower, expected)
    np.testing.assert_array_equal(regions.upper, expected)
    assert spec.neighbourhood_sizes(X).tolist() == [3]


def test_tolerances_stop_at_the_range():
    gain = Feature("gain", "continuous", range=(0, 10), tolerance=1.5)
    fine = Feature("fine", "integer", range=(0, 9), tolerance=0.9)
    spec = Spec([AGE, HOURS, gain, fine])
    X = np.array([[40, 1, 0.5, 3], [40, 100, 9, 9], [40, 50, 5, 0]], dtype=np.float32)
    regions = spec.regions(X)
    assert regions.single
    # What was rounded to 9 may be up to 2^-21 less, and what was rounded to 5 up to 2^-22.
    assert regions.lower[:, 1:].tolist() == [[1, 0, 3], [99, 7.5 - 2**-21, 9], [49, 3.5 - 2**-22, 0]]
    assert regions.upper[:, 1:].tolist() == [[2, 2, 3], [100, 10, 9], [51, 6.5 + 2**-21, 0]]
    assert not spec.finite


def test_scaled_tolerances_are_in_the_features_own_units():
    age = Feature("age", "integer", range=(17, 90), scale={"mean": 40, "std": 10}, tolerance=2)
    gain = Feature("gain", "continuous", range=(0, 100), scale={"min": 0, "max": 50}, tolerance=5)
    spec = Spec([age, gain, SEX])
    regions = spec.regions(np.array([[-0.5, 1, 1, 0]]), np.float64)
    np.testing.assert_allclose(regions.lower[0, :2], [-0.7, 0.9])
    np.testing.assert_allclose(regions.upper[0, :2], [-0.3, 1.1])


def test_an_input_scaled_elsewhere_is_among_its_own_points_bit_for_bit():
    scale = {"mean": 38.58, "std": 13.64}
    spec = Spec([Feature("age", "integer", range=(17, 90), scale=scale, protected=True)])
    ages = np.arange(17, 91, dtype=np.float32)[:, None]
    theirs = (ages - np.float32(38.58)) * (np.float32(1) / np.float32(13.64))
    assert not np.array_equal(theirs, spec.encode(spec.decode(theirs)))
    regions = spec.regions(theirs)
    rows, points = gathered(spec, theirs)
    assert np.array_equal(spec.neighbourhood_sizes(theirs), 74 + (theirs != spec.encode(spec.decode(theirs)))[:, 0])
    for row in range(len(theirs)):
        mine = points[rows == row]
        assert np.count_nonzero(mine == theirs[row]) == 1
        assert np.all((regions.lower[row] <= mine) & (mine <= regions.upper[row]))


def test_sizes_whose_sum_would_overflow_are_python_integers():
    wide = [Feature(f"f{i}", "integer", range=(0, 2**31 - 1), protected=True) for i in range(2)]
    spec = Spec(wide)
    X = spec.sample_inputs(4, np.random.default_rng(0), np.float64)
    assert int(np.sum(spec.neighbourhood_sizes(X, np.float64))) == 4 * 2**62


def fifty(number):
    names = tuple(f"c{i}" for i in range(50))
    return Feature(f"job{number}", "categorical", categories=names, encoding="one-hot", protected=True)


def test_more_pieces_than_fit_into_memory_are_refused_before_any_work():
    spec = Spec([fifty(i) for i in range(10)])
    X = spec.sample_inputs(3, np.random.default_rng(0))
    with pytest.raises(FairmendError, match=r"about 10\^17 pieces.*job0, job1, job2, job3, job4, ….*Protect fewer"):
        spec.regions(X)
    spec = Spec([fifty(i) for i in range(3)])
    with pytest.raises(FairmendError, match=r"125,000 pieces.*Give at most 26 inputs at a time, or protect fewer"):
        spec.regions(spec.sample_inputs(30, np.random.default_rng(0)))


def test_neighbourhoods_of_any_number_of_pieces_have_a_hull_a_size_and_a_stream_of_points():
    spec = Spec([AGE, *(fifty(i) for i in range(100))])
    X = spec.sample_inputs(2, np.random.default_rng(0))
    lower, upper = spec.hull(X)
    assert lower[0].tolist() == [17] + [0] * 5000
    assert upper[1].tolist() == [90] + [1] * 5000
    assert spec.neighbourhood_sizes(X).tolist() == [74 * 50**100] * 2
    assert describe_count(int(spec.neighbourhood_sizes(X)[0])) == "about 10^172"
    rows, points = next(spec.points(X, batch=60))
    assert rows.tolist() == [0] * 60
    assert (points[:, 1:].sum(axis=1) == 100).all()


@unhurried
@given(case=specs_and_inputs(finite=True), seed=st.integers(0, 1000))
def test_neighbours_are_recognised_and_others_are_not(case, seed):
    spec, X = case
    placed = [(f, spec.columns(f.name)) for f in spec.features]
    others = spec.sample_inputs(len(X), np.random.default_rng(seed), X.dtype)
    rows, points = gathered(spec, X)
    assert are_neighbours(placed, X[rows], points).all()
    found = are_neighbours(placed, X, others)
    for row in range(len(X)):
        assert found[row] == (points[rows == row] == others[row]).all(axis=1).any()


def test_continuous_neighbourhoods_have_no_list_of_points():
    gain = Feature("gain", "continuous", range=(0, 1), tolerance=0.1)
    spec = Spec([AGE, gain])
    X = np.array([[40, 0.5]])
    for ask in (spec.neighbourhood_sizes, spec.points):
        with pytest.raises(FairmendError, match=r'"gain" is continuous.*Use regions'):
            ask(X)
    assert Spec([AGE, Feature("gain", "continuous", range=(0, 1))]).finite


def test_streaming_checks_at_once_and_needs_a_batch():
    spec = Spec([AGE])
    with pytest.raises(FairmendError, match="batch=0"):
        spec.points([[40]], batch=0)
    with pytest.raises(FairmendError, match=re.escape('feature "age", row 0')):
        spec.points([[400]])


def test_huge_neighbourhoods_are_counted_exactly_and_streamed_in_little_memory():
    many = [Feature(f"f{i}", "integer", range=(0, 999), protected=True) for i in range(9)]
    spec = Spec(many)
    X = spec.sample_inputs(50, np.random.default_rng(0))
    assert spec.neighbourhood_sizes(X).tolist() == [1000**9] * 50
    tracemalloc.start()
    for rows, points in itertools.islice(spec.points(X, batch=1000), 200):
        assert len(rows) == len(points) == 1000
        assert not rows.any()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert points[-1].tolist() == [0, 0, 0, 0, 0, 0, 0, 199, 999]
    assert peak < 2_000_000


@unhurried
@given(case=specs_and_inputs(rows=6), data=st.data())
def test_a_subset_is_the_regions_of_the_chosen_inputs(case, data):
    spec, X = case
    regions = spec.regions(X, X.dtype)
    chosen = data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=8))
    part, fresh = regions.subset(chosen), spec.regions(X[chosen], X.dtype)
    assert part.count == len(chosen)
    for name in ("lower", "upper", "owner"):
        assert np.array_equal(getattr(part, name), getattr(fresh, name))
    assert part.single == fresh.single
    mask = np.arange(len(X)) == chosen[0]
    assert np.array_equal(regions.subset(mask).lower, regions.subset(chosen[:1]).lower)
    lower, upper = regions.hull()
    assert lower.shape == upper.shape == X.shape
    assert np.all((lower <= X) & (upper >= X))


def test_subsets_may_be_empty_but_not_out_of_reach():
    regions = Spec([AGE]).regions([[40], [50]])
    assert repr(regions) == "Regions(2 inputs in 2 pieces, 1 of 1 columns varying)"
    empty = regions.subset([])
    assert (empty.count, len(empty.owner), empty.hull()[0].shape) == (0, 0, (0, 1))
    for wrong in ([2], [-1], [0.5], [[0]], [True]):
        with pytest.raises(FairmendError, match="indices"):
            regions.subset(wrong)


@pytest.mark.parametrize(
    ("lower", "upper", "owner", "count", "message"),
    [
        ([[0.0]], [[1.0, 2.0]], [0], 1, "same shape"),
        ([[0.0]], [[1.0]], [0, 0], 1, "one owner per piece"),
        ([[2.0]], [[1.0]], [0], 1, "lower <= upper"),
        ([[np.nan]], [[1.0]], [0], 1, "lower <= upper"),
        ([[0.0]] * 2, [[1.0]] * 2, [1, 0], 2, "sorted"),
        ([[0.0]] * 2, [[1.0]] * 2, [0, 2], 3, "sorted"),
        ([[0.0]] * 2, [[1.0]] * 2, [-1, 0], 1, "sorted"),
        ([[0.0]], [[1.0]], [0], 2, "sorted"),
    ],
)
def test_regions_that_do_not_fit_together_are_refused(lower, upper, owner, count, message):
    with pytest.raises(FairmendError, match=message):
        Regions(np.array(lower), np.array(upper), np.array(owner), count)
