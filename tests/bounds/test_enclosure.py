"""Enclosures of activations: exact or 60-digit values lie within, and nothing much is given away."""

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairmend.bounds.enclosure import enclose_image, enclose_value, lower_line, upper_line
from fairmend.network import Activation
from support.exact import CURVED, KINKED, exact_value
from support.strategies import ACTIVATIONS

numbers = st.one_of(
    st.floats(-30, 30), st.floats(-1e-10, 1e-10), st.floats(-1e6, 1e6), st.sampled_from((0.0, 1e300, -1e300, 800.0))
)
slopes = st.one_of(
    st.floats(0, 1), st.floats(0, 1e-6), st.floats(-3, 3), st.sampled_from((0.0, 1.0, 0.25, 1e-300, -1e10, 1e10))
)
activations = st.sampled_from((*CURVED, *KINKED))


def arrays(*values: float) -> list[np.ndarray]:
    return [np.array([v]) for v in values]


def grid(low: float, high: float) -> list[float]:
    """Floats of the interval: its ends, 0, evenly and unevenly spread ones."""
    even = np.linspace(low / 2, high / 2, 21) * 2
    uneven = np.concatenate([np.geomspace(1e-12, 40, 20), -np.geomspace(1e-12, 40, 20), [0.0]])
    return sorted({low, high, *np.clip(even, low, high), *np.clip(uneven, low, high)})


@settings(deadline=None, max_examples=300)
@given(activations, numbers)
@np.errstate(all="ignore")
def test_values_lie_within_their_error(activation, z):
    y, error = enclose_value(activation, *arrays(z))
    with mpmath.workdps(60):
        assert abs(exact_value(activation, mpmath.mpf(z)) - mpmath.mpf(float(y[0]))) <= mpmath.mpf(float(error[0]))


@settings(deadline=None, max_examples=300)
@given(activations, numbers, numbers, slopes)
@example(Activation("tanh"), -1.0, 1.0, 0.42)
@example(Activation("sigmoid"), -40.0, 40.0, 1e-8)
@example(Activation("tanh"), -1e-12, 1e-12, 1.0)
@np.errstate(all="ignore")
def test_lines_of_any_slope_enclose_the_activation(activation, one, other, slope):
    low, high = min(one, other), max(one, other)
    ends = arrays(low, high)
    least, most = enclose_image(activation, *ends)
    below = lower_line(activation, np.array([slope]), *ends, least)
    above = upper_line(activation, np.array([slope]), *ends, most)
    with mpmath.workdps(60):
        lower, upper = ([mpmath.mpf(float(part[0])) for part in line] for line in (below, above))
        gaps = []
        for z in map(mpmath.mpf, grid(low, high)):
            y = exact_value(activation, z)
            assert mpmath.mpf(float(least[0])) <= y <= mpmath.mpf(float(most[0]))
            gaps.append((y - (lower[0] * z + lower[1]), upper[0] * z + upper[1] - y))
            assert gaps[-1][0] >= 0
            assert gaps[-1][1] >= 0
        if activation not in CURVED:  # their extremes are on the grid
            slack = 1e-14 * (1 + abs(slope)) * max(abs(low), abs(high)) + 1e-280
            assert min(gap for gap, _ in gaps) <= slack
            assert min(gap for _, gap in gaps) <= slack


@pytest.mark.parametrize("activation", CURVED, ids=str)
@pytest.mark.parametrize("slope", [-0.3, 0.0, 1e-9, 0.01, 0.1, 0.2, 0.249999, 0.25, 0.6, 0.99, 1.0, 1.5])
@pytest.mark.parametrize(("low", "high"), [(-4, 3), (-30, 30), (0, 2), (-5, 0), (1, 6), (-6, -1), (0.5, 0.5)])
@np.errstate(all="ignore")
def test_curved_lines_touch_the_activation(activation, slope, low, high):
    """The intercept is that of the tangent or chord: against a fine grid, whose gap is of second order."""
    ends = arrays(float(low), float(high))
    z = np.linspace(low, high, 100_001)
    y = np.tanh(z) if activation.name == "tanh" else 1 / (1 + np.exp(-z))
    _, below = lower_line(activation, np.array([slope]), *ends, np.array([-1.0]))
    _, above = upper_line(activation, np.array([slope]), *ends, np.array([1.0]))
    assert below == pytest.approx((y - slope * z).min(), abs=1e-7)
    assert above == pytest.approx((y - slope * z).max(), abs=1e-7)


@pytest.mark.parametrize("activation", CURVED, ids=str)
@pytest.mark.parametrize("wrong_by", [-np.inf, -1.0, -1e-3, 1e-3, 1.0, np.nan])
def test_the_closed_form_of_the_tangent_point_is_not_relied_upon(monkeypatch, activation, wrong_by):
    right = activation.function._where_slope_is
    monkeypatch.setattr(activation.function, "_where_slope_is", lambda slope: right(slope) + wrong_by)
    z = np.linspace(-4, 3, 1001)
    y = np.tanh(z) if activation.name == "tanh" else 1 / (1 + np.exp(-z))
    for slope in (0.01, 0.1, 0.2):
        below = lower_line(activation, np.array([slope]), *arrays(-4.0, 3.0), np.array([-1.0]))
        above = upper_line(activation, np.array([slope]), *arrays(-4.0, 3.0), np.array([1.0]))
        assert (below[0] * z + below[1] < y).all()
        assert (y < above[0] * z + above[1]).all()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@np.errstate(all="ignore")
def test_where_nothing_is_known_the_line_is_flat(activation):
    ends = arrays(-np.inf, np.inf)
    least, most = enclose_image(activation, *ends)
    for slope in (0.0, 1.0, np.nan, np.inf):
        assert lower_line(activation, np.array([slope]), *ends, least) == (0, least)
        assert upper_line(activation, np.array([slope]), *ends, most) == (0, most)
    bounded = activation.name in ("tanh", "sigmoid")
    assert np.isfinite(most).all() == bounded


@np.errstate(all="ignore")
def test_stable_relu_lines_are_exact():
    low, high = np.array([0.0, 0.1, -3.0]), np.array([3.0, 0.7, -0.1])
    slope = np.array([1.0, 1.0, 0.0])
    least, most = enclose_image(Activation("relu"), low, high)
    for line in (lower_line, upper_line):
        chosen, intercept = line(Activation("relu"), slope, low, high, least if line is lower_line else most)
        assert (chosen == slope).all()
        assert (intercept == 0).all()
