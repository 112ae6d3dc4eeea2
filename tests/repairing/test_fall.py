"""The fall of balanced accuracy is estimated from labels and probabilities, better than from labels alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairmend.base.metrics import balanced_accuracy
from fairmend.network.decision import predicted_classes
from fairmend.repairing.fall import Fall, FallEstimate, class_probabilities

LABELLED, ROWS = 500, 3000


def two_features(rng, weight):
    """Return people, their classes, and the logits of a network that reads both features, and of one that reads one."""
    x, z = rng.normal(size=(2, ROWS))
    odds = 1.5 * x + weight * z - 0.5
    return (rng.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(np.int64), odds, (1.5 * x - 0.5)


def estimates(before, after, y, sure=1.0):
    """Return both estimates for an original with these logits, which are ``sure`` times what they should be."""
    logits = sure * before
    classes = logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0).astype(np.int64)
    task = SimpleNamespace(
        y_cal=y[:LABELLED],
        X_cal=np.zeros((LABELLED, 1)),
        X_unlabelled=np.zeros((ROWS - LABELLED, 1)),
        original_predictions=classes,
        network=SimpleNamespace(logits=lambda X: logits, decide=predicted_classes),
    )
    return FallEstimate(task)(after)


def estimate(before, after, y, sure=1.0):
    return estimates(before, after, y, sure)[1]


def fall(before, after, y):
    return balanced_accuracy(y, (before > 0).astype(np.int64)) - balanced_accuracy(y, (after > 0).astype(np.int64))


@pytest.mark.parametrize("sure", [1.0, 5.0])
@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_the_estimate_has_less_error_than_labels_alone_even_if_the_original_is_too_sure(weight, sure):
    errors, by_labels = [], []
    draws = (two_features(np.random.default_rng(seed), weight) for seed in range(100, 110))
    expected = np.mean([fall(before, after, y) for y, before, after in draws])
    for seed in range(40):
        y, before, after = two_features(np.random.default_rng(seed), weight)
        errors.append(estimate(before, after, y, sure).value - expected)
        by_labels.append(fall(before[:LABELLED], after[:LABELLED], y[:LABELLED]) - expected)
    assert np.sqrt(np.mean(np.square(errors))) < 0.85 * np.sqrt(np.mean(np.square(by_labels)))
    assert abs(np.mean(errors)) < 0.005


def test_nothing_changed_is_no_fall():
    y, before, _ = two_features(np.random.default_rng(0), 1.0)
    assert estimate(before, 2 * before, y) == Fall(0.0)


def test_labels_decide_where_they_contradict_the_probabilities():
    """All labels say that the candidate is right in the rows in which the original is most sure of itself."""
    y, before, _ = two_features(np.random.default_rng(0), 1.0)
    sure = before > 2
    after, y = np.where(sure, -before, before), np.where(sure, 0, y)
    by_labels = fall(before[:LABELLED], after[:LABELLED], y[:LABELLED])
    assert by_labels < -0.05
    assert estimate(before, after, y).value < by_labels / 2


def test_several_classes():
    rng = np.random.default_rng(0)
    before = rng.normal(size=(ROWS, 3))
    y = (before + rng.gumbel(size=before.shape)).argmax(axis=1)
    after = before.copy()
    after[:, 2] -= 0.8
    own, other = (balanced_accuracy(y, logits.argmax(axis=1)) for logits in (before, after))
    assert estimate(before, after, y).value == pytest.approx(own - other, abs=0.015)


def test_probabilities_correct_slope_and_offset():
    y, before, _ = two_features(np.random.default_rng(1), 1.0)
    odds = np.column_stack([np.zeros(ROWS), 4 * before + 3])
    found = class_probabilities([odds], y)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-before)), atol=0.05)


def test_labels_that_are_all_of_one_class_give_an_estimate():
    y, before, after = two_features(np.random.default_rng(1), 1.0)
    assert np.isfinite(estimate(before, after, np.ones_like(y)).value)


def test_the_more_decisions_change_the_less_is_known():
    y, before, after = two_features(np.random.default_rng(1), 1.0)
    few = np.where(np.arange(ROWS) % 10 == 0, after, before)
    many, some = (estimate(before, each, y) for each in (after, few))
    assert many.error > some.error > 0
    assert many.within(many.value)
    assert not many.within(many.value, errors=1.0)


def test_accuracy_can_fall_while_balanced_accuracy_gains():
    """A network that predicts the rare class for far more people finds more of them, and is wrong more often."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=ROWS)
    y = (rng.random(ROWS) < 1 / (1 + np.exp(2.5 - 1.2 * x))).astype(np.int64)
    before, after = 1.2 * x - 2.5, 1.2 * x - 0.6
    accuracy, balanced = estimates(before, after, y)
    assert (accuracy.measure, balanced.measure) == ("accuracy", "balanced accuracy")
    assert accuracy.value == pytest.approx(np.mean((before > 0) == y) - np.mean((after > 0) == y), abs=0.02)
    assert accuracy.value > 0.02 > 0 > balanced.value
