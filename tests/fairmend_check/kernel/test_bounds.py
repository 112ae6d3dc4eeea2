"""Bounds of margins against exact rationals: no bound is above the truth."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend_check.kernel import bounds
from fairmend_check.kernel import inference_error as inference
from fairmend_check.kernel.bounds import form_bounds, interval_layers, leads, point_bounds
from fairmend_check.kernel.inference_error import inference_error, output_errors
from fairmend_check.kernel.model import Activation
from support.checker_models import PIECEWISE, exact_outputs, make_model, random_model


def margin_bounds(model, classes, lower, upper, quick=False):
    return form_bounds(model, leads(model, classes), lower, upper, quick=quick)[0].min(axis=1)


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("quick", [False, True])
def test_margins_are_below_the_exact_ones_everywhere(activation, outputs, quick):
    rng = np.random.default_rng(4)
    model = random_model(rng, [3, 6, 5, outputs], activation)
    count = 12
    lower = rng.normal(size=(count, 3))
    upper = lower + rng.choice([0.0, 0.01, 1.0], size=(count, 3))
    for label in range(max(2, outputs)):
        classes = np.full(count, label)
        bounds = margin_bounds(model, classes, lower, upper, quick)
        for box in range(count):
            for _ in range(8):
                share = rng.random(3).round(int(rng.integers(0, 3)))
                x = np.clip(lower[box] + share * (upper[box] - lower[box]), lower[box], upper[box])
                found = exact_outputs(model, x)
                if outputs == 1:
                    margin = found[0] if label == 1 else -found[0]
                else:
                    margin = min(found[label] - found[j] for j in range(outputs) if j != label)
                assert Fraction(bounds[box]) <= margin
        same = margin_bounds(model, classes, lower, lower)  # of a single point little is lost
        for box in range(count):
            found = exact_outputs(model, lower[box])
            if outputs == 1:
                assert abs(Fraction(same[box]) - (found[0] if label == 1 else -found[0])) < 1e-11


def test_margins_of_a_linear_model_are_exact_to_the_last_digits():
    rng = np.random.default_rng(5)
    model = random_model(rng, [4, 5, 3, 1], Activation("identity"))
    lower = rng.normal(size=(20, 4))
    upper = lower + rng.random((20, 4))
    bounds = margin_bounds(model, np.ones(20, dtype=int), lower, upper)
    for box in range(20):
        corners = [np.where([(c >> i) & 1 for i in range(4)], upper[box], lower[box]) for c in range(16)]
        least = min(exact_outputs(model, corner)[0] for corner in corners)
        assert 0 <= least - Fraction(bounds[box]) < 1e-12


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_outputs_at_points_enclose_the_exact_ones(activation, scale, monkeypatch):
    monkeypatch.setattr(bounds, "_POINTS", 6 * 8)  # several parts
    rng = np.random.default_rng(6)
    model = random_model(rng, [3, 6, 5, 2], activation)
    points = scale * rng.normal(size=(30, 3))
    low, high, off = point_bounds(model, points)
    for row, x in enumerate(points):
        for output, exact in enumerate(exact_outputs(model, x)):
            assert Fraction(low[row, output]) <= exact <= Fraction(high[row, output])
    assert (high - low).max() <= 4 * off < 1e-10 * (1 + scale)


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "gelu", "softsign", "silu"])
def test_outputs_at_points_and_intervals_overlap(name):
    rng = np.random.default_rng(7)
    model = random_model(rng, [4, 9, 6, 3], Activation(name))
    points = rng.normal(size=(200, 4))
    low, high, off = point_bounds(model, points)
    least, most = interval_layers(model, points, points)[-1]
    assert (low <= most).all()
    assert (least <= high).all()
    assert (high - low).max() <= 4 * off < 1e-10
    # How far off they are is bounded for many points at once; each by itself agrees.
    alone = [point_bounds(model, point[None]) for point in points[:20]]
    for row, (below, above, _) in enumerate(alone):
        assert (low[row] <= above).all()
        assert (below <= high[row]).all()


@pytest.mark.parametrize("value", [1e308, np.inf, np.nan])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_outputs_at_points_that_overflow_have_no_bounds(name, value):
    layers = [(np.full((2, 2), 10.0), np.zeros(2)), (np.ones((1, 2)), np.zeros(1))]
    model = make_model(layers, [Activation(name)])
    low, high, off = point_bounds(model, np.array([[1.0, 1.0], [value, 1.0]]))
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()
    assert off == np.inf


def test_units_that_are_all_off_leave_a_constant():
    first = (np.ones((4, 3), np.float32), np.full(4, -100, np.float32))
    last = (np.ones((1, 4), np.float32), np.array([0.5], np.float32))
    model = make_model([first, last], [Activation("relu")])
    found = margin_bounds(model, np.array([1]), np.zeros((1, 3)), np.ones((1, 3)))
    assert found == pytest.approx([0.5])
    assert found[0] <= 0.5


def test_quick_bounds_are_as_tight_where_functions_are_straight():
    """Units on one side of a kink keep wide intervals, and lose nothing: their line is exact."""
    rng = np.random.default_rng(8)
    model = random_model(rng, [3, 40, 40, 1], Activation("relu"))
    lower = rng.normal(size=(20, 3))
    boxes = np.ones(20, dtype=int), lower, lower + 0.01
    tight = margin_bounds(model, *boxes)
    assert margin_bounds(model, *boxes, quick=True) == pytest.approx(tight, abs=1e-3 * np.abs(tight).max())
    full, quick = (form_bounds(model, leads(model, boxes[0]), *boxes[1:], quick=each)[1] for each in (False, True))
    assert sum((high - low).sum() for low, high in full) < sum((high - low).sum() for low, high in quick)


@pytest.mark.parametrize("room", [1, 50, 1000])
def test_units_are_bounded_some_at_a_time(room, monkeypatch):
    rng = np.random.default_rng(9)
    model = random_model(rng, [3, 12, 10, 2], Activation("tanh"))
    lower, forms = rng.normal(size=(5, 3)), np.broadcast_to(np.eye(2), (5, 2, 2))
    whole, nodes = form_bounds(model, forms, lower, lower + 0.3)
    errors = output_errors(model, lower, lower + 0.3, nodes, forms, thorough=True)
    monkeypatch.setattr(bounds, "NUMBERS_AT_ONCE", room)
    monkeypatch.setattr(inference, "_ROOM", room)
    assert form_bounds(model, forms, lower, lower + 0.3)[0] == pytest.approx(whole, rel=1e-12)
    assert output_errors(model, lower, lower + 0.3, nodes, forms, thorough=True) == pytest.approx(errors, rel=1e-9)


def test_overflow_gives_no_bound():
    rng = np.random.default_rng(6)
    model = random_model(rng, [3, 6, 5, 1], Activation("relu"), scale=1e150)
    lower, upper = np.full((1, 3), -1e150), np.full((1, 3), 1e150)
    assert margin_bounds(model, np.array([1]), lower, upper)[0] == -np.inf
    with np.errstate(all="ignore"):
        layers = interval_layers(model, lower, upper)
        assert inference_error(model, np.array([1]), lower, upper, layers, np.ones(1), np.zeros(1))[0] == np.inf
        assert not any(np.isnan(end).any() for pair in interval_layers(model, lower, upper) for end in pair)


@pytest.mark.parametrize("bound", [bounds.form_bounds, bounds.input_forms])
def test_memory_does_not_grow_with_the_number_of_layers(bound, monkeypatch):
    """Of many boxes, some are bounded after the others."""
    layer = np.ones((1, 1), np.float32), np.ones(1, np.float32)
    deep = make_model([layer] * 40, [Activation("relu")] * 39)
    rows, whole = [], bounds._bound_nodes

    def some(model, lower, *others, **how):
        rows.append(len(lower))
        return whole(model, lower, *others, **how)

    monkeypatch.setattr(bounds, "_bound_nodes", some)
    monkeypatch.setattr(bounds, "NUMBERS_AT_ONCE", 2000)
    bound(deep, np.ones((300, 1, 1)), np.zeros((300, 1)), np.ones((300, 1)))
    assert rows == [100, 100, 100]


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt", "reciprocal"])
def test_outputs_have_no_bounds_where_a_function_is_not_defined(name):
    model = make_model([(np.ones((1, 1)), np.zeros(1))] * 3, [Activation(name), Activation("sigmoid")])
    lower, upper = np.array([[-1.0], [0.5], [-2.0]]), np.array([[1.0], [1.0], [1.0]])
    with np.errstate(all="ignore"):
        ends = form_bounds(model, np.ones((3, 1, 1)), lower, upper)[0], *interval_layers(model, lower, upper)[-1]
    assert [np.isfinite(each)[:, 0].tolist() for each in ends] == [[False, True, False]] * 3
    outside = 0.0 if name == "reciprocal" else -1e-3
    low, high, _ = point_bounds(model, np.array([[outside], [0.5]]))
    assert np.isfinite(low)[:, 0].tolist() == np.isfinite(high)[:, 0].tolist() == [False, True]
