"""Training rows: labels and outputs are mixed; expected outputs are means over near rows."""

from importlib import import_module

import numpy as np
import pytest

from fairmend import Feature, Network, Spec
from fairmend.network import Affine
from fairmend.repairing.blind import columns_of
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.task import prepare_task
from fairmend.repairing.training_rows import expected_training_rows, training_rows
from fairmend.spec import Claim
from support.strategies import random_network

SPEC = Spec(
    [
        Feature("group", "integer", range=(0, 1), protected=True),
        Feature("age", "integer", range=(0, 40)),
        Feature("job", "categorical", categories=("a", "b", "c"), encoding="one-hot"),
    ]
)


def people(rows, *, group_of=lambda age, rng: rng.integers(2, size=len(age))):
    rng = np.random.default_rng(5)
    age = rng.integers(41, size=rows)
    return np.column_stack([group_of(age, rng), age, np.eye(3)[rng.integers(3, size=rows)]]).astype(np.float32)


def group_network():
    """Return a network whose score is 4 for group 1 and -4 for group 0."""
    return Network([Affine(np.array([[8, 0, 0, 0, 0]], np.float32), np.array([-4], np.float32))], [])


def task_of(X, network=None, labelled=40):
    y = np.arange(labelled) % 2
    return prepare_task(network or group_network(), SPEC, X[:4], X[:labelled], y, HeadOptions(), 0, None, X[labelled:])


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_targets_are_labels_or_the_original_outputs_or_between(weight):
    task = task_of(people(60))
    X, targets = training_rows(task, weight)
    assert len(X) == (40 if weight == 1 else 60)
    own = task.network.probabilities(X).astype(np.float64)
    np.testing.assert_allclose(targets[:40, 1], weight * task.y_cal + (1 - weight) * own[:40])
    np.testing.assert_allclose(targets[40:, 1], own[40:])
    np.testing.assert_allclose(targets.sum(axis=1), 1)


def test_targets_of_a_regression_are_numbers():
    rng = np.random.default_rng(0)
    spec = Spec([Feature("x", "continuous", range=(-9, 9), protected=True)], claim=Claim("score", 0.1, "output"))
    network, X, y = random_network(rng, 1, [4]), rng.normal(size=(9, 1)).astype(np.float32), np.arange(5.0)
    task = prepare_task(network, spec, X, X[:5], y, HeadOptions(), 0, None, X[5:])
    own = network.logits(X).astype(np.float64)[:, None]
    _, targets = training_rows(task, 0.25)
    np.testing.assert_allclose(targets[:5], 0.25 * y[:, None] + 0.75 * own[:5])
    np.testing.assert_allclose(targets[5:], own[5:])
    _, expected = expected_training_rows(task, [0], 0.0)
    np.testing.assert_allclose(expected, own.mean(), rtol=1e-5)


def test_what_others_say_about_an_ignored_feature_decides_the_target():
    """A group that depends on nothing is unknown; one that age tells is known, whatever a single row says."""
    ignored = columns_of(SPEC, SPEC.protected)
    _, unknown = expected_training_rows(task_of(people(400)), ignored, 0.0)
    assert abs(unknown[:, 1] - 0.5).mean() < 0.15
    X, known = expected_training_rows(task_of(people(400, group_of=lambda age, _: age > 20)), ignored, 0.0)
    clear = abs(X[:, 1] - 20.5) > 8
    assert clear.sum() > 100
    np.testing.assert_allclose(known[clear, 1], np.where(X[clear, 1] > 20, 0.98, 0.02), atol=0.01)


def test_many_rows_need_no_means(monkeypatch):
    X = people(30)
    task = task_of(X, labelled=10)
    rows, targets = expected_training_rows(task, [0], 0.5)
    np.testing.assert_array_equal(rows, np.concatenate([X, task.X_repair]))
    monkeypatch.setattr(import_module("fairmend.repairing.training_rows"), "FEW_ROWS", 20)
    rows, own = expected_training_rows(task, [0], 0.5)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(own, training_rows(task, 0.5)[1])
    assert abs(own - targets[:30]).max() > 0.1


def test_four_rows_are_enough():
    rows, targets = expected_training_rows(task_of(people(4), labelled=4), [0], 0.5)
    assert np.isfinite(rows).all()
    assert np.isfinite(targets).all()
