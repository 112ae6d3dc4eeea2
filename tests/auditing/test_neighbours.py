"""Enumeration is exact on finite neighbourhoods; random neighbours show only what is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.auditing import neighbours
from fairmend.auditing.neighbours import (
    ExhaustiveScan,
    RandomScan,
    can_enumerate,
    find_unequal,
    sample_unequal,
    stream_random_neighbours,
)
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.spec import Claim, Feature, Spec
from support.link_cases import expected_unequal, family_case
from support.probabilities import pair_probability
from support.strategies import random_network
from support.strategies_spec import specs_and_inputs, unhurried


def joined(spec, X, per_row=8, seed=0):
    parts = stream_random_neighbours(spec, X, per_row, np.random.default_rng(seed))
    return tuple(np.concatenate(side) for side in zip(*parts, strict=True))


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 2**32 - 1), batch=st.sampled_from([1, 200, 65_536]))
def test_each_point_is_a_person_in_the_neighbourhood_of_its_row(case, seed, batch):
    spec, X = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_RANDOM_BATCH", batch)
        rows, points = joined(spec, X, seed=seed)
    assert points.dtype == X.dtype
    assert (np.bincount(rows, minlength=len(X)) >= 8).all()
    assert (np.diff(rows) >= 0).all()
    spec.as_inputs(points, X.dtype)  # refuses what no person can be
    for row, x in enumerate(X):
        regions = spec.regions(x[None], X.dtype)
        mine = points[rows == row][:, None]
        assert ((regions.lower <= mine) & (mine <= regions.upper)).all(axis=2).any(axis=1).all()


def test_corners_are_included_unless_there_are_too_many():
    for count, included in ((6, True), (7, False)):
        spec = Spec([Feature(f"f{i}", "continuous", range=(0.0, 1.0), protected=True) for i in range(count)])
        _, points = joined(spec, np.full((3, count), 0.5, np.float32))
        corners = np.isin(points, (0, 1)).all(axis=1)
        assert len(points) == 3 * (8 + (2**count if included else 0))
        assert len(np.unique(points[corners], axis=0)) == (2**count if included else 0)


def test_the_seed_decides():
    spec = Spec([Feature("age", "continuous", range=(0.0, 1.0), protected=True)])
    X = np.full((3, 1), 0.5, np.float32)
    first, again, other = (joined(spec, X, seed=seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


AGE = Feature("age", "integer", range=(18, 75), protected=True)
GENDER = Feature("gender", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)
INCOME = Feature("income", "continuous", range=(0.0, 1.0))


def linear(*weights, bias):
    return Network([Affine(np.array([weights], np.float32), np.array([bias], np.float32))], [])


def is_neighbour(spec, x, other):
    regions = spec.regions(x[None], x.dtype)
    inside = ((regions.lower <= other) & (other <= regions.upper)).all(axis=1).any()
    spec.as_inputs(other[None], x.dtype)  # refuses what no person can be
    return inside


@unhurried
@given(
    case=specs_and_inputs(finite=True),
    seed=st.integers(0, 2**32 - 1),
    batch=st.sampled_from([1, 7, 65536]),
    outputs=st.integers(1, 3),
)
def test_enumeration_agrees_with_looking_at_each_neighbour_by_itself(case, seed, batch, outputs):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], outputs, dtype=X.dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_BATCH", batch)
        unequal = find_unequal(net, spec, X)
    assert unequal.exact
    for row, x in enumerate(X):
        points = np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)])
        assert unequal.rows[row] == (net.predict(points) != net.predict(x[None])).any()
        if unequal.rows[row]:
            assert net.predict(unequal.other[row][None]) != net.predict(x[None])
            assert is_neighbour(spec, x, unequal.other[row])
        else:
            assert np.isnan(unequal.other[row]).all()
    assert unequal.rate == unequal.rows.mean()


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 2**32 - 1))
def test_what_sampling_finds_is_a_neighbour_with_another_prediction(case, seed):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], dtype=X.dtype)
    unequal = sample_unequal(net, spec, X, per_row=16, seed=seed)
    assert not unequal.exact
    for x, other in zip(X[unequal.rows], unequal.other[unequal.rows], strict=True):
        assert net.predict(other[None]) != net.predict(x[None])
        assert is_neighbour(spec, x, other)


@unhurried
@given(case=specs_and_inputs(finite=True), seed=st.integers(0, 2**32 - 1))
def test_sampling_never_finds_what_enumeration_rules_out(case, seed):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], dtype=X.dtype)
    exact, sampled = find_unequal(net, spec, X), sample_unequal(net, spec, X, seed=seed)
    assert not (sampled.rows & ~exact.rows).any()


@unhurried
@given(case=specs_and_inputs(finite=True), seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 3))
def test_an_exhaustive_scan_agrees_with_enumeration_and_finds_the_largest_gap(case, seed, outputs):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], outputs, dtype=X.dtype)
    scanner, plain = ExhaustiveScan(net, spec), find_unequal(net, spec, X)
    found, worst = scanner.scan(X), scanner.worst(X)
    assert scanner.exact
    for verdicts in (found.unequal, worst.unequal):
        assert np.array_equal(verdicts, plain.rows)
    assert found.gap == pytest.approx(worst.gap, rel=1e-3, abs=1e-4)
    assert (found.gap[~found.unequal] == 0).all()
    assert np.isnan(worst.other[~worst.unequal]).all()
    for row in np.flatnonzero(worst.unequal):
        points = np.concatenate([p for _, p in spec.points(X[row][None], dtype=X.dtype)])
        assert worst.gap[row] == pytest.approx(largest_gap(net, X[row], points), rel=1e-3, abs=1e-4)
        assert largest_gap(net, X[row], worst.other[row][None]) == pytest.approx(worst.gap[row], rel=1e-3, abs=1e-4)


def largest_gap(net, x, points):
    mine = int(net.predict(x[None])[0])
    gaps = np.abs(pair_probability(net, points, mine) - pair_probability(net, x[None], mine))
    return gaps[net.predict(points) != mine].max()


@unhurried
@given(case=specs_and_inputs(), seed=st.integers(0, 2**32 - 1))
def test_a_random_scan_finds_what_the_samples_show(case, seed):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, [4], dtype=X.dtype)
    scanner = RandomScan(net, spec, per_row=16, seed=seed)
    found = scanner.scan(X)
    assert not scanner.exact
    assert found.points >= 17 * len(X)
    rows = found.unequal
    for x, other in zip(X[rows], found.other[rows], strict=True):
        assert net.predict(other[None]) != net.predict(x[None])
        assert is_neighbour(spec, x, other)
    if rows.any():
        worst = scanner.worst(X[rows])
        assert worst.unequal.all() or not spec.finite
        assert (net.predict(worst.other[worst.unequal]) != net.predict(X[rows][worst.unequal])).all()


def test_only_small_finite_neighbourhoods_are_enumerated(monkeypatch):
    assert can_enumerate(Spec([AGE, GENDER, INCOME]))
    assert not can_enumerate(Spec([AGE, Feature("income", "continuous", range=(0.0, 1.0), tolerance=0.1)]))
    monkeypatch.setattr(neighbours, "MOST_POINTS", 2 * 58)
    assert can_enumerate(Spec([AGE, GENDER]))
    monkeypatch.setattr(neighbours, "MOST_POINTS", 2 * 58 - 1)
    assert not can_enumerate(Spec([AGE, GENDER]))


def test_corners_find_what_only_the_end_of_a_range_shows():
    spec = Spec([Feature("age", "continuous", range=(0.0, 1.0), protected=True), INCOME])
    net = linear(1.0, 0.0, bias=-1.0)  # positive at age = 1 exactly
    unequal = sample_unequal(net, spec, np.full((3, 2), 0.5, np.float32), per_row=1)
    assert unequal.rows.all()
    assert (unequal.other[:, 0] == 1).all()


def test_a_one_hot_group_takes_its_points_only():
    net = linear(0.0, 1.0, 1.0, bias=-1.5)  # positive only where both columns of the group are 1
    spec = Spec([AGE, GENDER])
    X = spec.sample_inputs(50, np.random.default_rng(0))
    assert find_unequal(net, spec, X).count == 0
    assert sample_unequal(net, spec, X).count == 0


def test_repr_says_whether_it_is_exact():
    spec = Spec([AGE])
    X = np.array([[20], [70]], np.float32)
    assert (
        repr(find_unequal(linear(1.0, bias=-30.0), spec, X))
        == "UnequalInputs(2 of 2 inputs, 100\N{NO-BREAK SPACE}%, exact)"
    )
    assert "lower bound" in repr(sample_unequal(linear(1.0, bias=-30.0), spec, X))


def test_infinite_neighbourhoods_cannot_be_enumerated():
    spec = Spec([AGE, Feature("income", "continuous", range=(0.0, 1.0), tolerance=0.1)])
    with pytest.raises(FairmendError, match=r"income, which is continuous.*sample_unequal"):
        find_unequal(linear(1.0, 1.0, bias=0.0), spec, np.array([[20, 0.5]], np.float32))


def test_a_network_of_another_width_is_refused():
    with pytest.raises(FairmendError, match="reads 2 columns, but the spec describes 3"):
        find_unequal(linear(1.0, 1.0, bias=0.0), Spec([AGE, GENDER]), np.zeros((1, 3), np.float32))


def test_sampling_needs_points():
    with pytest.raises(FairmendError, match="per_row=0"):
        sample_unequal(linear(1.0, bias=0.0), Spec([AGE]), np.array([[20]], np.float32), per_row=0)


def test_a_census_of_45_000_is_enumerated():
    others = [Feature(f"f{i}", "integer", range=(0, 9)) for i in range(12)]
    spec = Spec([Feature("age", "integer", range=(0, 90), protected=True), *others])
    rng = np.random.default_rng(0)
    X = spec.sample_inputs(45_000, rng)
    net = random_network(rng, 13, [64, 32, 16, 8, 4])
    assert find_unequal(net, spec, X).count > 0


def test_links_are_audited_over_the_neighbourhoods_that_they_define():
    spec, net, X = family_case()
    found, expected = ExhaustiveScan(net, spec).scan(X), expected_unequal(net, spec, X)
    assert np.array_equal(found.unequal, expected)
    assert 0 < expected.sum() < len(X)
    unequal = find_unequal(net, spec, X)
    assert np.array_equal(unequal.rows, expected)
    assert spec.are_similar(X[unequal.rows], unequal.other[unequal.rows]).all()
    assert not (sample_unequal(net, spec, X).rows & ~expected).any()
    assert can_enumerate(spec)


@pytest.mark.parametrize("seed", [0, 12, 27, 29])
def test_a_network_that_ignores_the_protected_features_treats_no_one_unequally_even_at_a_tie(seed):
    """BLAS rounds the same input differently in another batch, and these people's logit is 0 up to its last bits."""
    spec = Spec(
        [
            Feature("sex", "integer", range=(0, 1), protected=True),
            Feature("age", "integer", range=(0, 70), protected=True),
            *(Feature(f"x{i}", "integer", range=(0, 9)) for i in range(6)),
        ]
    )
    rng = np.random.default_rng(seed)
    first, second, last = (rng.normal(size=shape).astype(np.float32) for shape in ((16, 8), (8, 16), (1, 8)))
    first[:, :2] = 0
    hidden = [Affine(w, rng.normal(size=len(w)).astype(np.float32)) for w in (first, second)]
    relu = [Activation("relu")] * 2
    others = spec.sample_inputs(3000, rng)
    score = Network([*hidden, Affine(last, np.float32([0]))], relu).logits(others[:1])
    net = Network([*hidden, Affine(last, -score)], relu)
    X = np.concatenate([np.repeat(others[:1], 500, axis=0), others])
    assert find_unequal(net, spec, X).count == 0
    found = fairmend.audit(net, spec, X)
    assert found.count == 0
    assert not found.disparity.differences.any()
    assert sample_unequal(net, spec, X).count == 0


