"""Training rows are noticed where statistics support it, and rows that are none are not accused."""

import numpy as np
import pytest

from fairmend.evaluate.training_rows import memory_warnings, training_warnings
from fairmend.network import Affine, Network
from fairmend.network.model import ScoredRows
from fairmend.network.operations.elementwise import Activation

SIZES = (6, 24, 2)


def people(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, SIZES[0])).astype(np.float32)
    chance = 1 / (1 + np.exp(-2 * (X[:, 0] + X[:, 1])))
    return X, (rng.random(rows) < chance).astype(np.int64)


def memory_of(X, y):
    """Return a network that knows its rows by heart: a wide random layer, and the head that fits them."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2 * len(X), X.shape[1])).astype(np.float32)
    bias = rng.normal(size=2 * len(X)).astype(np.float32)
    hidden = np.maximum(X @ weight.T + bias, 0)
    head = np.linalg.lstsq(hidden.astype(np.float64), 2.0 * y - 1, rcond=None)[0]
    return Network(
        [Affine(weight, bias), Affine(head[None].astype(np.float32), np.zeros(1, np.float32))], [Activation("relu")]
    )


def rule():
    """Return the network that decides by the sum that the labels depend on: nobody can know more about new rows."""
    weight = np.zeros((1, SIZES[0]), np.float32)
    weight[0, :2] = 1
    return Network([Affine(weight, np.zeros(1, np.float32))], [])


def test_a_network_that_is_better_on_the_data_than_on_test_rows_is_said():
    X, y = people(400, 1)
    net, (X_test, y_test) = memory_of(X, y), people(300, 2)
    (warning,) = training_warnings(ScoredRows.of(net, X), y, ScoredRows.of(net, X_test), y_test)
    assert "100 % of the 400 rows of the data" in warning.replace("\N{NO-BREAK SPACE}", " ")
    assert "probably rows that it was trained on" in warning


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_distribution_are_not_accused(seed):
    (X, y), (X_test, y_test) = people(400, seed), people(300, seed + 100)
    assert training_warnings(ScoredRows.of(rule(), X), y, ScoredRows.of(rule(), X_test), y_test) == []
    assert training_warnings(ScoredRows.of(rule(), X), y, ScoredRows.of(rule(), X), y) == []


def test_without_test_rows_a_network_of_the_same_shape_shows_what_can_be_known():
    X, y = people(600, 3)
    (warning,) = memory_warnings(ScoredRows.of(memory_of(X, y), X), y)
    assert "it was trained on these rows, or on many more" in warning
    assert "--test-data" in warning
    assert memory_warnings(ScoredRows.of(rule(), X), y) == []


def test_too_few_rows_or_one_class_are_not_tested():
    X, y = people(299, 3)
    net = memory_of(X, y)
    assert memory_warnings(ScoredRows.of(net, X), y) == []
    X, _ = people(600, 3)
    assert memory_warnings(ScoredRows.of(net, X), np.ones(600, np.int64)) == []


def test_errors_of_regression_are_compared():
    rng = np.random.default_rng(0)
    X, X_test = (rng.normal(size=(200, SIZES[0])).astype(np.float32) for _ in range(2))
    net = rule()
    y, y_test = (net.logits(rows).ravel() for rows in (X, X_test))
    noise, more = rng.normal(size=(2, 200))
    assert (
        training_warnings(ScoredRows.of(net, X), y + noise, ScoredRows.of(net, X_test), y_test + more, regression=True)
        == []
    )
    (warning,) = training_warnings(
        ScoredRows.of(net, X), y + noise, ScoredRows.of(net, X_test), y_test + 2 * more, regression=True
    )
    assert "root mean squared error" in warning
