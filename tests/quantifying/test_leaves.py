"""Leaves cover all people once, whatever is split."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend.quantifying.decide import Decided
from fairmend.quantifying.search import Leaves
from fairmend_check.shares.tally import Counts
from support.quantify_cases import SMALL, everyone_of


def decided(fair, unfair, axis=0):
    n = len(fair)
    counts = Counts(np.array(fair), np.array(unfair), np.zeros(n, np.bool_))
    return Decided(counts, np.full(n, axis), np.zeros(n))


def halved(*shares):
    """Return the leaves of a box whose halves have these shares."""
    root = everyone_of(SMALL)
    leaves = Leaves(root, decided([0.0], [0.0]))
    leaves.replace(np.array([0]), root.halved(np.array([0])), decided(*shares))
    return leaves


def test_halves_replace_their_box_and_the_largest_open_share_comes_first():
    leaves = halved([1.0, 0.25], [0.0, 0.5])
    assert leaves.count == 2
    assert leaves.widest_open(5).tolist() == [1]
    assert leaves.totals() == (0.625, 0.25, 0.125)
    leaves.improve(np.array([1]), decided([0.5], [0.5]))
    assert leaves.totals()[2] == 0
    leaves.improve(np.array([1]), decided([0.0], [0.0]))  # no worse than before
    assert leaves.totals()[2] == 0


def test_boxes_with_little_of_what_is_open_wait():
    leaves = halved([0.995, 0.25], [0.0, 0.0])
    assert leaves.widest_open(5).tolist() == [1]
    leaves.improve(np.array([1]), decided([0.99], [0.0]))
    assert leaves.widest_open(5).tolist() == [0, 1]


def test_totals_are_rounded_down():
    """Of 60 people, a share of 0.35 is 21, and one of 1/7 is 8: a part of a person is not counted."""
    fair, unfair, rest = halved([0.35, 0.0], [1 / 7, 0.0]).totals()
    assert Fraction(fair) <= Fraction(20, 120)
    assert fair == pytest.approx(20 / 120)
    assert unfair == pytest.approx(8 / 120)
    assert rest == pytest.approx(92 / 120)


def test_all_fair_is_exactly_1():
    assert Leaves(everyone_of(SMALL), decided([1.0], [0.0])).totals() == (1.0, 0.0, 0.0)
