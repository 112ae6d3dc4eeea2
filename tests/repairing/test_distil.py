"""Distillation brings a blind network closer to the original, at any scale of the inputs, and never hurts it."""

import numpy as np
import pytest

from fairmend.network import Affine, Network
from fairmend.network.input_columns import fix_columns
from fairmend.repairing.blind import is_blind, zero_columns
from fairmend.repairing.distil import Student, distil
from support.strategies import random_network

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
