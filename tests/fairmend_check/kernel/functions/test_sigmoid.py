"""Tanh and sigmoid against a hundred digits: no line is on the wrong side."""

import flint
import numpy as np
import pytest

from fairmend_check.kernel.functions import Activation, function_of


def curve(activation, z):
    """Tanh or sigmoid to a hundred digits."""
    with flint.ctx.workprec(400):
        z = flint.arb(float(z))
        return z.tanh() if activation.name == "tanh" else 1 / (1 + (-z).exp())


@pytest.mark.parametrize("activation", [Activation("tanh"), Activation("sigmoid")], ids=str)
def test_lines_of_any_slope_enclose_curved_activations(activation):
    rng, function = np.random.default_rng(3), function_of(activation)
    ends = np.sort(rng.normal(size=(2, 150)) * 10.0 ** rng.integers(-9, 3, 150), axis=0)
    ends[:, :10] = ends[0, :10]
    ends[0, 10:20], ends[1, 20:30] = 0.0, 0.0
    ends.sort(axis=0)
    slopes = rng.choice([0.0, 1.0, 0.25, 1e-9, 0.2, -0.3, 3.0, 0.249999, 0.999999], size=(2, 150))
    below, above = function.intercepts((slopes[0], slopes[1]), *ends)
    low, high = function.value_range(*ends)
    for i in range(150):
        steep = np.sqrt(np.clip(1 - slopes[:, i] * (1 if activation.name == "tanh" else 4), 0, 1 - 1e-16))
        turning = np.arctanh(steep) * (1 if activation.name == "tanh" else 2)
        places = np.concatenate([np.linspace(*ends[:, i], 25), turning, -turning, [0.0]])
        places = places[(places >= ends[0, i]) & (places <= ends[1, i])]
        least, most = [], []
        for z in places:
            with flint.ctx.workprec(400):
                value, at = curve(activation, z), flint.arb(float(z))
                least.append(value - flint.arb(float(slopes[0, i])) * at - flint.arb(float(below[i])))
                most.append(flint.arb(float(above[i])) - (value - flint.arb(float(slopes[1, i])) * at))
                assert not value < flint.arb(float(low[i]))  # at -1 and 1 a ball of any precision is undecided
                assert not value > flint.arb(float(high[i]))
        assert all(gap >= 0 for gap in least)
        assert all(gap >= 0 for gap in most)
        scale = 1 + np.abs(ends[:, i]).max() * np.abs(slopes[:, i]).max()
        assert min(float(gap.mid()) for gap in least) < 1e-3 * scale  # and they touch
        assert min(float(gap.mid()) for gap in most) < 1e-3 * scale
