"""Counted shares are at most the true ones, and close to them."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmend.quantifying.count import Line, Terms, distribution
from support.strategies_spec import unhurried


def random_terms(rng, boxes, features):
    terms = []
    for _ in range(features):
        low = rng.normal(size=(boxes, rng.integers(1, 5))) * rng.choice([0, 1e-3, 1, 100])
        weight = rng.integers(0, 3, low.shape) + (np.arange(low.shape[1]) == 0)
        terms.append(
            Terms(low, low + rng.choice([0.0, 0.1]) * rng.random(low.shape), weight / weight.sum(1, keepdims=True))
        )
    return terms


def sums(terms, row):
    """The least and most of every combination in a box, and its weight."""
    choices = [list(zip(t.low[row], t.high[row], t.weight[row], strict=True)) for t in terms]
    for combination in product(*choices):
        low, high, weight = zip(*combination, strict=True)
        yield sum(low), sum(high), np.prod(weight)


@unhurried
@given(seed=st.integers(0, 2**32 - 1), features=st.integers(1, 5), bins=st.sampled_from([64, 512]))
def test_a_counted_share_is_a_lower_bound(seed, features, bins):
    rng = np.random.default_rng(seed)
    terms = random_terms(rng, 3, features)
    found = distribution(terms, bins)
    values = [list(sums(terms, row)) for row in range(3)]
    # At a value itself the strict comparison matters.
    threshold = np.array([rng.choice([low for low, _, _ in each]) for each in values])
    other = threshold + rng.random(3)
    for row, each in enumerate(values):
        above = sum(weight for low, _, weight in each if low > threshold[row])
        below = sum(weight for _, high, weight in each if high < threshold[row])
        inside = sum(weight for low, high, weight in each if low > threshold[row] and high < other[row])
        assert found.above(threshold)[row] <= above + 1e-12
        assert found.below(threshold)[row] <= below + 1e-12
        assert found.between(threshold, other)[row] <= inside + 1e-12


def test_a_share_is_close_to_the_true_one():
    steps = np.arange(100.0)[None]
    uniform = Terms(steps, steps, np.full((1, 100), 0.01))
    found = distribution([uniform, uniform, uniform], 4096)
    assert 0.98 < found.above(np.array([148.4]))[0] / 0.5 < 1
    assert 0.98 < found.below(np.array([148.6]))[0] / 0.5 < 1
    assert found.above(np.array([-1.0]))[0] > 1 - 1e-8
    assert found.between(np.array([-np.inf]), np.array([np.inf]))[0] > 1 - 1e-8


def test_infinite_thresholds_and_empty_intervals_count_nothing():
    term = Terms(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    found = distribution([term], 64)
    assert found.above(np.array([np.inf]))[0] == 0
    assert found.below(np.array([-np.inf]))[0] == 0
    assert found.between(np.array([1.0]), np.array([-1.0]))[0] == 0
    assert found.above(np.array([np.nan]))[0] == 0
    assert found.above(np.array([0.0]))[0] == 0


@unhurried
@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(1, 40), up=st.booleans())
def test_cells_on_a_line_are_counted_one_by_one(seed, cells, up):
    rng = np.random.default_rng(seed)
    start, step, off = rng.normal(size=2), (1 if up else -1) * rng.choice([0.5, 0.37], 2), 1e-9
    line = Line(start, step, np.full(2, off), np.full(2, float(cells)))
    terms = random_terms(rng, 2, 2)
    found = distribution(terms, 256, line)
    values = [start[row] + step[row] * np.arange(cells) + rng.uniform(-off, off, cells) for row in range(2)]
    low = np.array([rng.choice(each) for each in values])
    high = low + rng.random(2) * cells / 4
    for row in range(2):
        each = Terms(values[row][None], values[row][None], np.full((1, cells), 1 / cells))
        others = [Terms(t.low[row : row + 1], t.high[row : row + 1], t.weight[row : row + 1]) for t in terms]
        inside = sum(w for a, b, w in sums([each, *others], 0) if a > low[row] and b < high[row])
        assert found.between(low, high)[row] <= inside + 1e-12


def test_a_line_with_many_cells_is_counted_exactly():
    line = Line(np.array([0.0]), np.array([1e-3]), np.zeros(1), np.array([100_000.0]))
    found = distribution([Terms(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))], 64, line)
    assert 0.4999 < found.above(np.array([49.9995]))[0] <= 0.5
