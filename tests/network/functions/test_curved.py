"""Curvature pieces: their signs are proven in interval arithmetic."""

import flint
import numpy as np
import pytest

from fairmend.network import Activation
from fairmend.network.functions.curved import Curved

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
        values = [second_derivative(activation.name, flint.arb(point) + side * 1e-12) for side in (-1, 1)]
        assert (values[0] > 0 and values[1] < 0) or (values[0] < 0 and values[1] > 0)


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_the_minimum_is_where_it_is_said(activation):
    where, value = activation.function.minimum
    z = where + np.linspace(-1e-3, 1e-3, 2001)
    assert activation.function.value(z).min() == pytest.approx(value, abs=1e-15)
    assert abs(activation.function.slope_on(1, np.array([where]))) < 1e-14
