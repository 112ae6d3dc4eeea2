"""Links split a neighbourhood into products; their union is the set that the documentation defines, nothing else."""

import numpy as np
import pytest
from hypothesis import given

from fairmend.auditing.neighbours import stream_random_neighbours
from fairmend.base.errors import FairmendError
from fairmend.prove.engines.branch import Pieces
from fairmend.spec import Feature, Spec
from fairmend.spec.products import MOST_PRODUCTS, ReachableValues, encode_column
from support.examples import examples
from support.link_cases import AGE, SEX, YEARS, family_spec, linked_specs_and_inputs, listed_values, values_of
from support.neighbourhood_cases import Tally, compare_linked_case
from support.spec_cases import refused

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
    assert [end.tolist() for end in gain.ends()] == [[[7.5 - 2**-21]], [[10.0]]]  # for what was rounded to 9
    assert gain.contain(np.array([[7.5]], np.float32)).all()
    assert not gain.contain(np.array([[7.25]], np.float32)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_zeros_are_one_value(dtype):
    plain = Feature("plain", "integer", range=(0, 3), protected=True)
    values = ReachableValues.around(plain, slice(0, 1), np.array([[-0.0], [0.0]], dtype))
    assert not values.apart.any()


few = examples(12)


def streamed(spec, X):
    rows, points = zip(*spec.points(X, batch=7, dtype=X.dtype), strict=True)
    return np.concatenate(rows), np.concatenate(points)


@few
@given(case=linked_specs_and_inputs())
def test_points_pieces_and_counts_are_those_of_the_definition(case):
    spec, X = case
    rows, points = streamed(spec, X)
    pieces = Pieces(spec, X)
    box, in_boxes = pieces.all_points(pieces.roots)
    owner = pieces.owner[pieces.roots.piece[box]]
    for row, own in enumerate(values_of(spec, X)):
        expected = listed_values(spec, own)
        found = values_of(spec, points[rows == row])
        assert len(found) == len(set(found)) == spec.neighbourhood_sizes(X, X.dtype)[row]
        assert set(found) == expected
        assert set(values_of(spec, in_boxes[owner == row])) == expected
        assert own in expected
        assert (points[rows == row] == X[row]).all(axis=1).any()


@few
@given(case=linked_specs_and_inputs())
def test_regions_hulls_and_random_neighbours_agree_with_the_points(case):
    spec, X = case
    rows, points = streamed(spec, X)
    regions, hull = spec.regions(X, X.dtype), spec.hull(X, X.dtype)
    assert np.bincount(regions.owner).max() <= spec.most_pieces
    for row in range(len(X)):
        mine, piece = points[rows == row], regions.owner == row
        inside = (regions.lower[piece][:, None] <= mine) & (mine <= regions.upper[piece][:, None])
        assert inside.all(axis=2).any(axis=0).all()
        # Ends of pieces are values of points, so that no piece reaches beyond the neighbourhood.
        assert spec.are_similar(np.repeat(X[row : row + 1], piece.sum(), axis=0), regions.lower[piece]).all()
        assert spec.are_similar(np.repeat(X[row : row + 1], piece.sum(), axis=0), regions.upper[piece]).all()
        assert np.array_equal(hull[0][row], mine.min(axis=0))
        assert np.array_equal(hull[1][row], mine.max(axis=0))
    drawn_rows, drawn = next(stream_random_neighbours(spec, X, 20, np.random.default_rng(0)))
    assert spec.are_similar(X[drawn_rows], drawn).all()
    everyone = spec.sample_inputs(200, np.random.default_rng(1), X.dtype)
    for row, own in enumerate(values_of(spec, X)):
        expected = [values in listed_values(spec, own) for values in values_of(spec, everyone)]
        assert spec.are_similar(np.repeat(X[row : row + 1], len(everyone), axis=0), everyone).tolist() == expected


def test_people_stay_what_they_are_in_features_that_do_not_change():
    spec = family_spec()
    X = np.array([[0, 1, 0, 0, 1, AGE.scaled(np.array(21.0)), YEARS.scaled(np.array(5.0))]], np.float32)
    found = {(sex, job, age): years for sex, job, age, years in values_of(spec, streamed(spec, X)[1])}
    assert found["Female", "Wife", 21] == 5
    assert found["Male", "Husband", 21] == 5
    assert found["Male", "Husband", 26] == 5
    assert found["Male", "Husband", 20] in (2, 3)


def test_own_bits_are_kept_only_where_no_link_applies():
    spec = family_spec()
    own = np.nextafter(np.float32(YEARS.scaled(np.array(5.0))), np.float32(0))
    X = np.array([[1, 0, 1, 0, 0, AGE.scaled(np.array(25.0)), own]], np.float32)
    _, points = streamed(spec, X)
    years = points[:, -1]
    assert set(years.tolist()) == {float(own), *np.float32(YEARS.scaled(np.array([2.0, 3.0]))).tolist()}
    pieces = Pieces(spec, X)
    _, listed = pieces.all_points(pieces.roots)
    assert {tuple(point) for point in listed.tolist()} == {tuple(point) for point in points.tolist()}
    lower, upper = pieces.ends(pieces.roots)
    regions = spec.regions(X)
    assert np.array_equal(lower, regions.lower)
    assert np.array_equal(upper, regions.upper)


def test_continuous_features_are_boxes_with_both_ends():
    gain = Feature("gain", "continuous", range=(0, 10), protected=True)
    loss = Feature("loss", "continuous", range=(0, 5))
    links = [
        {"when": {"gain": [4, 6]}, "then": {"loss": {"range": [1, 2]}}},
        {"when": {"gain": 8}, "then": {"loss": {"offset": 1}}},
    ]
    spec = Spec([gain, loss], links=links)
    assert not spec.finite
    regions = spec.regions(np.array([[5.0, 4.5], [1.0, 3.0]]), np.float64)
    boxes = [
        {tuple(ends) for ends in np.hstack([regions.lower[mine], regions.upper[mine]]).round(12).tolist()}
        for mine in (regions.owner == 0, regions.owner == 1)
    ]
    unlinked = {(0, 4.5, 4, 4.5), (6, 4.5, 10, 4.5)}
    assert boxes[0] == unlinked | {(4, 1, 6, 2), (5, 4.5, 5, 4.5), (8, 5, 8, 5)}
    assert boxes[1] == {(0, 3, 4, 3), (6, 3, 10, 3), (4, 1, 6, 2), (8, 4, 8, 4)}
    rows, drawn = next(stream_random_neighbours(spec, np.array([[5.0, 4.5]]), 50, np.random.default_rng(0)))
    assert spec.are_similar(np.repeat([[5.0, 4.5]], len(rows), axis=0), drawn).all()
    assert not spec.are_similar(np.array([[5.0, 4.5]]), np.array([[7.0, 1.5]]))[0]
    with pytest.raises(FairmendError, match="continuous"):
        spec.neighbourhood_sizes(np.array([[5.0, 4.5]]), np.float64)


def test_links_that_split_neighbourhoods_too_often_are_refused():
    protected = [Feature(f"f{i}", "integer", range=(0, 40), protected=True) for i in range(5)]
    targets = [Feature(f"t{i}{k}", "integer", range=(0, 9)) for i in range(5) for k in range(4)]
    links = [{"when": {f"f{i}": 2 * k + 1}, "then": {f"t{i}{k}": {"offset": 1}}} for i in range(5) for k in range(4)]
    with refused(f"at most {MOST_PRODUCTS:,}"):
        Spec([*protected, *targets], links=links)
    assert Spec([SEX, YEARS], links=[{"when": {"sex": "Male"}, "then": {"years": {"offset": 1}}}]).most_pieces == 2


def test_the_checker_reads_the_same_neighbourhoods():
    tally = Tally()
    for number in range(15):
        tally.add(compare_linked_case(np.random.default_rng([14, number]), 3))
    assert tally.people > 20
    assert tally.points > 100
