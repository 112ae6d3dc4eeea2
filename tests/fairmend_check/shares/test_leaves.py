"""Leaves of a certificate: damaged or too large ones are refused, and all others contain everyone exactly once."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.certificate import _shares
from fairmend_check.shares.people import count_axes
from fairmend_check.shares.prove import LINEAR, NOTHING, read_leaves, read_shares
from support.examples import examples
from support.quantify_cases import SMALL
from support.share_cases import checked_spec


def packed(numbers, kind):
    return base64.b64encode(zlib.compress(np.array(numbers, kind).tobytes())).decode()


def claim(**changes):
    shares = {
        "fair": 0.5,
        "unfair": 0.25,
        "cells": 2**16,
        "pieces": [1],
        "leaves": 2,
        "nodes": packed([2, 1, 1], "<u2"),
        "cuts": packed([3], "<u4"),
    }
    return {key: value for key, value in {**shares, **changes}.items() if value is not None}


def test_a_claim_is_read():
    claimed = _shares(claim())
    found = read_shares(claimed.proof, checked_spec(SMALL))
    assert (claimed.fair, claimed.unfair, found.cells, found.pieces, found.leaves) == (0.5, 0.25, 65536, [1], 2)
    assert (found.nodes.tolist(), found.cuts.tolist()) == ([2, 1, 1], [3])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fair": 1.5}, "shares from 0 to 1"),
        ({"unfair": -0.1}, "shares from 0 to 1"),
        ({"fair": 0, "unfair": 0}, "not both 0"),
        ({"fair": float("nan")}, "not finite"),
        ({"fair": None}, 'no "fair"'),
        ({"fair": "0.5"}, "must be a number"),
        ({"cells": 1000}, "power of 2"),
        ({"cells": 2**33}, "power of 2"),
        ({"cells": 0}, "power of 2"),
        ({"pieces": [1.5]}, "whole numbers from 1"),
        ({"pieces": [0]}, "whole numbers from 1"),
        ({"pieces": [True]}, "whole numbers from 1"),
        ({"leaves": 0}, "must be 1 to"),
        ({"leaves": 2**40}, "must be 1 to"),
        ({"leaves": 3}, "does not hold exactly 10 bytes"),
        ({"nodes": packed([0] * 10**7, "<u2")}, "does not hold exactly 6 bytes"),
        ({"nodes": "!"}, "cannot be decoded"),
        ({"cuts": packed([1, 2], "<u4")}, "does not hold exactly 4 bytes"),
        ({"boxes": []}, 'unknown key "boxes"'),
    ],
)
def test_what_is_no_claim_is_refused(changes, reason):
    with pytest.raises(CheckError, match=reason):
        read_shares(_shares(claim(**changes)).proof, checked_spec(SMALL))


def test_own_values_on_which_links_depend_are_axes():
    linked = Spec(SMALL.features, links=[{"when": {"age": 20}, "then": {"hours": {"offset": 1}}}])
    assert [count_axes(checked_spec(spec)) for spec in (SMALL, linked)] == [3, 4]
    assert read_shares(claim(), checked_spec(linked)).leaves == 2


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


@examples(200)
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
