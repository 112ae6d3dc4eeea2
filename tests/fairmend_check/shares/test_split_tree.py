"""A tree of splits: whatever the file says, its leaves contain everyone exactly once, or it is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend_check.errors import CheckError
from fairmend_check.shares.split_tree import LINEAR, NOTHING, read_leaves

CELLS = [4, 1, 3]
SPLIT = {axis: 4 + axis for axis in range(3)}


def read(nodes, cuts, cells=CELLS):
    return read_leaves(cells, np.array(nodes, np.uint16), np.array(cuts, np.uint32), "here")


def people_in(leaves):
    """Return how many leaves each cell is in."""
    counts = np.zeros(CELLS, np.int64)
    for first, last in zip(leaves.first, leaves.last, strict=True):
        counts[tuple(slice(a, b + 1) for a, b in zip(first, last, strict=True))] += 1
    return counts


def test_nodes_are_read_level_by_level():
    leaves = read([SPLIT[0], SPLIT[2], LINEAR, NOTHING, LINEAR], [1, 0])
    assert leaves.first.tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert leaves.last.tolist() == [[3, 0, 2], [1, 0, 0], [1, 0, 2]]
    assert leaves.proof.tolist() == [LINEAR, NOTHING, LINEAR]
    assert (people_in(leaves) == 1).all()


def test_one_leaf_is_everyone():
    leaves = read([LINEAR], [])
    assert (leaves.first.tolist(), leaves.last.tolist()) == ([[0, 0, 0]], [[3, 0, 2]])
    assert read([LINEAR], [], cells=[]).first.shape == (1, 0)


@pytest.mark.parametrize(
    ("nodes", "cuts"),
    [
        ([SPLIT[0], LINEAR], [1]),  # a half is missing
        ([SPLIT[0]], [1]),
        ([SPLIT[0], LINEAR, LINEAR], []),  # a cut is missing
        ([SPLIT[0], LINEAR, LINEAR], [3]),  # nothing is above it
        ([SPLIT[0], LINEAR, LINEAR], [2**32 - 1]),
        ([SPLIT[1], LINEAR, LINEAR], [0]),  # an axis of one cell
        ([SPLIT[0], SPLIT[0], LINEAR, LINEAR, LINEAR], [1, 2]),  # outside of its half
        ([7, LINEAR, LINEAR], [0]),  # there is no axis 3
        ([65535, LINEAR, LINEAR], [0]),
        ([LINEAR, LINEAR], []),  # more than the tree has
        ([SPLIT[0], LINEAR, LINEAR], [1, 1]),
    ],
)
def test_what_is_no_tree_is_refused(nodes, cuts):
    with pytest.raises(CheckError, match="here"):
        read(nodes, cuts)


@settings(max_examples=200)
@given(data=st.data(), leaves=st.integers(1, 8))
def test_leaves_contain_everyone_once_or_are_refused(data, leaves):
    nodes = data.draw(st.lists(st.integers(0, 7), min_size=2 * leaves - 1, max_size=2 * leaves - 1))
    cuts = data.draw(st.lists(st.integers(0, 3), min_size=leaves - 1, max_size=leaves - 1))
    try:
        found = read(nodes, cuts)
    except CheckError:
        return
    assert (people_in(found) == 1).all()


def test_a_tree_that_is_a_long_chain_is_refused():
    """One cell is cut off after the other: each level would cost as much as thousands of leaves."""
    levels = 10_001
    nodes = [SPLIT[0], *([LINEAR, SPLIT[0]] * (levels - 1)), LINEAR, LINEAR]
    with pytest.raises(CheckError, match="more than 10,000 levels"):
        read(nodes, range(levels), cells=[2**20])