def test_random_neighbours_leave_nothing_open_of_a_network_that_ignores_what_varies():
    spec = Spec(
        [
            Feature("income", "continuous", range=(0.0, 1.0), protected=True),
            Feature("debt", "continuous", range=(0.0, 1.0)),
        ]
    )
    weight = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    weight[:, 0] = 0
    head = Affine(np.ones((1, 4), np.float32), np.float32([-0.5]))
    net = Network([Affine(weight, np.zeros(4, np.float32)), head], [Activation("relu")])
    found = fairmend.audit(net, spec, spec.sample_inputs(200, np.random.default_rng(1)), method="sample")
    assert (found.count, found.unknown, found.exact) == (0, 0, True)
    assert found.disparity.exact
    assert found.disparity.largest == 0


def test_a_network_that_ignores_what_varies_has_no_score_differences_whatever_the_batches_round(monkeypatch):
    spec = Spec(
        [Feature("group", "integer", range=(0, 6), protected=True), Feature("debt", "continuous", range=(0.0, 1.0))],
        claim=Claim("score", 0.5, "output"),
    )
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(16, 2)).astype(np.float32)
    weight[:, 0] = 0
    head = Affine(rng.normal(size=(1, 16)).astype(np.float32), np.float32([-0.5]))
    net = Network([Affine(weight, np.zeros(16, np.float32)), head], [Activation("relu")])
    X = spec.sample_inputs(200, np.random.default_rng(1))
    single = np.concatenate([net.logits(x[None]) for x in X])
    assert (net.logits(X) != single).any()  # rounding shows in batches of another size
    for batch in (3, 64):
        monkeypatch.setattr(neighbours, "_BATCH", batch)
        found = ExhaustiveScan(net, spec).worst(X)
        assert found.gap.max() == found.spread.difference.max() == 0
    for row in range(len(X)):  # as an audit asks for the worst pair of one person
        assert ExhaustiveScan(net, spec).widest(X[row : row + 1], "output").difference[0] == 0
