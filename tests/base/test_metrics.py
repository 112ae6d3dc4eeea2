"""Metrics count what they say, and refuse what are not classes."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.base.metrics import (
    accuracy,
    balanced_accuracy,
    changed_rate,
    mean_absolute_error,
    positive_rate,
    r2,
    root_mean_squared_error,
)

TRUE, GUESS = [0, 0, 0, 1], [0, 0, 1, 1]


def test_metrics_of_a_small_example():
    assert accuracy(TRUE, GUESS) == 0.75
    assert balanced_accuracy(TRUE, GUESS) == pytest.approx((2 / 3 + 1) / 2)
    assert positive_rate(GUESS) == 0.5
    assert changed_rate(TRUE, GUESS) == 0.25


def test_a_constant_prediction_has_a_balanced_accuracy_of_one_class():
    y = np.repeat([0, 1, 2], [70, 20, 10])
    assert balanced_accuracy(y, np.zeros(100, dtype=int)) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("y", "predicted", "message"),
    [
        ([0, 1], [0], "2 true and 1 predicted"),
        ([], [], "at least one row"),
        ([[0, 1]], [0, 1], "one class per row"),
        ([0.5, 1], [0, 1], "not class numbers"),
        (["a", "b"], [0, 1], "not class numbers"),
    ],
)
def test_what_are_not_classes_is_refused(y, predicted, message):
    with pytest.raises(FairmendError, match=message):
        accuracy(y, predicted)


def test_errors_of_numbers():
    y, predicted = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    assert mean_absolute_error(y, predicted) == 1
    assert root_mean_squared_error(y, predicted) == pytest.approx(np.sqrt(5 / 3))
    assert r2(y, predicted) == pytest.approx(1 - 5 / np.var(y) / 3)
    assert r2(y, y) == 1
    assert r2([2.0, 2.0], [1.0, 2.0]) is None
    with pytest.raises(FairmendError, match="one of each per row"):
        r2(y, predicted[:2])
