"""The re-check: what it proves is so at every point there is, in real arithmetic and in floating point."""

import numpy as np
import pytest

from fairmend import Feature, Spec
from fairmend.bounds.inference import closing_error, inference_error, lead_error
from fairmend.network import Activation, Affine, Network
from fairmend.prove.proof import Proof, prove_points, prove_regions
from support.repair_cases import random_regions, sampled
from support.strategies import ACTIVATIONS, random_network

each_activation = pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)


def finite_spec():
    return Spec(
        [
            Feature("age", "integer", range=(0, 5), protected=True, scale={"mean": 2.5, "std": 1.7}),
            Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
            Feature("hours", "integer", range=(0, 9), tolerance=1, scale={"min": 0, "max": 9}),
            Feature("score", "continuous", range=(-1, 1)),
        ]
    )


def proofs(network, spec, X):
    return prove_regions(network, spec.regions(X, network.dtype)), prove_points(network, spec, X)


def true_margins(network, spec, X, classes):
    """The smallest lead of the class over each neighbourhood, in float64, by enumeration."""
    rows, points = next(spec.points(X, dtype=network.dtype))
    logits = network.astype(np.float64).logits(points)
    label = classes[rows]
    if logits.ndim == 1:
        lead = np.where(label == 1, logits, -logits)
    else:
        own = logits[np.arange(len(rows)), label]
        logits[np.arange(len(rows)), label] = -np.inf
        lead = own - logits.max(axis=1)
    least = np.full(len(X), np.inf)
    np.minimum.at(least, rows, lead)
    return least, rows, points


def around_the_decision(network, X):
    """The network with a head's bias that puts the middle of X's logits at 0, and the score, which is fixed, larger."""
    first = network.affines[0]
    larger = np.where(np.arange(network.inputs) == network.inputs - 1, 4, 0.3).astype(network.dtype)
    network = network.with_affines([Affine(first.weight * larger, first.bias), *network.affines[1:]])
    middle = np.median(network.logits(X).reshape(len(X), -1), axis=0)
    head = Affine(network.head.weight, network.head.bias - middle)
    return network.with_affines([*network.affines[:-1], head])


@each_activation
@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_proven_class_is_the_class_of_every_point(activation, outputs, dtype):
    spec, proven, unequal = finite_spec(), 0, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        network = random_network(rng, spec.width, [[4], [5, 3]][seed % 2], outputs, activation, dtype)
        X = spec.sample_inputs(12, rng, dtype)
        network = around_the_decision(network, X)
        for proof in proofs(network, spec, X):
            least, rows, points = true_margins(network, spec, X, proof.classes)
            answers = network.predict(points)
            assert (proof.margin <= least + 1e-9 * (1 + np.abs(least))).all()
            assert (least[proof.holds] > 0).all()
            assert (answers == proof.classes[rows])[proof.covers_inference[rows]].all()
            proven += int(proof.covers_inference.sum())
            unequal += int((least < 0).sum())
    assert proven
    assert unequal


@each_activation
def test_points_prove_whatever_regions_prove_and_with_no_smaller_margin(activation):
    spec, rng = finite_spec(), np.random.default_rng(5)
    network = random_network(rng, spec.width, [5, 4], 3, activation)
    X = spec.sample_inputs(20, rng)
    boxes, points = proofs(network, spec, X)
    assert (points.margin >= boxes.margin - 1e-9).all()
    assert (points.error <= boxes.error * (1 + 1e-6)).all()
    assert (points.classes == boxes.classes)[boxes.holds].all()


@each_activation
@pytest.mark.parametrize("outputs", [1, 3])
def test_no_sampled_point_of_a_continuous_region_gets_another_class(activation, outputs):
    rng = np.random.default_rng(6)
    network = random_network(rng, 4, [6, 4], outputs, activation)
    regions = random_regions(rng, 4, 3, 30, pieces=2, width=0.3, dtype=np.float32)
    proof = prove_regions(network, regions)
    assert proof.holds.any()
    points, owner = sampled(regions, rng)
    answers = network.predict(points.astype(np.float32))
    assert (answers == proof.classes[owner])[proof.covers_inference[owner]].all()


