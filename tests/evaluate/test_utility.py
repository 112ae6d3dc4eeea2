"""The figures mean what their names say."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from fairmend.base import arrays
from fairmend.base.errors import FairmendError
from fairmend.base.metrics import accuracy, balanced_accuracy, changed_rate, positive_rate
from fairmend.evaluate.utility import auc_by_chance, rank_class, regression_utility, utility, utility_of
from support.strategies import random_network

# Rankings are those of scikit-learn, with ties and in chunks.


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=40)


@given(rows=ROWS, chunk=st.sampled_from([1, 3, 7, 1000]))
def test_figures_are_those_of_scikit_learn(rows, chunk):
    true, scores = (np.array(side) for side in zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "CHUNK", chunk)
        found = rank_class(true, 1, scores.astype(np.float32))
    if (true == 1).all() or not (true == 1).any():
        assert found is None
        return
    assert found.auc == pytest.approx(roc_auc_score(true == 1, scores))
    assert found.average_precision == pytest.approx(average_precision_score(true == 1, scores))


def test_many_rows_are_sorted_in_temporary_files_and_left_as_they_are(monkeypatch):
    rng = np.random.default_rng(0)
    true, scores = rng.integers(0, 2, 500).astype(np.int8), rng.normal(size=500).astype(np.float32).round(1)
    expected, before = rank_class(true, 1, scores), scores.copy()
    monkeypatch.setattr(arrays, "_MEMORY", 0)
    assert rank_class(true, 1, scores) == expected
    assert np.array_equal(scores, before)


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


def auc_by_counting(y, scores):
    """The share of pairs of a positive and a negative row that are ranked right; ties count half."""
    up, down = scores[y == 1][:, None], scores[y == 0][None]
    return float(((up > down) + 0.5 * (up == down)).mean())


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs_ranked_right(rows):
    y, scores = (np.array(side) for side in zip(*rows, strict=True))
    logits = scores.astype(np.float32)
    figures = utility_of(logits, y)
    if len(set(y.tolist())) == 1:
        assert figures.auc is None
        assert figures.average_precision is None
        return
    assert figures.auc == pytest.approx(auc_by_counting(y, scores))
    assert 0 < figures.average_precision <= 1
    both = utility_of(np.stack([-logits, logits], axis=1), y)  # the same as two logits
    assert (both.auc, both.average_precision) == (figures.auc, figures.average_precision)


@given(st.lists(st.tuples(st.booleans(), st.floats(-4, 4, width=16)), min_size=2, max_size=60))
def test_ranking_figures_are_those_of_scikit_learn(rows):
    y, scores = (np.array(side) for side in zip(*rows, strict=True))
    figures = utility_of(scores.astype(np.float32), y.astype(int))
    if y.all() or not y.any():
        assert (figures.auc, figures.average_precision) == (None, None)
        return
    assert figures.auc == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert figures.average_precision == pytest.approx(average_precision_score(y, scores), abs=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("digits", [0, 1, 8])  # from many ties to none
def test_ranking_figures_of_many_rows_are_those_of_scikit_learn(classes, digits):
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(5_000, classes)).round(digits).astype(np.float32)
    y = rng.integers(0, classes, 5_000)
    wide = logits.astype(float)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    columns = {1: wide[:, 1] - wide[:, 0]} if classes == 2 else dict(enumerate(shares.T))
    figures = utility_of(logits, y)
    for found, metric in ((figures.auc, roc_auc_score), (figures.average_precision, average_precision_score)):
        assert found == pytest.approx(np.mean([metric(y == k, values) for k, values in columns.items()]), abs=1e-9)


def test_auc_of_several_classes_is_the_mean_of_each_against_the_rest():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(200, 4)).astype(np.float32), rng.integers(0, 3, 200)  # no row is of class 3
    shares = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum(axis=1, keepdims=True)
    by_hand = np.mean([auc_by_counting((y == k).astype(int), shares[:, k]) for k in range(3)])
    assert utility_of(logits, y).auc == pytest.approx(by_hand)
    assert utility_of(logits, np.zeros(200, int)).auc is None


def test_scores_without_a_relation_to_the_labels_stay_below_the_auc_by_chance_in_39_of_40_cases():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 == 0
    found, limit = [utility_of(rng.normal(size=60), y.astype(int)) for _ in range(2_000)], auc_by_chance(y, 1)
    assert auc_by_chance(y, 2) == limit
    assert np.mean([each.auc > limit for each in found]) == pytest.approx(0.025, abs=0.008)
    labels = np.arange(60) % 3
    several, limit = [utility_of(rng.normal(size=(60, 3)), labels) for _ in range(500)], auc_by_chance(labels, 3)
    assert np.mean([each.auc > limit for each in several]) <= 0.025, "the mean of classes varies less"
    assert auc_by_chance(np.zeros(5, int), 1) is None


def test_figures_load_neither_scikit_learn_nor_fairlearn_nor_torch():
    code = (
        "import sys, numpy as np\n"
        "from fairmend.evaluate.groups import group_metrics_of\n"
        "from fairmend.evaluate.labelled import LabelledRows\n"
        "from fairmend.evaluate.utility import utility_of\n"
        "from fairmend.spec import Feature, Spec\n"
        "y, predicted = np.array([0, 1, 0, 1]), np.array([0, 1, 1, 1])\n"
        "assert utility_of(np.array([-1.0, 1.0, 2.0, 3.0]), y).auc == 0.75\n"
        "spec = Spec([Feature('sex', 'categorical', categories=('f', 'm'), protected=True)])\n"
        "(found,) = group_metrics_of(spec, [(spec.features[0], np.array(['f', 'f', 'm', 'm']))], predicted, y)\n"
        "assert found.equalized_odds_difference == 1\n"
        "assert not {'sklearn', 'scipy', 'fairlearn', 'torch'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_of_a_regression_network_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    net = random_network(rng, 3, [4], 1)
    X, y = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=50)
    found, predicted = regression_utility(net.logits(X), y), net.logits(X)
    assert found.r2 == pytest.approx(r2_score(y, predicted))
    assert found.mean_absolute_error == pytest.approx(mean_absolute_error(y, predicted))
    assert found.root_mean_squared_error == pytest.approx(np.sqrt(mean_squared_error(y, predicted)))
    with pytest.raises(FairmendError, match="2 outputs"):
        regression_utility(np.zeros((3, 2)), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("outputs", [1, 2])
def test_figures_are_about_predictions_at_the_threshold(outputs):
    rng = np.random.default_rng(0)
    net, X, y = random_network(rng, 3, (4,), outputs), rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    probability = net.probabilities(X) if outputs == 1 else net.probabilities(X)[:, 1]
    found = utility(net.at_threshold(0.52), X, y)
    assert found.accuracy == pytest.approx(accuracy_score(y, probability >= 0.52))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, probability >= 0.52))
    assert found.positive_rate == np.mean(probability >= 0.52)
    assert found.auc == utility(net, X, y).auc
