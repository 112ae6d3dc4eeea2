"""The figures mean what their names say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.errors import FairmendError
from fairmend.utility import accuracy, balanced_accuracy, changed_rate, positive_rate, utility
from strategies import random_network

Y = [1, 1, 1, 0]


def test_figures_by_hand():
    predicted = [1, 0, 1, 1]
    assert accuracy(Y, predicted) == 0.5
    assert balanced_accuracy(Y, predicted) == pytest.approx((2 / 3 + 0) / 2)
    assert positive_rate(predicted) == 0.75
    assert changed_rate(Y, predicted) == 0.5


@given(st.lists(st.integers(0, 3), min_size=1))
def test_a_constant_answer_is_balanced_at_one_over_the_classes(y):
    assert balanced_accuracy(y, [y[0]] * len(y)) == pytest.approx(1 / len(set(y)))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1))
def test_balanced_equals_plain_accuracy_where_classes_are_equally_many(pairs):
    y, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    counts = np.unique(y, return_counts=True)[1]
    if len(set(counts.tolist())) == 1:
        assert balanced_accuracy(y, predicted) == pytest.approx(accuracy(y, predicted))
    assert changed_rate(y, y) == 0


@pytest.mark.parametrize(("outputs", "known"), [(1, True), (2, True), (3, False)])
def test_only_two_classes_have_a_positive_one(outputs, known):
    rng = np.random.default_rng(0)
    net, X = random_network(rng, 3, [4], outputs), rng.normal(size=(40, 3)).astype(np.float32)
    figures = utility(net, X, net.predict(X))
    assert (figures.accuracy, figures.balanced_accuracy) == (1, 1)
    assert (figures.positive_rate is not None) == known
    if known:
        assert figures.positive_rate == net.predict(X).mean()


@pytest.mark.parametrize(
    ("y", "predicted", "message"),
    [
        ([], [], "at least one row"),
        ([1, 0], [1], "2 true and 1 predicted"),
        ([[1], [0]], [1, 0], "one class per row"),
        ([0.5, 1.0], [1, 0], "not class numbers"),
        (["yes", "no"], [1, 0], "not class numbers"),
    ],
)
def test_what_is_no_list_of_classes_is_refused(y, predicted, message):
    with pytest.raises(FairmendError, match=message):
        accuracy(y, predicted)


def test_whole_floats_are_classes():
    assert accuracy([1.0, 0.0], [1, 0]) == 1
