"""Coverage is decided exactly: against enumeration, on lattices and on floats."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend_check.coverage import _find_hole, _inward, _rank
from support.strategies_spec import unhurried


@unhurried
@given(st.data())
def test_holes_are_found_where_enumeration_finds_them(data):
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    count = data.draw(st.integers(1, 8))
    ends = [[sorted(data.draw(st.tuples(*[st.integers(-1, 5)] * 2))) for _ in sizes] for _ in range(count)]
    first, last = np.array([[e[0] for e in box] for box in ends]), np.array([[e[1] for e in box] for box in ends])
    cells = product(*(range(size) for size in sizes))
    held = [((first <= cell) & (cell <= last)).all(axis=1).any() for cell in map(np.array, cells)]
    hole = _find_hole(first, last, [(0, size - 1) for size in sizes])
    if all(held):
        assert hole is None
    else:
        assert not ((first <= np.array(hole)) & (np.array(hole) <= last)).all(axis=1).any()


def test_thousands_of_pieces_are_no_trouble():
    rng = np.random.default_rng(0)
    boxes = [(np.zeros(4, dtype=int), np.full(4, 1_000_000))]
    while len(boxes) < 3000:
        low, high = boxes.pop(int(rng.integers(len(boxes))))
        axis = int(np.argmax((high - low) * rng.random(4)))
        cut = int(rng.integers(low[axis] + 1, high[axis] + 1))
        below, above = high.copy(), low.copy()
        below[axis], above[axis] = cut - 1, cut
        boxes += [(low, below), (above, high)]
    first, last = (np.array([box[side] for box in boxes]) for side in (0, 1))
    extents = [(0, 1_000_000)] * 4
    assert _find_hole(first, last, extents) is None
    hole = _find_hole(np.delete(first, 1234, axis=0), np.delete(last, 1234, axis=0), extents)
    assert hole
    assert ((first[1234] <= hole) & (hole <= last[1234])).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranks_count_the_numbers_of_the_type(dtype):
    kind = np.dtype(dtype).type
    rng = np.random.default_rng(1)
    values = np.sort(
        np.concatenate([rng.normal(size=200), rng.normal(size=50) * 1e-40, [0.0, -0.0, 1.0, -1.0]])
    ).astype(kind)
    ranks = _rank(values, dtype)
    assert (np.diff(ranks) >= 0).all()
    assert ((np.diff(ranks) == 0) == (np.diff(values) == 0)).all()
    assert (_rank(np.nextafter(values, kind(np.inf)), dtype) == ranks + 1).all()
    wide = rng.normal(size=200)
    assert (_inward(wide, dtype, np.inf) >= wide).all()
    assert (_inward(wide, dtype, -np.inf) <= wide).all()
