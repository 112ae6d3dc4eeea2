"""Boxes as a tree: the checker reads the same boxes from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.quantifying.space import Boxes
from fairmend.quantifying.split_tree import LINEAR, LISTED, NOTHING, tree_of_boxes
from fairmend_check.shares.leaves import read_leaves
from support.quantify_cases import SPECS
from support.share_cases import people_of_spec, random_leaves


def rows_of(first, last, proof):
    return sorted(zip(first.tolist(), last.tolist(), proof.tolist(), strict=True))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(list(SPECS)), splits=st.integers(0, 40))
def test_the_leaves_are_the_boxes(seed, name, splits):
    """Also where boxes were not split in the middle."""
    rng = np.random.default_rng(seed)
    people = people_of_spec(SPECS[name])
    leaves = random_leaves(people, rng, splits)
    cells = np.array([axis.cells for axis in people.axes])
    proof = rng.choice([NOTHING, LINEAR, LISTED], len(leaves.first))
    tree = tree_of_boxes(Boxes(leaves.first, leaves.last), cells, proof)
    found = read_leaves(cells.tolist(), tree.nodes.astype(np.uint16), tree.cuts.astype(np.uint32), "here")
    assert rows_of(found.first, found.last, found.proof) == rows_of(leaves.first, leaves.last, proof)


@pytest.mark.parametrize(
    ("boxes", "reason"),
    [
        ([([0], [1]), ([3], [3])], "exactly once"),  # a hole
        ([([0], [2]), ([2], [3])], "overlap"),
        ([([0], [3]), ([0], [3])], "overlap"),
    ],
)
def test_boxes_that_are_no_tree_are_refused(boxes, reason):
    first, last = (np.array(ends) for ends in zip(*boxes, strict=True))
    with pytest.raises(ValueError, match=reason):
        tree_of_boxes(Boxes(first, last), np.array([4]), np.ones(len(first), np.int64))
