"""The re-check: what it proves is so at every point there is, in real arithmetic and in floating point."""

import numpy as np
import pytest

from fairmend import Feature, Spec
from fairmend.network import Activation, Affine, Network
from fairmend.network.model import compute_scores
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.prove.proof import Proof, prove_inputs
from fairmend.spec import Claim
from fairmend_check import check
from support.strategies import ACTIVATIONS, random_network

each_activation = pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)


def finite_spec(claim=None):
    return Spec(
        [
            Feature("age", "integer", range=(0, 5), protected=True, scale={"mean": 2.5, "std": 1.7}),
            Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
            Feature("hours", "integer", range=(0, 9), tolerance=1, scale={"min": 0, "max": 9}),
            Feature("score", "continuous", range=(-1, 1)),
        ],
        claim=claim or Claim(),
    )


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
        proof = prove_inputs(network, spec, X)
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
@pytest.mark.parametrize("outputs", [1, 3])
def test_no_sampled_point_of_a_continuous_neighbourhood_gets_another_class(activation, outputs):
    features = [Feature(name, "continuous", range=(-1, 1), tolerance=0.1, protected=False) for name in "abc"]
    spec = Spec([*features, Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)])
    rng = np.random.default_rng(6)
    network = random_network(rng, spec.width, [6, 4], outputs, activation)
    X = spec.sample_inputs(30, rng)
    proof = prove_inputs(network, spec, X)
    assert proof.holds.any()
    for row in np.flatnonzero(proof.covers_inference):
        points = np.tile(X[row], (200, 1))
        points[:, :3] = np.clip(points[:, :3] + rng.uniform(-0.1, 0.1, (200, 3)), -1, 1) * 0.999
        points[100:, 3:] = 1 - points[100:, 3:]
        assert (network.predict(points.astype(np.float32)) == proof.classes[row]).all()


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
    assert not prove_inputs(network, spec, X).holds.any()


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_a_tie_is_never_proven(outputs):
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True)])
    network = Network([Affine(np.zeros((outputs, 1)), np.zeros(outputs))], [])
    assert not prove_inputs(network, spec, np.zeros((1, 1))).holds.any()


def test_float64_inputs_are_not_rounded_before_the_proof():
    spec = Spec([Feature("x", "continuous", range=(0, 1)), Feature("a", "integer", range=(0, 1), protected=True)])
    network = Network(
        [Affine(np.array([[1e9, 2.0]]), np.array([-1e8 - 1])), Affine(np.ones((1, 1)), np.zeros(1))],
        [Activation("identity")],
    )
    X = np.array([[0.1, 0.0]])
    assert network.predict([[0.1, 0.0], [0.1, 1.0]]).tolist() == [0, 1]
    assert not prove_inputs(network, spec, X).holds.any()


def test_the_cancellation_of_large_weights_is_not_taken_for_a_margin():
    """In real arithmetic the logit is 1 at a = 0 and -1 at a = 1; in float32 the big terms swallow both."""
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(0, 1))])
    first = Affine(np.array([[0, 1e9], [-2, 1e9]], np.float32), np.array([1, 0], np.float32))
    head = Affine(np.array([[-1, 1]], np.float32), np.array([2], np.float32))
    network = Network([first, head], [Activation("identity")])
    X = np.array([[0.0, 1.0]], np.float32)
    proof = prove_inputs(network, spec, X)
    assert not proof.holds.any()
    assert proof.error[0] > 10


@pytest.mark.parametrize("claim", [Claim(), Claim("score", 0.08, "probability"), Claim("score", 0.4, "logit")])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_checker_confirms_what_is_proven_and_nothing_else(claim, outputs, tmp_path):
    spec, rng = finite_spec(claim), np.random.default_rng(2)
    X = spec.sample_inputs(12, rng)
    network = around_the_decision(random_network(rng, spec.width, [6, 4], outputs), X)
    proof = prove_inputs(network, spec, X)
    assert proof.covers_inference.any()
    assert not proof.covers_inference.all()
    network.save(tmp_path / "model.onnx")
    for row in range(len(X)):
        one = np.array([row])
        certificate = certificate_of_inputs(network, spec, X[one], proof.subset(one), method="prof")
        certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        found = check(tmp_path / "certificate.json", tmp_path / "model.onnx", real=True)
        assert found.valid == proof.holds[row]


