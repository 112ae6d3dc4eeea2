"""No score inside of a segment is beyond what its ends and its middle allow."""

import numpy as np
import pytest

from fairmend.auditing.extremes import (
    LaterLayers,
    RunningExtremes,
    SegmentBounds,
    line_grid,
    search_lines,
    search_points,
    shifted_tables,
)
from support.same_scores import assert_same_scores
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


def lines_of(rng, units, lines, length):
    """A table (units, lines of values): what the values of a feature add to the first layer."""
    start, slope = rng.standard_normal((2, units, lines, 1))
    return (start + slope * np.linspace(-1, 1, length)).reshape(units, -1).astype(np.float32)


def found_by(search, *arguments, inputs):
    found = RunningExtremes(inputs, np.float32)
    search(*arguments, found)
    return found


@pytest.mark.parametrize(("inputs", "lines"), [(600, 3), (2, 7), (40, 40)])
@pytest.mark.parametrize("hidden", [(3,), (6,), (16, 8), (6, 6, 6, 6, 6, 6)])
@pytest.mark.parametrize("length", [24, 63])
def test_both_searches_find_the_same_bits(monkeypatch, inputs, lines, hidden, length):
    monkeypatch.setattr("fairmend.auditing.extremes._SEGMENTS", 300)
    rng = np.random.default_rng(inputs + length)
    net = random_network(rng, 3, hidden)
    layers = LaterLayers(net)
    base = rng.standard_normal((hidden[0], inputs)).astype(np.float32)
    tables, _ = layers.tables(lines_of(rng, hidden[0], lines, length), np.inf)
    everything = found_by(search_points, layers, base, tables, inputs=inputs)
    found = found_by(search_lines, layers, base, tables, lines, inputs=inputs)
    assert_same_scores(found.lowest, everything.lowest)
    assert_same_scores(found.highest, everything.highest)


def test_most_scores_along_lines_are_not_computed():
    rng = np.random.default_rng(0)
    net = random_network(rng, 3, (16, 8))
    layers, computed = LaterLayers(net), 0
    base = rng.standard_normal((16, 1000)).astype(np.float32)
    tables, _ = layers.tables(lines_of(rng, 16, 10, 63), np.inf)
    compute = layers.scores

    def count(*arguments):
        nonlocal computed
        for block in compute(*arguments):
            computed += block.scores.size
            yield block

    layers.scores = count
    found_by(search_lines, layers, base, tables, 10, inputs=1000)
    assert computed < 1000 * 630 / 2


def test_a_network_whose_bounds_are_loose_is_computed_everywhere(monkeypatch):
    monkeypatch.setattr("fairmend.auditing.extremes._WORTHWHILE", 0.0)
    rng = np.random.default_rng(0)
    layers = LaterLayers(random_network(rng, 3, (8, 8)))
    base = rng.standard_normal((8, 600)).astype(np.float32)
    tables, _ = layers.tables(lines_of(rng, 8, 2, 30), np.inf)
    everything = found_by(search_points, layers, base, tables, inputs=600)
    found = found_by(search_lines, layers, base, tables, 2, inputs=600)
    assert np.array_equal(found.lowest, everything.lowest)
