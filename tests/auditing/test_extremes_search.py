"""The search along lines finds what computing every score finds."""

import numpy as np
import pytest

from fairmend.auditing import extremes_search
from fairmend.auditing.extremes_search import RunningExtremes, search_lines, search_points
from fairmend.auditing.later_layers import LaterLayers
from support.same_scores import assert_same_scores
from support.strategies import random_network


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
    monkeypatch.setattr(extremes_search, "_SEGMENTS", 300)
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
    monkeypatch.setattr(extremes_search, "_WORTHWHILE", 0.0)
    rng = np.random.default_rng(0)
    layers = LaterLayers(random_network(rng, 3, (8, 8)))
    base = rng.standard_normal((8, 600)).astype(np.float32)
    tables, _ = layers.tables(lines_of(rng, 8, 2, 30), np.inf)
    everything = found_by(search_points, layers, base, tables, inputs=600)
    found = found_by(search_lines, layers, base, tables, 2, inputs=600)
    assert np.array_equal(found.lowest, everything.lowest)
