"""Labels are checked, and what is kept is measured: in shares of the rows of each class, or of the variance."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.base.metrics import balanced_accuracy
from fairmend.repairing.measures import Classes, Numbers, balanced_shares, r_squared, smooth_shares
from support.strategies import random_network


def test_what_is_not_a_number_for_each_row_is_refused():
    network = random_network(np.random.default_rng(0), 3, [4])
    assert Numbers().check_labels(np.array([[1], [2]]), 2, network).tolist() == [1.0, 2.0]
    for wrong, message in (
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 2)), "shape"),
        (np.array([1.0, np.nan]), "row 1: nan is not a finite number"),
        (np.array(["a", "b"]), "no numbers"),
    ):
        with pytest.raises(FairmendError, match=message):
            Numbers().check_labels(wrong, 2, network)
    several = random_network(np.random.default_rng(0), 3, [4], 2)
    assert Numbers().check_labels(np.zeros((2, 2)), 2, several).shape == (2, 2)


def test_the_share_of_the_variance_that_is_kept():
    y = np.array([1.0, 2.0, 3.0])
    assert r_squared(y, y) == Numbers().agreement(y, y) == 1
    assert r_squared(y, np.full(3, 2.0)) == 0
    assert r_squared(np.ones(3), y) == 0
    assert Numbers().agreement(y, -y) == 0 > r_squared(y, -y)


def test_the_shares_of_rows_add_up_to_the_balanced_accuracy():
    rng = np.random.default_rng(0)
    true, guess = rng.integers(0, 3, 90), rng.integers(0, 3, 90)
    assert np.isclose(balanced_shares(true, guess).mean(), balanced_accuracy(true, guess))


@pytest.mark.parametrize("classes", [2, 3])
def test_smooth_shares_count_sure_rows_in_full_and_do_not_reward_confidence(classes):
    rng = np.random.default_rng(1)
    true = rng.integers(0, classes, 200)
    logits = rng.normal(size=(200, classes))
    shares = smooth_shares(true, logits)
    assert np.allclose(shares, smooth_shares(true, 100 * logits))
    sure = np.where(np.eye(classes)[true] > 0, 1.0, -1.0)
    sure[:20] = -sure[:20]
    assert abs(smooth_shares(true, sure).mean() - balanced_accuracy(true, sure.argmax(axis=1))) < 0.01
    assert not smooth_shares(true, np.zeros((200, classes))).any()


def test_a_lost_class_and_agreement_near_chance_are_a_collapse():
    before = np.repeat([0, 1], [990, 10])
    assert Classes().has_collapsed(before, np.zeros(1000, np.int64))
    assert not Classes().has_collapsed(before, before)
    few = before.copy()
    few[-9:] = 0  # one of ten is left: agreement 0.55
    assert Classes().has_collapsed(before, few)
    half = before.copy()
    half[-5:] = 0
    assert not Classes().has_collapsed(before, half)
    assert not Classes().has_collapsed(np.zeros(10, np.int64), np.ones(10, np.int64))  # the original had one class only


def test_a_class_that_the_original_gives_to_one_row_in_thousands_may_go():
    before = np.repeat([0, 1, 2], [3000, 2999, 1])
    after = np.repeat([0, 1, 1], [3000, 2999, 1])
    assert not Classes().has_collapsed(before, after)
