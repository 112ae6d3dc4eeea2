"""No score inside of a segment is beyond what its ends and its middle allow."""

import numpy as np
import pytest

from fairmend.auditing.later_layers import shifted_tables
from fairmend.auditing.line_bounds import SegmentBounds, line_grid
from support.strategies import random_network


@pytest.mark.parametrize("length", [3, 7, 24, 63, 200])
def test_a_grid_and_its_inner_values_are_the_whole_line(length):
    grid = line_grid(length)
    assert grid.values[0] == 0
    assert grid.values[-1] == length - 1
    inner = [np.flatnonzero(row) for row in grid.inner]
    assert sorted([*grid.values, *np.concatenate(inner)]) == list(range(length))
    assert 2 <= grid.tent <= 3


def layers_by_hand(net, base, table):
    """The activations (units, lines, values, inputs) of the layers, and the scores without units, in float64."""
    layer = base[:, None, None, :].astype(np.float64) + table[..., None]
    activations = []
    for affine in net.affines[1:]:
        activations.append(np.maximum(layer, 0))
        weight, bias = affine.weight.astype(np.float64), affine.bias.astype(np.float64)
        layer = np.einsum("ij,j...->i...", weight, activations[-1]) + bias[:, None, None, None]
    return activations, layer[0]


@pytest.mark.parametrize("hidden", [(6,), (8, 6), (6, 5, 4), (5, 5, 5, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_no_score_is_beyond_the_bounds(hidden, seed):
    rng = np.random.default_rng(seed)
    net = random_network(rng, 3, hidden)
    slope, start = rng.standard_normal((2, hidden[0], 5))
    grid = line_grid(40)
    table = (start[..., None] + slope[..., None] * np.linspace(-1, 1, 40)).astype(np.float32)
    base = rng.standard_normal((hidden[0], 50)).astype(np.float32)
    activations, scores = layers_by_hand(net, base, table)
    bounds = SegmentBounds(net.affines, grid)
    at_grid = [layer[:, :, grid.values] for layer in activations]
    sums = sum(np.einsum("ij,j...->i...", row, layer) for row, layer in zip(bounds.rows, at_grid, strict=True))
    lowest, highest = bounds.beyond(scores[:, grid.values], sums)
    slack = bounds.slack(base, shifted_tables(net.affines, table.reshape(len(table), -1))[0], 5)
    assert slack < 1e-2
    for segment, inner in enumerate(grid.inner):
        assert (scores[:, inner] >= lowest[:, segment, None] - slack).all()
        assert (scores[:, inner] <= highest[:, segment, None] + slack).all()
    spread = scores.max(axis=(0, 1)) - scores.min(axis=(0, 1))
    assert len(hidden) > 2 or np.median(highest - lowest) < 2 * np.median(spread)  # not beyond all use


def test_rounding_that_cannot_be_bounded_closes_no_segment():
    net = random_network(np.random.default_rng(0), 1, [4, 4])
    grid = line_grid(24)
    base, tables = np.ones((4, 2), np.float32), shifted_tables(net.affines, np.full((4, 24), 1e38, np.float32))[0]
    assert SegmentBounds(net.affines, grid).slack(base, tables, 1) > 1e30
