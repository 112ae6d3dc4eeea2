"""Regressions: labels are checked, and what is kept is measured in shares of the variance."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.repairing.regression import agreement, check_targets, r_squared
from support.strategies import random_network


def test_what_is_not_a_number_for_each_row_is_refused():
    network = random_network(np.random.default_rng(0), 3, [4])
    assert check_targets(np.array([[1], [2]]), 2, network).tolist() == [1.0, 2.0]
    for wrong, message in (
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 2)), "shape"),
        (np.array([1.0, np.nan]), "row 1: nan is not a finite number"),
        (np.array(["a", "b"]), "no numbers"),
    ):
        with pytest.raises(FairmendError, match=message):
            check_targets(wrong, 2, network)
    several = random_network(np.random.default_rng(0), 3, [4], 2)
    assert check_targets(np.zeros((2, 2)), 2, several).shape == (2, 2)


def test_the_share_of_the_variance_that_is_kept():
    y = np.array([1.0, 2.0, 3.0])
    assert r_squared(y, y) == agreement(y, y) == 1
    assert r_squared(y, np.full(3, 2.0)) == 0
    assert r_squared(np.ones(3), y) == 0
    assert agreement(y, -y) == 0 > r_squared(y, -y)
