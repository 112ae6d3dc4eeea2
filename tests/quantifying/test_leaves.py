"""Leaves cover all people once, whatever is split."""

import numpy as np
import pytest

from fairmend.quantifying.decide import Decided
from fairmend.quantifying.leaves import Leaves
from fairmend.quantifying.space import make_space
from support.quantify_cases import SMALL, linear


def decided(fair, unfair, axis=0):
    n = len(fair)
    return Decided(np.array(fair), np.array(unfair), np.full(n, axis), np.zeros(n))


def test_halves_replace_their_box_and_the_largest_open_share_comes_first():
    space = make_space(linear([1, 1, 0, 0, 0, 0], 0), SMALL)
    root = space.root()
    leaves = Leaves(root, space.shares(root), decided([0.0], [0.0]))
    halves = root.split(np.array([0]))
    leaves.replace(np.array([0]), halves, space.shares(halves), decided([1.0, 0.25], [0.0, 0.5]))
    assert leaves.count == 2
    assert leaves.widest_open(5).tolist() == [1]
    fair, unfair = leaves.totals()
    assert fair == pytest.approx(0.625)
    assert unfair == pytest.approx(0.25)
    assert fair <= 0.625
    leaves.improve(np.array([1]), decided([0.5], [0.5]))
    assert sum(leaves.totals()) == pytest.approx(1)
    leaves.improve(np.array([1]), decided([0.0], [0.0]))  # no worse than before
    assert sum(leaves.totals()) == pytest.approx(1)


def test_boxes_with_little_of_what_is_open_wait():
    space = make_space(linear([1, 1, 0, 0, 0, 0], 0), SMALL)
    root = space.root()
    leaves = Leaves(root, space.shares(root), decided([0.0], [0.0]))
    halves = root.split(np.array([0]))
    leaves.replace(np.array([0]), halves, space.shares(halves), decided([0.995, 0.25], [0.0, 0.0]))
    assert leaves.widest_open(5).tolist() == [1]
    leaves.improve(np.array([1]), decided([0.99], [0.0]))
    assert leaves.widest_open(5).tolist() == [0, 1]


def test_all_fair_is_exactly_1():
    space = make_space(linear([1, 1, 0, 0, 0, 0], 0), SMALL)
    root = space.root()
    assert Leaves(root, space.shares(root), decided([1.0], [0.0])).totals() == (1.0, 0.0)
