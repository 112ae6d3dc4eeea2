"""Step 2 for scores finds the smallest change there is, and keeps the claim wherever it stops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairmend import FairmendError
from fairmend.milp import LinearProgram, Status
from fairmend.milp.highs import LpSolution
from fairmend.network import predicted_classes
from fairmend.repairing.head.problem import KeptRows, pairs_of_outputs
from fairmend.repairing.head.scores import (
    allowed_share,
    keep_rates,
    probability_spread,
    repair_scores,
    sufficient_width,
    tangents,
    widths,
)
from support.examples import examples
from support.repair_cases import KINDS, extreme_points, random_features


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("delta", [1e-4, 0.02, 0.05, 0.5, 0.95])
def test_a_range_within_a_tangent_keeps_the_claim_wherever_it_is(delta):
    centres = np.linspace(-40, 40, 41)
    each = np.full(len(centres), delta)
    bands = tangents(each, centres[:, None])
    for centre in np.linspace(-15, 15, 61):
        # The widest range around a centre: (1 - s)(c + h) - (1 + s)(c - h) = 2 h - 2 s c = level.
        half = np.maximum(0, bands.level[:, 0] / 2 + bands.slope[:, 0] * centre)
        assert (sigmoid(centre + half) - sigmoid(centre - half))[half > 0].max(initial=0) <= delta + 1e-9
    assert (np.abs(bands.slope) < 1).all()


@pytest.mark.parametrize("delta", [0.02, 0.05, 0.5])
def test_a_tangent_is_tight_at_its_own_centre(delta):
    centres = np.linspace(-4, 4, 17)
    bands = tangents(np.full(17, delta), centres[:, None])
    half = bands.level[:, 0] / 2 + bands.slope[:, 0] * centres
    np.testing.assert_allclose(sigmoid(centres + half) - sigmoid(centres - half), delta, rtol=1e-9)


def test_the_width_that_suffices_anywhere_is_the_tangent_in_the_middle():
    delta = np.array([0.01, 0.05, 0.3])
    bands = tangents(delta, np.zeros((3, 1)))
    np.testing.assert_allclose(bands.level[:, 0], sufficient_width(delta), rtol=1e-12)
    np.testing.assert_allclose(sufficient_width(delta), 2 * np.log((1 + delta) / (1 - delta)), rtol=1e-12)
    assert not bands.slope.any()


def test_the_excess_is_what_a_range_is_too_wide_by():
    bands = widths(np.array([0.5, 1.0]), 2)
    low, high = np.zeros((2, 2)), np.array([[0.75, 0.25], [1.0, 1.5]])
    np.testing.assert_array_equal(bands.excess(low, high), [[0.25, -0.25], [0.0, 0.5]])


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
def test_each_class_keeps_its_share_of_the_predictions(outputs):
    rng = np.random.default_rng(outputs)
    before = rng.normal(size=(400, outputs)) + rng.normal(size=outputs)
    after = 0.05 * before + rng.normal(size=outputs)
    shifted = after + keep_rates(before, after)
    old, new = (predicted_classes(each if outputs > 1 else each[:, 0]) for each in (before, shifted))
    shares = np.bincount(old, minlength=outputs), np.bincount(new, minlength=outputs)
    assert np.abs(np.subtract(*shares)).max() <= (0 if outputs <= 2 else 12)


def test_outputs_that_did_not_change_move_nothing():
    before = np.array([[1.0], [2.0], [-1.0]])
    assert not keep_rates(before, before).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_class_that_all_rows_had_stays_the_only_one(sign):
    before = sign * np.array([[1.0], [2.0], [3.0]])
    for after in (-before, before * 0, before - 2 * sign):
        assert ((after + keep_rates(before, after) >= 0) == (before >= 0)).all()


def test_a_shift_ends_where_a_region_would_leave_the_claim():
    low, high = np.array([[3.0]]), np.array([[9.0]])  # narrow in probability only while it is far from 0
    delta = probability_spread(low, high, 1) * 1.5
    assert allowed_share(low, high, np.array([5.0]), delta, 1) == 1
    share = allowed_share(low, high, np.array([-5.0]), delta, 1)
    assert 0 < share < 0.2
    assert probability_spread(low - 5 * share, high - 5 * share, 1) <= delta
    assert allowed_share(low, high, np.array([-5.0]), probability_spread(low, high, 1), 1) == 0


def case(seed, kind, outputs=1, count=8, dimension=3, **shape):
    rng = np.random.default_rng(seed)
    features = random_features(rng, kind, count, dimension, **shape)
    return rng.normal(size=(outputs, dimension)), rng.normal(size=outputs), features


def smallest_change(weight, bias, features, delta, kept=None):
    """The optimum for one output, by SciPy, with a row for every pair of extreme points of every region."""
    dimension = weight.shape[1]
    rows, limits = [], []
    for region in range(features.count):
        points = extreme_points(features, region)
        apart = (points[:, None] - points[None]).reshape(-1, dimension)
        rows.append(np.hstack([apart, np.zeros((len(apart), 1))]))
        limits.append(np.broadcast_to(delta, features.count)[region] - apart @ weight[0])
    rows, limits = np.concatenate(rows), np.concatenate(limits)
    measured = np.eye(dimension + 1) if kept is None else np.column_stack([kept.features, np.ones(len(kept.features))])
    cost = np.ones(dimension + 1) if kept is None else kept.weight[:, 0]
    count = len(measured)
    matrix = np.vstack(
        [
            np.hstack([rows, np.zeros((len(rows), count))]),
            np.hstack([measured, -np.eye(count)]),
            np.hstack([-measured, -np.eye(count)]),
        ]
    )
    found = linprog(
        np.append(np.zeros(dimension + 1), cost),
        matrix,
        np.append(limits, np.zeros(2 * count)),
        bounds=[(None, None)] * (dimension + 1) + [(0, None)] * count,
    )
    assert found.success
    return found.fun


def spreads(weight, bias, features, on):
    """The largest difference of scores in each region, at the points of which it is the hull."""
    widest = []
    for region in range(features.count):
        scores = extreme_points(features, region) @ weight.T + bias
        if on == "probability" and len(bias) == 1:
            scores = 1 / (1 + np.exp(-scores))
        elif on == "probability":
            scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        widest.append(np.ptp(scores, axis=0).max())
    return np.array(widest)


@examples(12)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.floats(0.05, 1.0), st.integers(1, 2))
def test_the_change_of_raw_outputs_is_the_smallest_there_is(seed, kind, delta, pieces):
    weight, bias, features = case(seed, kind, pieces=pieces)
    found = repair_scores(weight, bias, features, delta=delta, on="logit")
    assert found.objective == pytest.approx(smallest_change(weight, bias, features, delta), abs=1e-6)
    assert found.gap == 0
    assert found.classes is None
    assert spreads(weight + found.weight, bias + found.bias, features, "logit").max() <= delta + 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [1e-4, 1e5])
def test_outputs_in_any_unit_have_the_same_optimum(kind, unit):
    weight, bias, features = case(1, kind)
    delta = np.linspace(0.2, 0.5, features.count)
    found = repair_scores(weight * unit, bias * unit, features, delta=delta * unit, on="output")
    assert found.objective / unit == pytest.approx(smallest_change(weight, bias, features, delta), rel=1e-5)


def test_each_output_is_a_problem_of_its_own():
    weight, bias, features = case(2, "linear", outputs=3)
    found = repair_scores(weight, bias, features, delta=0.3, on="output")
    alone = [smallest_change(weight[k : k + 1], bias[k : k + 1], features, 0.3) for k in range(3)]
    assert found.objective == pytest.approx(sum(alone), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_at_given_rows_change_as_little_as_they_can(kind):
    weight, bias, features = case(3, kind)
    rng = np.random.default_rng(4)
    kept = KeptRows(rng.normal(size=(20, 3)), rng.uniform(0.1, 1, size=(20, 1)))
    found = repair_scores(weight, bias, features, delta=0.3, on="output", kept=kept)
    cost = np.abs(kept.features @ found.weight.T + found.bias)[:, 0] @ kept.weight[:, 0]
    assert cost == pytest.approx(smallest_change(weight, bias, features, 0.3, kept), abs=1e-4)


def test_a_head_that_keeps_the_claim_stays_as_it_is():
    for on, outputs in (("output", 1), ("probability", 1), ("probability", 3)):
        weight, bias, features = case(5, "box", outputs)
        found = repair_scores(weight * 1e-3, bias, features, delta=0.5, on=on)
        assert found.objective == found.gap == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("decisions", [False, True])
def test_probabilities_stay_within_delta(kind, outputs, decisions):
    for seed in range(2):
        weight, bias, features = case(seed, kind, outputs, spread=3.0)
        rng = np.random.default_rng(seed)
        kept = KeptRows(rng.normal(size=(30, 3)), np.ones((30, outputs)), offset=0.0) if decisions else None
        found = repair_scores(weight, bias, features, delta=0.1, on="probability", kept=kept)
        assert spreads(weight + found.weight, bias + found.bias, features, "probability").max() <= 0.1 + 1e-6


def test_probabilities_cost_no_more_than_the_width_that_suffices_anywhere():
    gains = []
    for seed in range(4):
        weight, bias, features = case(seed, "linear", spread=3.0, width=0.15)
        found = repair_scores(weight, bias, features, delta=0.1, on="probability")
        anywhere = smallest_change(weight, bias, features, 4 * math.atanh(0.1))
        assert found.objective <= anywhere + 1e-6
        gains.append(anywhere - found.objective)
    assert max(gains) > 0.1


@pytest.mark.parametrize("offset", [0.0, -0.847])
def test_predictions_at_the_rows_to_keep_survive_where_a_claim_shrinks_all_scores(offset):
    rng = np.random.default_rng(6)
    features = random_features(rng, "box", 10, 2, width=2.0)
    weight, bias = np.array([[3.0, 1.0]]), np.array([-5.0])
    rows = rng.normal(size=(200, 2)) + np.array([1.2, 1.0])
    before = rows @ weight[0] + bias >= offset
    assert 0.2 < before.mean() < 0.8
    for on in ("logit", "probability"):
        found = repair_scores(
            weight, bias, features, delta=0.05, on=on, kept=KeptRows(rows, np.full((200, 1), 1 / 200), offset)
        )
        after = rows @ (weight + found.weight)[0] + bias + found.bias >= offset
        assert (before == after).mean() > 0.8
        assert np.abs(weight + found.weight).max() < 0.3


def test_no_parameter_changes_by_more_than_the_limit():
    weight, bias, features = case(7, "box")
    free = repair_scores(weight, bias, features, delta=0.3, on="output")
    limit = np.abs(free.weight).max() * 0.95
    found = repair_scores(weight, bias, features, delta=0.3, on="output", delta_limit=limit)
    assert max(np.abs(found.weight).max(), np.abs(found.bias).max()) <= limit + 1e-9
    assert found.objective >= free.objective - 1e-9
    for on in ("output", "probability"):
        with pytest.raises(FairmendError, match="delta_limit"):
            repair_scores(weight, bias, features, delta=1e-3, on=on, delta_limit=1e-3)


@pytest.mark.parametrize("on", ["output", "probability"])
def test_the_best_change_so_far_keeps_the_claim_wherever_the_solver_stops(on, monkeypatch):
    weight, bias, features = case(8, "linear", count=60, varying=5, width=1.0)
    true = repair_scores(weight, bias, features, delta=0.2, on=on)
    solve = LinearProgram.solve
    for stop in range(min(true.solves, 3)):
        calls = iter(range(10**6))

        def stubbed(self, time_limit=math.inf, calls=calls, stop=stop):
            return solve(self, time_limit) if next(calls) < stop else LpSolution(Status.LIMIT, math.inf, None)

        monkeypatch.setattr(LinearProgram, "solve", stubbed)
        found = repair_scores(weight, bias, features, delta=0.2, on=on)
        monkeypatch.setattr(LinearProgram, "solve", solve)
        assert spreads(weight + found.weight, bias + found.bias, features, on).max() <= 0.2 + 1e-6
        assert found.objective >= true.objective - 1e-6 or on == "probability"
        assert 0 <= found.gap <= 1


def test_a_gap_may_be_left():
    weight, bias, features = case(9, "linear", count=60, varying=5, width=1.0)
    true = repair_scores(weight, bias, features, delta=0.2, on="output")
    found = repair_scores(weight, bias, features, delta=0.2, on="output", gap=0.5)
    assert found.gap <= 0.5
    assert true.objective - 1e-6 <= found.objective <= 2 * true.objective
    assert found.solves <= true.solves


def test_ranges_of_differences_bound_the_probabilities():
    weight, bias, features = case(10, "points", outputs=4, count=5)
    pairs = pairs_of_outputs(4)
    low, high = np.empty((2, 5, len(pairs)))
    for region in range(5):
        apart = (extreme_points(features, region) @ weight.T + bias) @ pairs.T
        low[region], high[region] = apart.min(axis=0), apart.max(axis=0)
    assert (probability_spread(low, high, 4) >= spreads(weight, bias, features, "probability") - 1e-12).all()


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_head_without_a_bias_keeps_the_claim_with_its_weights_alone(on, outputs):
    weight, bias, features = case(7, "box", outputs, spread=3.0)
    rng = np.random.default_rng(8)
    for shift in (np.zeros(3), np.array([0.5, -1.0, 0.25])):
        for kept in (None, KeptRows(rng.normal(size=(30, 3)), np.ones((30, outputs)), offset=0.0)):
            found = repair_scores(weight, bias, features, delta=0.1, on=on, kept=kept, bias_shift=shift)
            assert spreads(weight + found.weight, bias + found.bias, features, on).max() <= 0.1 + 1e-6
            np.testing.assert_allclose(found.bias, found.weight @ shift, atol=1e-8)