@each_activation
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_scores_of_a_neighbourhood_differ_by_no_more_than_is_proven(activation, outputs, on):
    spec = finite_spec(Claim("score", 0.5, on))
    for seed, dtype in enumerate((np.float32, np.float64)):
        rng = np.random.default_rng(seed)
        network = random_network(rng, spec.width, [6, 4], outputs, activation, dtype)
        X = spec.sample_inputs(5, rng, dtype)
        rows, points = next(spec.points(X, dtype=dtype))
        proof = prove_inputs(network, spec, X)
        assert proof.classes is None
        for net, error in ((network.astype(np.float64), 0.0), (network, proof.error)):
            scores = compute_scores(net, points.astype(net.dtype), on).reshape(len(points), -1).astype(np.float64)
            found = np.array([np.ptp(scores[rows == row], axis=0).max() for row in range(5)])
            assert (found <= 0.5 - proof.margin + error + 1e-12).all()


def test_a_network_that_ignores_all_that_varies_is_proven():
    network = random_network(np.random.default_rng(0), 2, [3], 1)
    scores = Proof.by_blindness(network, Claim("score", 0.1, "logit"), np.zeros((2, 2)))
    classes = Proof.by_blindness(network, Claim(), np.zeros((2, 2)))
    assert scores.covers_inference.all()
    assert scores.margin.tolist() == [0.1, 0.1]
    assert classes.classes.tolist() == network.predict(np.zeros((2, 2))).tolist()
    assert classes.subset(np.array([1])).margin.tolist() == [np.inf]


@each_activation
def test_an_overflow_in_float32_is_an_infinite_error(activation):
    big = np.full((1, 2), 3e38, np.float32)
    network = Network([Affine(big, np.zeros(1, np.float32)), Affine(big[:, :1] / 3e38, big[0, :1] * 0)], [activation])
    x = np.array([[0.1, 0.1]], np.float32)
    assert np.isinf(KernelBounds(network).output_error(10 * x, 10 * x)).all()
    spec = Spec([Feature(name, "continuous", range=(0, 1), protected=True) for name in "ab"])
    proof = prove_inputs(network, spec, x)
    assert not proof.covers_inference.any()
    assert np.isinf(proof.error).all()
    assert not np.isnan(proof.margin).any()


def test_an_intermediate_overflow_that_cancels_is_an_infinite_error():
    first = Affine(np.array([[3e38, 3e38, -3e38, -3e38]], np.float32), np.ones(1, np.float32))
    network = Network([first, Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [Activation("relu")])
    x = np.ones((1, 4), np.float32)
    assert np.isinf(KernelBounds(network).output_error(x, x)).all()


def test_numbers_that_overflow_prove_nothing():
    huge = np.full((1, finite_spec().width), 1e38, np.float32)
    network = Network([Affine(huge, np.zeros(1, np.float32)), Affine(huge[:, :1], -np.ones(1, np.float32) * 1e38)],
                      [Activation("relu")])  # fmt: skip
    for claim in (Claim(), Claim("score", 0.9, "logit"), Claim("score", 0.9, "probability")):
        spec = finite_spec(claim)
        X = spec.sample_inputs(3, np.random.default_rng(0))
        proof = prove_inputs(network, spec, X * 0)
        assert not proof.covers_inference.any()


def test_an_input_that_is_none_is_not_proven_and_costs_the_others_nothing():
    spec = Spec([Feature("a", "integer", range=(0, 40), protected=True), Feature("b", "continuous", range=(0, 1))])
    network = Network([Affine(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2)), Affine(np.ones((1, 2)), np.ones(1))],
                      [Activation("relu")])  # fmt: skip
    proof = prove_inputs(network, spec, np.array([[3.0, 0.5], [99.0, 0.5]]))
    assert proof.holds.tolist() == [True, False]
