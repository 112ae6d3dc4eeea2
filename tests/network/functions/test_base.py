"""Every elementwise function: what it claims about itself holds for exact values, on any interval."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.network import Activation
from fairmend.network.functions import FUNCTIONS as TABLE
from fairmend.network.functions import Precision
from fairmend.network.functions.base import size_of, unless_overflow
from fairmend_check.kernel.functions import Activation as CheckedActivation
from fairmend_check.kernel.functions import function_of
from fairmend_check.kernel.rounding import Precision as CheckedPrecision
from support.functions import FUNCTIONS, exact_function

SPECIAL = (0.0, -3.0, 3.0, 1.4142135623730951, -2.3993572805154677, -1.2784645427610738, 800.0, -800.0, 1e300, -1e300)
each = pytest.mark.parametrize("activation", FUNCTIONS, ids=str)
numbers = st.one_of(st.floats(-8, 8), st.floats(-1e-9, 1e-9), st.floats(-1e6, 1e6), st.sampled_from(SPECIAL))
slopes = st.one_of(st.floats(-0.5, 1.5), st.floats(-1e-6, 1e-6), st.floats(-30, 30), st.sampled_from((0.0, 1.0, 0.5)))


def grid(activation: Activation, low: float, high: float) -> list[float]:
    """Floats of the interval: its ends, even ones, and those where functions bend or turn."""
    function = activation.function
    bends = (*getattr(function, "breaks", ()), *getattr(function, "knots", ()), 0.0, -0.75, -1.2784645427610738)
    even = np.linspace(low / 2, high / 2, 9) * 2
    return sorted({low, high, *(float(min(max(z, low), high)) for z in (*even, *bends))})


def test_every_function_of_the_table_is_tested():
    assert {activation.name for activation in FUNCTIONS} == set(TABLE)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(FUNCTIONS), numbers, numbers, slopes)
@np.errstate(all="ignore")
def test_values_images_lines_and_slopes_enclose_the_exact_function(activation, one, other, slope):
    function = activation.function
    low, high = min(one, other), max(one, other)
    ends = np.array([low]), np.array([high])
    found = [*function.image(*ends), *function.wide_image(*ends), *function.slope_range(*ends)]
    found += [function.lowest(np.array([slope]), *ends), function.highest(np.array([slope]), *ends)]
    with mpmath.workdps(50):
        least, most, wide_least, wide_most, flat, steep, below, above = (mpmath.mpf(float(part[0])) for part in found)
        assert wide_least <= least <= most <= wide_most
        points = grid(activation, low, high)
        values = [exact_function(activation, z) for z in points]
        for z, y in zip(points, values, strict=True):
            computed, error = (mpmath.mpf(float(part[0])) for part in function.value(np.array([z])))
            assert abs(computed - y) <= error
            assert least <= y <= most
            assert below <= y - mpmath.mpf(slope) * mpmath.mpf(z) <= above
        noise = mpmath.mpf("1e-15")  # of the quotients in 50 digits, at points 1e300 apart
        for i in range(len(points) - 1):
            if points[i + 1] - points[i] < 1e-20:
                continue
            quotient = (values[i + 1] - values[i]) / (mpmath.mpf(points[i + 1]) - mpmath.mpf(points[i]))
            assert flat - noise <= quotient <= steep + noise
            assert abs(quotient) <= function.lipschitz + noise
            assert abs(values[i + 1] - values[i]) <= function.span
            assert values[i + 1] >= values[i] or not activation.increasing


@each
@np.errstate(all="ignore")
def test_nothing_is_given_away(activation):
    """Against a fine grid, whose gap is of second order where the function is smooth, and of first order at kinks."""
    function, rng = activation.function, np.random.default_rng(0)
    low = rng.uniform(-5, 4, (100, 1))
    width = 10.0 ** rng.uniform(-3, 0.9, (100, 1))
    slope = rng.uniform(-0.2, 1.2, (100, 1))
    bends = (*getattr(function, "breaks", ()), *getattr(function, "knots", ()), 0.0)
    z = np.concatenate([low + width * np.linspace(0, 1, 2001), *(np.clip(b, low, low + width) for b in bends)], axis=1)
    y = function.value(z)[0]
    difference = y - slope * z
    slack = 1e-6 * width**2 + 1e-12
    assert (difference.min(axis=1, keepdims=True) - function.lowest(slope, low, low + width) <= slack).all()
    assert (function.highest(slope, low, low + width) - difference.max(axis=1, keepdims=True) <= slack).all()
    least, most = function.image(low, low + width)
    assert (y.min(axis=1, keepdims=True) - least <= slack).all()
    assert (most - y.max(axis=1, keepdims=True) <= slack).all()
    flat, steep = function.slope_range(low, low + width)
    quotients = np.diff(y[:, :2001], axis=1) / np.diff(z[:, :2001], axis=1)
    assert (quotients.min(axis=1, keepdims=True) - flat <= 3 * width / 2000 + 1e-9).all()
    assert (steep - quotients.max(axis=1, keepdims=True) <= 3 * width / 2000 + 1e-9).all() or activation in KINK_AT_END


# Their kink may lie in the last cell of the grid, so that no quotient has the slope beyond it.
KINK_AT_END = tuple(a for a in FUNCTIONS if a.piecewise_linear or a.name in ("elu", "selu", "hardswish"))


@each
@np.errstate(all="ignore")
def test_infinite_ends_give_no_wrong_bound(activation):
    function = activation.function
    for low, high in ((-np.inf, np.inf), (-np.inf, 1.0), (-2.0, np.inf)):
        ends = np.array([low]), np.array([high])
        z = np.linspace(max(low, -60), min(high, 60), 1001)
        y = function.value(z)[0]
        least, most = function.image(*ends)
        assert (least <= y + 1e-9).all()
        assert (y - 1e-9 <= most).all()
        flat, steep = function.slope_range(*ends)
        quotients = np.diff(y) / np.diff(z)
        assert (flat - 1e-9 <= quotients).all()
        assert (quotients <= steep + 1e-9).all()
        for slope in (0.0, 0.3, 1.0, np.nan, np.inf):
            below = function.lowest(np.array([slope]), *ends)
            above = function.highest(np.array([slope]), *ends)
            # Not finite is "no bound", and what is finite is one.
            assert not np.isfinite(below) or (y - slope * z >= below - 1e-9).all()
            assert not np.isfinite(above) or (y - slope * z <= above + 1e-9).all()


@each
@np.errstate(all="ignore")
def test_the_checker_has_no_larger_bound_of_the_error_of_inference(activation):
    """A margin above the writer's bound must be above the checker's; -TINY is a slope of the checker that is not 0."""
    activation = activation.astype(np.float32)
    checked = function_of(CheckedActivation(activation.name, activation.slope, activation.parameters))
    rng = np.random.default_rng(2)
    ends = rng.choice([-1, 1], (2, 5000, 1)) * 10.0 ** rng.uniform(-20, 2, (2, 5000, 1))
    low, high = ends.min(axis=0), ends.max(axis=0)
    for dtype in ("float32", "float64"):
        bound = checked.rounding(low, high, CheckedPrecision.of(dtype))
        assert (bound <= activation.function.rounding(low, high, Precision.of(dtype))).all()
    for mine, theirs in (
        (activation.function.wide_image(low, high), checked.value_range(low, high)),
        (activation.function.slope_range(low, high), checked.slope_range(low, high)),
    ):
        assert (mine[0] <= theirs[0] + 1e-280).all()
        assert (theirs[1] <= mine[1]).all()


@each
def test_the_derivative_is_that_of_finite_differences(activation):
    z = np.array([-6.3, -2.7, -1.1, -0.4, 0.2, 0.9, 1.7, 2.6, 4.2, 7.0])
    y, up, down = (activation.function.value(z + h)[0] for h in (0, 1e-6, -1e-6))
    slope = activation.function.derivative(z, y)
    assert slope == pytest.approx((up - down) / 2e-6, abs=1e-6)


@each
def test_a_smaller_interval_rounds_no_more(activation):
    rng = np.random.default_rng(1)
    outer = np.sort(rng.normal(size=(2, 200)) * 10.0 ** rng.uniform(-40, 3, (2, 200)), axis=0)
    share = np.sort(rng.uniform(size=(2, 200)), axis=0)
    inner = outer[0] + share * (outer[1] - outer[0])
    for dtype in (np.float32, np.float64):
        rounding = [
            activation.function.rounding(low[:, None], high[:, None], Precision.of(dtype))
            for low, high in (outer, inner)
        ]
        assert (rounding[1] <= rounding[0] * (1 + 1e-12)).all()


def test_what_may_overflow_has_no_bound():
    huge = np.array([1e38])
    assert unless_overflow(np.array([1.0]), huge, Precision.of(np.float32)) == np.inf
    assert unless_overflow(np.array([1.0]), huge, Precision.of(np.float64)) == pytest.approx(1)
    assert Activation("hardswish").function.rounding(huge, huge, Precision.of(np.float32)) == np.inf


def test_the_size_of_an_interval_is_that_of_its_larger_end():
    assert size_of(np.array([-3.0, 1.0]), np.array([2.0, 4.0])).tolist() == [3, 4]


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(FUNCTIONS), st.floats(-8, 8), st.floats(-8, 8))
def test_the_image_of_tensors_is_the_image(activation, one, other):
    """It is no wider, as that of two lines would be, and not narrower."""
    function, ends = activation.function, np.sort([[one], [other]], axis=0)
    units = len(activation.parameters) if activation.name == "prelu" else 1
    low, high = (np.tile(end, (1, units)) for end in ends)
    found = function.torch_image(torch.tensor(low), torch.tensor(high))
    for end, expected in zip(found, function.image(low, high), strict=True):
        np.testing.assert_allclose(end.numpy(), expected, rtol=1e-9, atol=1e-9)
