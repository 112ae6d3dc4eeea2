"""Biases after step 2 keep the share of each class, as far as the claim allows."""

import numpy as np
import pytest

from fairmend.network import predicted_classes
from fairmend.repairing.head.levels import allowed_share, keep_rates, probability_spread


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
def test_each_class_keeps_its_share_of_the_predictions(outputs):
    rng = np.random.default_rng(outputs)
    before = rng.normal(size=(400, outputs)) + rng.normal(size=outputs)
    after = 0.05 * before + rng.normal(size=outputs)
    shifted = after + keep_rates(before, after)
    old, new = (predicted_classes(each if outputs > 1 else each[:, 0]) for each in (before, shifted))
    shares = np.bincount(old, minlength=outputs), np.bincount(new, minlength=outputs)
    assert np.abs(np.subtract(*shares)).max() <= (0 if outputs <= 2 else 12)


def test_outputs_that_did_not_change_move_nothing():
    before = np.array([[1.0], [2.0], [-1.0]])
    assert not keep_rates(before, before).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_class_that_all_rows_had_stays_the_only_one(sign):
    before = sign * np.array([[1.0], [2.0], [3.0]])
    for after in (-before, before * 0, before - 2 * sign):
        assert ((after + keep_rates(before, after) >= 0) == (before >= 0)).all()


def test_a_shift_ends_where_a_region_would_leave_the_claim():
    low, high = np.array([[3.0]]), np.array([[9.0]])  # narrow in probability only while it is far from 0
    delta = probability_spread(low, high, 1) * 1.5
    assert allowed_share(low, high, np.array([5.0]), delta, 1) == 1
    share = allowed_share(low, high, np.array([-5.0]), delta, 1)
    assert 0 < share < 0.2
    assert probability_spread(low - 5 * share, high - 5 * share, 1) <= delta
    assert allowed_share(low, high, np.array([-5.0]), probability_spread(low, high, 1), 1) == 0
