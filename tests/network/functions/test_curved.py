"""Curvature pieces: their signs are proven in interval arithmetic, and the tangent points need not be exact."""

import flint
import numpy as np
import pytest

from fairmend.network import Activation
from fairmend.network.functions.curved import Curved
from support.functions import CURVED

flint.ctx.prec = 128
SMOOTH = [Activation(name) for name in ("silu", "mish", "gelu", "gelu_tanh")]


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def second_derivative(name: str, z):
    """f'' times something positive, so that it does not vanish far out; z is an interval (flint.arb)."""
    one, two = flint.arb(1), flint.arb(2)
    if name == "silu":  # f'' / sigmoid'
        return 2 - z * (z / 2).tanh()
    if name == "gelu":  # f'' / density
        return 2 - z * z
    if name == "gelu_tanh":  # f'' / sigmoid'(v)
        linear, cubic = 2 * (two / flint.arb.pi()).sqrt(), 2 * (two / flint.arb.pi()).sqrt() * flint.arb("0.044715")
        v, first, second = z * (linear + cubic * z * z), linear + 3 * cubic * z * z, 6 * cubic * z
        return 2 * first + z * second - z * first * first * (v / 2).tanh()
    p = z.exp()  # mish: w = tanh(softplus), w' = (1 - w²) s, f'' = 2 w' + z w'', all over w'
    w = p * (p + 2) / (p * (p + 2) + 2)
    s = p / (one + p)
    return 2 + z * (1 - s - 2 * w * s)


def prove_sign(name: str, low: float, high: float, sign: int, depth: int = 0) -> None:
    middle = (low + high) / 2
    value = second_derivative(name, flint.arb(middle, (high - low) / 2 * 1.0001))
    if (value if sign > 0 else -value) > 0:
        return
    assert depth < 60, f"{name}: no sign between {low} and {high}"
    prove_sign(name, low, middle, sign, depth + 1)
    prove_sign(name, middle, high, sign, depth + 1)


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_the_curvature_has_the_sign_that_is_said(activation):
    """Beyond 40, each sign is that of a polynomial: what else there is has vanished."""
    function = activation.function
    assert isinstance(function, Curved)
    ends = [-40.0, *function.breaks, 40.0]
    for i, sign in enumerate(function.curvature):
        prove_sign(activation.name, ends[i] + (i > 0) * 1e-9, ends[i + 1] - (i < 2) * 1e-9, sign)
    for point in function.breaks:  # within 1e-9 of them it is monotone, and changes its sign where it is said to
        values = [second_derivative(activation.name, flint.arb(point) + side * function.inexact) for side in (-1, 1)]
        assert (values[0] > 0 and values[1] < 0) or (values[0] < 0 and values[1] > 0)


@pytest.mark.parametrize("activation", CURVED, ids=str)
@pytest.mark.parametrize("wrong_by", [-np.inf, -0.3, 1e-3, 2.0, np.nan])
@np.errstate(all="ignore")
def test_the_touching_points_are_not_relied_upon(monkeypatch, activation, wrong_by):
    function = type(activation.function)(*activation.parameters)
    right = function.touching
    monkeypatch.setattr(function, "touching", lambda piece, slope: right(piece, slope) + wrong_by)
    rng = np.random.default_rng(0)
    low = rng.uniform(-5, 3, 60)
    high, slope = low + rng.uniform(0, 6, 60), rng.uniform(-0.2, 1.2, 60)
    z = low + (high - low) * np.linspace(0, 1, 401)[:, None]
    difference = function.value(z)[0] - slope * z
    below, above = function.lowest(slope, low, high), function.highest(slope, low, high)
    assert not (difference < below - 1e-12).any()
    assert not (difference > above + 1e-12).any()


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_the_minimum_is_where_it_is_said(activation):
    where, value = activation.function.minimum
    z = where + np.linspace(-1e-3, 1e-3, 2001)
    assert activation.function.value(z)[0].min() == pytest.approx(value, abs=1e-15)
    slope, error = activation.function.slope_on(1, np.array([where]))
    assert abs(slope) <= error + 1e-15


def test_intervals_of_one_point_and_of_one_step_at_a_break_are_enclosed():
    for activation in CURVED:
        function = activation.function
        for point in function.breaks:
            for low, high in ((point, point), (point, np.nextafter(point, 9)), (np.nextafter(point, -9), point)):
                ends, slope = (np.array([low]), np.array([high])), np.array([0.7])
                value = function.value(ends[0])[0] - slope * ends[0]
                assert function.lowest(slope, *ends) <= value <= function.highest(slope, *ends)
                assert function.highest(slope, *ends) - function.lowest(slope, *ends) < 1e-13
