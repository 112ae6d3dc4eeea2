"""Regressions: targets are checked and mixed, and what is kept is measured in shares of the variance."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.repair.regression import agreement, check_targets, r_squared, regression_targets
from support.strategies import random_network


def test_targets_are_labels_or_the_original_outputs_or_between():
    rng = np.random.default_rng(0)
    network, X, y = random_network(rng, 3, [4]), rng.normal(size=(5, 3)).astype(np.float32), np.array([7.0, 8.0, 9.0])
    own = network.logits(X).astype(np.float64)[:, None]
    for share in (0.0, 0.25, 1.0):
        targets = regression_targets(network, X, y, share)
        np.testing.assert_allclose(targets[:3], share * y[:, None] + (1 - share) * own[:3])
        np.testing.assert_allclose(targets[3:], own[3:])


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
