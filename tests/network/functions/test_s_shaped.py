"""Tanh and sigmoid: symmetric, so that lines above are mirror images of lines below."""

import numpy as np
import pytest

from support.functions import S_SHAPED


@pytest.mark.parametrize("activation", S_SHAPED, ids=str)
@np.errstate(all="ignore")
def test_lines_above_mirror_lines_below(activation):
    rng = np.random.default_rng(0)
    low = rng.uniform(-5, 3, 50)
    high, slope = low + rng.uniform(0, 6, 50), rng.uniform(-0.1, 1.1, 50)
    turn = 0.0 if activation.name == "tanh" else 1.0
    below = activation.function.lowest(slope, -high, -low)
    assert activation.function.highest(slope, low, high) == pytest.approx(turn - below, abs=1e-14)
