"""The range of the score: exact where it says so, sound where it does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.auditing.neighbours import find_unequal, sample_unequal
from fairmend.evaluate import score_ranges as module
from fairmend.evaluate.score_ranges import compute_score_ranges, order_by_score
from fairmend.network.model import ScoredRows
from support.cli_case import small_people, small_spec
from support.examples import examples
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.report_cases import repair_of
from support.strategies import random_network


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_finite_range_is_that_of_all_points(outputs):
    spec, X = small_spec(), small_spec().encode(small_people(12))
    net = random_network(np.random.default_rng(outputs), spec.width, [8, 6], outputs, "relu")
    found = compute_score_ranges(spec, ScoredRows.of(net, X))
    own = net.predict(X)
    for row in range(len(X)):
        points = np.concatenate([p for _, p in spec.points(X[[row]])])
        values = ScoredRows.of(net, points).probability(np.full(len(points), own[row]))
        assert found.seen_low[row] == pytest.approx(values.min(), abs=1e-5)
        assert found.seen_high[row] == pytest.approx(values.max(), abs=1e-5)
    unequal = find_unequal(net, spec, X).rows
    states = [span.state for span in found.as_list(unequal)]
    assert [state == "two" for state in states] == unequal.tolist()
    assert "open" not in states


@examples(12)
@given(seed=st.integers(0, 10_000), outputs=st.integers(1, 4), activation=st.sampled_from(["relu", "tanh", "sigmoid"]))
def test_bounds_hold_at_every_point_and_one_answer_is_one(seed, outputs, activation):
    rng = np.random.default_rng(seed)
    spec = small_spec(kind="continuous")
    X = spec.encode(small_people(6))
    net = random_network(rng, spec.width, [6, 5], outputs, activation).astype(np.float64)
    X = X.astype(np.float64)
    found = compute_score_ranges(spec, ScoredRows.of(net, X))
    own = net.predict(X)
    regions = spec.regions(X, np.float64)
    unequal = sample_unequal(net, spec, X, 8, seed).rows
    listed = found.as_list(unequal)
    for piece, row in enumerate(regions.owner.tolist()):
        low, high = regions.lower[piece], regions.upper[piece]
        points = low + (high - low) * rng.random((50, spec.width))
        points = np.concatenate([points, [low, high]])
        values = ScoredRows.of(net, points).probability(np.full(len(points), own[row]))
        assert values.min() >= found.low[row] - 1e-9
        assert values.max() <= found.high[row] + 1e-9
        if listed[row].state == "one":
            assert (net.predict(points) == own[row]).all()
    assert (found.low <= found.seen_low).all()
    assert (found.seen_high <= found.high).all()


def test_cutting_boxes_makes_bounds_tighter_and_never_wider(monkeypatch):
    spec = small_spec(kind="continuous")
    X = spec.encode(small_people(10))
    net = random_network(np.random.default_rng(5), spec.width, [8, 6], 1, "relu")
    fine = compute_score_ranges(spec, ScoredRows.of(net, X))
    monkeypatch.setattr(module, "_PIECES", 1)
    coarse = compute_score_ranges(spec, ScoredRows.of(net, X))
    assert (fine.low >= coarse.low).all()
    assert (fine.high <= coarse.high).all()
    assert (fine.high - fine.low).sum() < (coarse.high - coarse.low).sum()


def test_after_a_proof_no_bar_crosses_the_line():
    for age in ({}, {"kind": "continuous"}):
        ranges = repair_of("prof", **age).document.page.ranges
        assert any(span.state == "two" for span in ranges.before)
        assert all(span.state == "one" for span in ranges.after)
        assert all(span.low >= 0.5 or span.high < 0.5 for span in ranges.after)
        assert len(ranges.before) == len(ranges.after) == ranges.total == 30
        own = [span.own for span in ranges.before]
        assert own == sorted(own)


def test_equal_scores_stay_in_their_order():
    net = random_network(np.random.default_rng(0), 5, [3], 1, "relu")
    assert order_by_score(ScoredRows.of(net, np.zeros((2, 5)))).tolist() == [0, 1]


@pytest.mark.parametrize("name", HUGE)
def test_ranges_over_huge_neighbourhoods_have_sound_bounds(name):
    net, X, _ = huge_people(HUGE[name])
    found = compute_score_ranges(HUGE[name], ScoredRows.of(net, X))
    assert not found.exact
    assert (found.low <= found.seen_low).all()
    assert (found.seen_high <= found.high).all()
    assert np.isfinite(found.low).all()


def test_one_prediction_is_on_one_side_of_the_threshold():
    spec = small_spec().at_threshold(0.3)
    X = spec.encode(small_people(40))
    net = random_network(np.random.default_rng(3), spec.width, (8, 6)).at_threshold(0.3)
    found = compute_score_ranges(spec, ScoredRows.of(net, X))
    states = [entry.state for entry in found.as_list(find_unequal(net, spec, X).rows)]
    assert states == ["two" if low < 0.3 <= high else "one" for low, high in zip(found.low, found.high, strict=True)]
    assert set(states) == {"one", "two"}


def test_the_score_is_a_probability_of_the_softmax():
    spec, X = small_spec(), small_spec().encode(small_people(12))
    net = random_network(np.random.default_rng(3), spec.width, [8], 3, "relu")
    shares = np.exp(net.logits(X).astype(np.float64))
    shares /= shares.sum(axis=1, keepdims=True)
    own = net.predict(X)
    assert compute_score_ranges(spec, ScoredRows.of(net, X)).own == pytest.approx(shares[np.arange(len(X)), own])
