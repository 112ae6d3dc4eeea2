"""Distillation brings a blind network closer to the original, at any scale of the inputs, and never hurts it."""

from importlib import import_module

import numpy as np
import pytest

from fairmend import Feature, Spec
from fairmend.network import Affine, Network
from fairmend.network.input_columns import fix_columns
from fairmend.repairing.blind import columns_of, is_blind, zero_columns
from fairmend.repairing.distil import Student, distil, expected_training_rows, training_rows
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.task import prepare_task
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
    monkeypatch.setattr(import_module("fairmend.repairing.distil"), "FEW_ROWS", 20)
    rows, own = expected_training_rows(task, [0], 0.5)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(own, training_rows(task, 0.5)[1])
    assert abs(own - targets[:30]).max() > 0.1


def test_four_rows_are_enough():
    rows, targets = expected_training_rows(task_of(people(4), labelled=4), [0], 0.5)
    assert np.isfinite(rows).all()
    assert np.isfinite(targets).all()


COLUMNS = [0]


def lesson(seed, outputs=1, scale=1.0, rows=300, dtype=np.float32):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4, (8, 6), outputs, "relu", dtype)
    X = rng.normal(size=(rows, 4)).astype(dtype)
    X[:, 0] = 0.7 * X[:, 1] + 0.3 * X[:, 0]
    factors = np.array([1, 1, scale, 1], dtype)
    first = network.affines[0]
    network = network.with_affines([Affine(first.weight / factors, first.bias), *network.affines[1:]])
    X *= factors
    blind = fix_columns(network, COLUMNS, np.zeros(1))
    targets = network.probabilities(X).astype(np.float64)
    targets = np.column_stack([1 - targets, targets]) if targets.ndim == 1 else targets
    return network, Student(blind, zero_columns(X, COLUMNS), targets)


def loss(network, student):
    probabilities = network.probabilities(student.X).astype(np.float64)
    if probabilities.ndim == 1:
        probabilities = np.column_stack([1 - probabilities, probabilities])
    return -(student.targets * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1).mean()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_student_comes_closer_to_the_teacher_and_stays_blind(outputs, scale):
    _, student = lesson(1, outputs, scale)
    (trained,) = distil([student], COLUMNS, steps=80)
    assert loss(trained, student) < loss(student.network, student) - 0.005
    assert is_blind(trained, COLUMNS)
    assert trained.dtype == student.network.dtype


def test_every_row_teaches():
    rows = 20
    wanted = np.arange(rows) % 2
    network = Network([Affine(np.zeros((1, rows)), np.zeros(1))], [])
    (trained,) = distil([Student(network, np.eye(rows), np.eye(2)[wanted])], [], steps=100)
    np.testing.assert_array_equal(trained.predict(np.eye(rows)), wanted)


def test_networks_that_are_trained_together_do_not_affect_each_other():
    _, first = lesson(2)
    _, second = lesson(3)
    together = distil([first, second], COLUMNS, steps=60)
    for trained, student in zip(together, (first, second), strict=True):
        assert loss(trained, student) < loss(student.network, student)


def test_a_training_that_diverges_changes_nothing():
    _, student = lesson(4)
    (trained,) = distil([student], COLUMNS, steps=20, learning_rate=1e30)
    for after, before in zip(trained.affines, student.network.affines, strict=True):
        np.testing.assert_allclose(after.weight, before.weight, atol=1e-5)
        np.testing.assert_allclose(after.bias, before.bias, atol=1e-5)


def test_the_same_seed_gives_the_same_network_and_no_steps_give_the_start():
    _, student = lesson(5, dtype=np.float64)
    first, second = (distil([student], COLUMNS, steps=10, seed=7)[0] for _ in range(2))
    assert first == second
    (start,) = distil([student], COLUMNS, steps=0)
    np.testing.assert_allclose(start.logits(student.X), student.network.logits(student.X), atol=1e-10)


def test_one_row_is_enough():
    _, student = lesson(6, rows=1)
    (trained,) = distil([student], COLUMNS, steps=5)
    assert np.isfinite(trained.logits(student.X)).all()


def test_layers_without_a_bias_are_trained_without_one():
    rng = np.random.default_rng(5)
    network, student = lesson(1, scale=1000.0)
    bare = Network([Affine.without_bias(a.weight) for a in network.affines], network.activations)
    X = student.X + np.float32([0, 0, 2000, 0])
    targets = np.column_stack([1 - rng.random(len(X)), rng.random(len(X))])
    own = Student(fix_columns(bare, COLUMNS, np.ones(1)), X, targets)
    (trained,) = distil([own], COLUMNS, steps=40)
    assert loss(trained, own) < loss(own.network, own)
    assert is_blind(trained, COLUMNS)
    assert not any(affine.bias.any() or affine.stores_bias for affine in trained.affines)
