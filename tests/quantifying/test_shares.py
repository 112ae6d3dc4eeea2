"""The counted share of a box is at most the true one, and close to it."""

import numpy as np
import pytest

from fairmend.quantifying.shares import count_share, may_exceed, spread
from fairmend.quantifying.sides import Threshold
from fairmend.quantifying.space import make_space
from support.quantify_cases import SPECS, people_of, random_boxes
from support.strategies import random_network


@pytest.mark.parametrize("name", SPECS)
def test_a_share_is_a_close_lower_bound(name):
    rng, spec = np.random.default_rng(0), SPECS[name]
    space = make_space(random_network(rng, spec.width, [3]), spec)
    boxes = random_boxes(space, rng, 8)
    g = rng.normal(size=(8, spec.width))
    g[:, space.columns] = 0
    values = [people_of(space, boxes, row, np.float64) @ g[row] for row in range(8)]
    low = np.array([np.median(each) for each in values])
    high = low + spread(space, boxes, g) / 3
    found = count_share(space, boxes, Threshold(g, low), spread(space, boxes, g), 2048, high)
    for row, each in enumerate(values):
        true = np.mean((each > low[row]) & (each < high[row]))
        assert true - 0.15 <= found[row] <= true + 1e-12
    assert not may_exceed(space, boxes, Threshold(g, np.full(8, 1e3))).any()
    assert may_exceed(space, boxes, Threshold(g, np.array([each.max() for each in values]) - 1e-6)).all()
