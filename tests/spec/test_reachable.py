"""The values in reach of an input: e(v) for every value, and the input's own bits beside them."""

import numpy as np
import pytest

from fairmend.spec import Feature
from fairmend.spec.reachable import ReachableValues, encode_column

YEAR = Feature("year", "integer", range=(2000, 2003), scale={"mean": 1e6, "std": 0.1}, protected=True)
NEAR = Feature("near", "integer", range=(0, 99), scale={"mean": 1e6, "std": 0.1}, tolerance=1.9)
RACE = Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", dropped="b", protected=True)
GAIN = Feature("gain", "continuous", range=(0, 10), tolerance=1.5)


def around(feature, *column):
    X = np.array(column, np.float32).reshape(-1, feature.width)
    return ReachableValues.around(feature, slice(0, feature.width), X)


def listed(values, row):
    numbers = np.arange(values.counts[row])
    return values.encoded(np.full(len(numbers), row), numbers)


def encoding(feature, value):
    return encode_column(feature, np.array([float(value)]), np.float32)[0]


def beside(feature, value):
    return np.nextafter(encoding(feature, value), np.float32(0))


def test_own_bits_are_a_further_value_only_where_no_value_has_them():
    values = around(YEAR, encoding(YEAR, 2001), beside(YEAR, 2001))
    assert values.apart.tolist() == [False, True]
    assert values.counts.tolist() == [4, 5]
    encoded = [encoding(YEAR, year) for year in range(2000, 2004)]
    assert listed(values, 0)[:, 0].tolist() == encoded
    assert listed(values, 1)[:, 0].tolist() == [*encoded, beside(YEAR, 2001)]


def test_a_tolerance_counts_from_the_own_value_and_holds_both_encodings_of_it():
    values = around(NEAR, beside(NEAR, 0), encoding(NEAR, 50))
    assert values.own.tolist() == [0, 50]
    assert values.counts.tolist() == [3, 3]
    assert {*listed(values, 0)[:, 0].tolist()} == {encoding(NEAR, 0), encoding(NEAR, 1), beside(NEAR, 0)}


def test_values_that_round_to_one_number_do_not_make_own_bits_a_further_one():
    far = Feature("far", "integer", range=(0, 20), scale={"mean": 1e9, "std": 1.0}, protected=True)
    assert encoding(far, 3) == encoding(far, 4)
    values = around(far, *(encoding(far, v) for v in range(21)))
    assert not values.apart.any()
    assert values.counts.tolist() == [21] * 21


def test_huge_ranges_are_searched_and_never_listed():
    wide = Feature("wide", "integer", range=(-(2**53), 2**53), protected=True)
    X = np.array([[0.0], [-(2.0**53)], [2.0**53]])
    values = ReachableValues.around(wide, slice(0, 1), X)
    assert not values.apart.any()
    assert values.counts.tolist() == [2**54 + 1] * 3
    assert values.contain(np.array([[12345.0], [-0.0], [2.0**53]])).tolist() == [True] * 3
    assert not values.contain(np.array([[0.5], [1.25], [2.0**53 * 2]])).any()


def test_ends_snap_and_contain_agree_with_the_list():
    values = around(YEAR, beside(YEAR, 2000))
    lower, upper = values.ends()
    points = listed(values, 0)
    assert lower[0, 0] == points.min()
    assert upper[0, 0] == points.max()
    assert all(values.contain(point[None])[0] for point in points)
    assert not values.contain(points[:1] + 1)[0] or points[0] + 1 in points
    assert values.snap(np.zeros(1, np.int64), points[2])[0] == points[2, 0]


def test_one_hot_values_are_the_categories_and_continuous_ones_an_interval():
    values = around(RACE, 0, 1)
    assert listed(values, 0).tolist() == [[1, 0], [0, 0], [0, 1]]
    assert values.own.tolist() == [2]
    gain = around(GAIN, 9.0)
    assert [end.tolist() for end in gain.ends()] == [[[7.5]], [[10.0]]]
    assert gain.contain(np.array([[7.5]], np.float32)).all()
    assert not gain.contain(np.array([[7.25]], np.float32)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_zeros_are_one_value(dtype):
    plain = Feature("plain", "integer", range=(0, 3), protected=True)
    values = ReachableValues.around(plain, slice(0, 1), np.array([[-0.0], [0.0]], dtype))
    assert not values.apart.any()
