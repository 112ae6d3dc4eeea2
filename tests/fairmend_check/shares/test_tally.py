"""Counting people on one side of a form: never more than there are, and nearly as many."""

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Feature, Spec
from fairmend_check.shares import tally
from fairmend_check.shares.tally import MAX_TERMS, Tally, axis_terms
from support.examples import examples
from support.quantify_cases import SPECS
from support.share_cases import people_of_spec, random_leaves

SEX = Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True)


def tally_of(people, leaves, g, unit):
    exact = leaves.exact
    axes = enumerate(people.axes)
    terms = [axis_terms(axis, g[:, axis.columns], leaves.first[:, k], leaves.last[:, k], exact) for k, axis in axes]
    return Tally(terms, exact, np.full(len(exact), unit))


def values_of(people, leaves, row, g):
    """Return the values of a form for everyone in a box, one by one."""
    terms = []
    for k, axis in enumerate(people.axes):
        cells = np.arange(leaves.first[row, k], leaves.last[row, k] + 1)
        columns = axis.hull(cells, cells)[0]
        terms.append(columns @ g[row, axis.columns])
    return np.array([sum(each) for each in product(*terms)])


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(list(SPECS)))
def test_counts_are_at_most_those_of_an_enumeration(seed, name):
    rng = np.random.default_rng(seed)
    people = people_of_spec(SPECS[name])
    leaves = random_leaves(people, rng, 4)
    g = rng.normal(size=(len(leaves.first), people.width)) * rng.choice([0, 1, 1e-9, 1e6], people.width)
    g = np.round(g) if seed % 2 else g  # whole numbers lie on thresholds
    tally = tally_of(people, leaves, g, 0.0)
    for row in range(len(leaves.first)):
        values = values_of(people, leaves, row, g)
        for low, high in ((values.mean(), np.inf), (-np.inf, values[0]), (values.min(), values.max())):
            ends = np.full(len(leaves.first), low), np.full(len(leaves.first), high)
            count, slack = tally.between(*ends)[row], 1e-9 * (1 + np.abs(values).max())
            assert count <= np.sum((values > low - slack) & (values < high + slack))
            assert count == int(count)
            width = np.ptp(values) / 50 + slack
            assert count >= np.sum((values > low + width) & (values < high - width))


def test_a_value_on_the_threshold_is_not_counted():
    people = people_of_spec(Spec([Feature(name="x", kind="integer", range=(0, 9)), SEX]))
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    tally = tally_of(people, leaves, np.array([[1.0, 0.0]]), 0.0)
    assert tally.between(np.array([4.0]), np.array([np.inf])).tolist() == [5]
    assert tally.between(np.array([-np.inf]), np.array([4.0])).tolist() == [4]
    assert tally.between(np.array([4.0]), np.array([4.0])).tolist() == [0]
    assert tally.between(np.array([np.nan]), np.array([np.inf])).tolist() == [0]
    assert tally.between(np.array([-np.inf]), np.array([np.nan])).tolist() == [0]


@pytest.mark.parametrize(("features", "least"), [(3, 0.45), (30, 0.35), (80, 0.1)])
def test_boxes_too_large_to_count_are_counted_in_shares(features, least):
    """A sum of many uniform numbers: half of them are above the middle."""
    spec = Spec([*(Feature(name=f"x{k}", kind="continuous", range=(0, 1)) for k in range(features)), SEX])
    people = people_of_spec(spec)
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    tally = tally_of(people, leaves, np.ones((1, features + 1)), 0.0)
    middle = np.array([features / 2])
    above, below = tally.between(middle, np.array([np.inf]))[0], tally.between(np.array([-np.inf]), middle)[0]
    total = 1 if features > 3 else 2**48
    assert least < above / total < 0.5
    assert least < below / total < 0.5
    everyone = tally.between(np.array([-np.inf]), np.array([np.inf]))[0] / total
    assert everyone == 1 if features == 3 else 1 - 1e-9 < everyone < 1


def test_many_values_share_terms_and_are_bounded_together():
    spec = Spec([Feature(name="x", kind="integer", range=(0, 10_000)), SEX])
    people = people_of_spec(spec)
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    terms = axis_terms(people.axes[0], np.array([[-2.0]]), leaves.first[:, 0], leaves.last[:, 0], np.array([True]))
    assert terms.low.shape == (1, MAX_TERMS)
    assert terms.weight.sum() == 10_001
    count = tally_of(people, leaves, np.array([[-2.0, 0.0]]), 0.0).between(np.array([-10_001.0]), np.array([np.inf]))[0]
    assert 5_001 - 10_001 // MAX_TERMS - 1 <= count <= 5_001


@pytest.mark.parametrize("size", [1e300, 1e-300, np.inf])
def test_numbers_without_a_size_to_count_in_count_nothing_wrong(size):
    spec = Spec([Feature(name="x", kind="integer", range=(0, 9)), Feature(name="y", kind="integer", range=(0, 9)), SEX])
    people = people_of_spec(spec)
    leaves = random_leaves(people, np.random.default_rng(0), 0)
    with np.errstate(all="ignore"):
        tally = tally_of(people, leaves, np.array([[size, min(size, 1e300), 0.0]]), 0.0)
        assert tally.between(np.array([0.0]), np.array([np.inf]))[0] <= 99


def test_ranges_of_many_categories_have_the_terms_of_their_ends():
    """Without a step for each category: a certificate may have a million of them."""
    rng, count = np.random.default_rng(2), 1000
    job = Feature("job", "categorical", categories=tuple(f"job {k}" for k in range(count)), encoding="one-hot")
    axis = people_of_spec(Spec([SEX, job])).axes[0]
    first, last = np.array([0, 5, 800, 700]), np.array([999, 500, 999, 703])
    A, steps = rng.normal(size=(4, count)), []
    sys.setprofile(lambda *event: steps.append(event[1]))
    try:
        terms = axis_terms(axis, A, first, last, np.ones(4, np.bool_))
    finally:
        sys.setprofile(None)
    assert len(steps) < 500
    assert terms.weight.sum(axis=1).tolist() == (last - first + 1).tolist()
    for row in range(4):
        cell = int(first[row])
        for low, high, weight in zip(terms.low[row], terms.high[row], terms.weight[row].astype(int), strict=True):
            if weight:
                values = A[row, cell : cell + weight]
                assert (low, high) == (values.min(), values.max())
            cell += weight


@pytest.mark.parametrize("boxes", [1, 63, 65, 200])
def test_short_and_long_tables_are_convolved_alike(boxes):
    rng = np.random.default_rng(boxes)
    tables = []
    for places in rng.choice([1, 2, 7, 30, 90], 5):
        length = rng.integers(1, places + 1, boxes)
        tables.append((rng.integers(0, 9, (boxes, places)) * (np.arange(places) < length[:, None]) * 1.0, length))
    below, lengths = tally._convolve(tables, boxes)
    for box in range(boxes):
        sums = np.ones(1)
        for table, length in tables:
            sums = np.convolve(sums, table[box, : length[box]])
        assert len(sums) == lengths[box]
        assert np.array_equal(below[box, : len(sums) + 1], np.cumsum([0, *sums]))
