"""ReLU, LeakyReLU, PReLU and the identity against exact rationals: no line is on the wrong side."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend_check.kernel.functions import function_of
from support.checker_models import PIECEWISE


@pytest.mark.parametrize("activation", PIECEWISE, ids=str)
def test_lines_of_any_slope_enclose_piecewise_linear_activations(activation):
    rng, function = np.random.default_rng(2), function_of(activation)
    ends = np.sort(rng.normal(size=(2, 400)) * 10.0 ** rng.integers(-12, 8, 400), axis=0)
    ends[:, :50] = ends[0, :50]
    slopes = rng.choice([0.0, 1.0, 0.01, 2.5, -1.0, 0.37], size=(2, 400))
    below, above = function.intercepts((slopes[0], slopes[1]), *ends)
    low, high = function.value_range(*ends)
    negative = Fraction({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
    for i in range(400):
        lower, upper = Fraction(ends[0, i]), Fraction(ends[1, i])
        places = [lower, upper, (lower + upper) / 2] + ([Fraction(0)] if lower < 0 < upper else [])
        values = [z if z >= 0 else negative * z for z in places]
        assert Fraction(below[i]) <= min(v - Fraction(slopes[0, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(above[i]) >= max(v - Fraction(slopes[1, i]) * z for v, z in zip(values, places, strict=True))
        assert Fraction(low[i]) <= min(values)
        assert Fraction(high[i]) >= max(values)