@pytest.mark.parametrize("value", range(7))
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kind", ["ordinal", "one-hot"])
def test_one_value_of_a_protected_feature_that_is_treated_otherwise_is_never_missed(value, outputs, kind):
    """A network that says 1 everywhere but at one value of age, where a spike of height 2 takes it to -1."""
    if kind == "ordinal":
        spec = Spec(
            [Feature("age", "integer", range=(0, 6), protected=True), Feature("hours", "continuous", range=(0, 1))]
        )
        away = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
        first = Affine(away, -np.array([value - 1.0, value, value + 1.0]))
        spike = np.array([[-2.0, 4.0, -2.0]])
    else:
        names = tuple("abcdefg")
        spec = Spec([Feature("age", "categorical", categories=names, encoding="one-hot", protected=True)])
        first, spike = Affine(np.eye(7)[[value]], np.zeros(1)), np.array([[-2.0]])
    bias = np.ones(1)
    if outputs == 2:
        spike, bias = np.vstack([-spike, spike]) / 2, np.array([-0.5, 0.5])
    network = Network([first, Affine(spike, bias)], [Activation("relu")])
    X = spec.sample_inputs(5, np.random.default_rng(value), np.float64)
    least, _, points = true_margins(network, spec, X, np.ones(5, dtype=np.int64))
    np.testing.assert_array_equal(least, -1)
    assert (network.predict(points) == 0).sum() == 5
    for proof in proofs(network, spec, X):
        assert not proof.holds.any()


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_tie_is_never_proven(outputs):
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True)])
    network = Network([Affine(np.zeros((outputs, 1)), np.zeros(outputs))], [])
    for proof in proofs(network, spec, np.zeros((1, 1))):
        assert not proof.holds.any()


def test_float64_inputs_are_not_rounded_before_the_proof():
    spec = Spec([Feature("x", "continuous", range=(0, 1)), Feature("a", "integer", range=(0, 1), protected=True)])
    network = Network(
        [Affine(np.array([[1e9, 2.0]]), np.array([-1e8 - 1])), Affine(np.ones((1, 1)), np.zeros(1))],
        [Activation("identity")],
    )
    X = np.array([[0.1, 0.0]])
    assert network.predict([[0.1, 0.0], [0.1, 1.0]]).tolist() == [0, 1]
    for proof in proofs(network, spec, X):
        assert not proof.holds.any()


def test_the_cancellation_of_large_weights_is_not_taken_for_a_margin():
    """In real arithmetic the logit is 1 at a = 0 and -1 at a = 1; in float32 the big terms swallow both."""
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(0, 1))])
    first = Affine(np.array([[0, 1e9], [-2, 1e9]], np.float32), np.array([1, 0], np.float32))
    head = Affine(np.array([[-1, 1]], np.float32), np.array([2], np.float32))
    network = Network([first, head], [Activation("identity")])
    X = np.array([[0.0, 1.0]], np.float32)
    for proof in proofs(network, spec, X):
        assert not proof.holds.any()
        assert proof.error[0] > 10


def test_several_classes_count_the_error_of_their_differences():
    rng = np.random.default_rng(9)
    network = random_network(rng, 3, [4], 3)
    regions = random_regions(rng, 3, 1, 5, dtype=np.float32)
    proof = prove_regions(network, regions)
    error = lead_error(network, regions.lower, regions.upper, proof.classes)
    np.testing.assert_allclose(proof.error, error + closing_error(network, proof.classes), rtol=1e-6)
    assert (error < 2 * inference_error(network, regions.lower, regions.upper).max(axis=1)).all()


def test_a_union_is_proven_only_if_all_its_pieces_are():
    network = Network([Affine(np.ones((1, 1)), np.zeros(1))], [])
    lower = np.array([[1.0], [2.0], [-1.0], [3.0], [-3.0], [-2.0]])
    from fairmend.spec.neighbourhoods import Regions

    proof = prove_regions(network, Regions(lower, lower + 0.5, np.array([0, 0, 1, 1, 2, 2]), 3))
    assert proof.holds.tolist() == [True, False, True]
    assert proof.classes[[0, 2]].tolist() == [1, 0]
    np.testing.assert_allclose(proof.margin[[0, 2]], [1.0, 1.5], atol=1e-9)


def test_margins_decide_what_holds_and_what_covers():
    proof = Proof(np.zeros(4, np.int64), np.array([-1.0, 0.0, 1.0, 3.0]), np.array([0.0, 0.0, 1.0, 2.0]))
    assert proof.holds.tolist() == [False, False, True, True]
    assert proof.covers_inference.tolist() == [False, False, False, True]
