"""Proofs of scores: no member of a neighbourhood has a score outside of the bounds, in real arithmetic or inference."""

import numpy as np
import pytest

from fairmend import Feature, Spec
from fairmend.network import Activation, Affine, Network
from fairmend.network.scores import compute_scores
from fairmend.prove.proof import HEADROOM
from fairmend.prove.score_proof import ScoreProof, prove_scores_at_points, prove_scores_over_regions
from fairmend.spec import Claim
from support.strategies import ACTIVATIONS, random_network

FEATURES = (
    Feature("age", "integer", range=(0, 5), protected=True, scale={"mean": 2.5, "std": 1.7}),
    Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
    Feature("hours", "integer", range=(0, 9), tolerance=1, scale={"min": 0, "max": 9}),
    Feature("score", "continuous", range=(-1, 1)),
)
SPEC = Spec(FEATURES)


def proofs(network, X, claim):
    regions = SPEC.regions(X, network.dtype)
    return prove_scores_over_regions(network, regions, claim), prove_scores_at_points(network, SPEC, X, claim)


def ranges(values, rows, count):
    low, high = np.full((2, count, values.shape[1]), np.nan)
    for row in range(count):
        low[row], high[row] = values[rows == row].min(axis=0), values[rows == row].max(axis=0)
    return low, high


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_every_score_lies_within_the_proven_bounds(activation, outputs, on):
    for seed, dtype in enumerate((np.float32, np.float64)):
        rng = np.random.default_rng(seed)
        network = random_network(rng, SPEC.width, [6, 4], outputs, activation, dtype)
        X = SPEC.sample_inputs(5, rng, dtype)
        rows, points = next(SPEC.points(X, dtype=dtype))
        wide = network.astype(np.float64)
        raw = wide.logits(points.astype(np.float64)).reshape(len(points), -1)
        exact = compute_scores(wide, points.astype(np.float64), on).reshape(len(points), -1)
        computed = compute_scores(network, points, on).reshape(len(points), -1).astype(np.float64)
        stated = exact if on == "probability" and outputs > 1 else raw
        for proof in proofs(network, X, Claim("score", 0.5, on)):
            low, high = ranges(stated, rows, 5)
            assert (proof.low <= low).all()
            assert (proof.high >= high).all()
            assert (np.subtract(*ranges(exact, rows, 5)[::-1]).max(axis=1) <= proof.spread).all()
            assert (np.subtract(*ranges(computed, rows, 5)[::-1]).max(axis=1) <= proof.spread + proof.error).all()


def test_points_are_at_least_as_tight_as_boxes():
    rng = np.random.default_rng(3)
    network = random_network(rng, SPEC.width, [6, 4], 3)
    X = SPEC.sample_inputs(6, rng)
    for on in ("logit", "probability"):
        boxes, points = proofs(network, X, Claim("score", 0.5, on))
        assert (points.spread <= boxes.spread + 1e-9).all()


def test_what_holds_is_what_delta_allows():
    spread, error = np.array([0.04, 0.05, 0.0499, 0.06]), np.array([1e-3, 0.0, 1e-3, 0.0])
    ends = np.zeros((4, 1))
    proof = ScoreProof(ends, ends, spread, error, 0.05)
    assert proof.holds.tolist() == [True, True, True, False]
    assert proof.covers_inference.tolist() == [True, True, False, False]
    np.testing.assert_allclose(proof.margin, 0.05 - spread)
    assert proof.subset(np.array([3])).holds.tolist() == [False]
    assert HEADROOM > 1


def test_a_network_that_ignores_all_that_varies_has_no_spread():
    proof = ScoreProof.by_blindness(np.array([1.0, -2.0]), Claim("score", 0.1, "logit"))
    assert proof.low.shape == proof.high.shape == (2, 1)
    assert proof.covers_inference.all()
    assert not proof.spread.any()


def test_numbers_that_overflow_prove_nothing():
    huge = np.full((1, SPEC.width), 1e38, np.float32)
    network = Network([Affine(huge, np.zeros(1, np.float32)), Affine(huge[:, :1], -np.ones(1, np.float32) * 1e38)],
                      [Activation("relu")])  # fmt: skip
    X = SPEC.sample_inputs(3, np.random.default_rng(0))
    for on in ("logit", "probability"):
        for proof in proofs(network, X, Claim("score", 0.9, on)):
            assert not proof.covers_inference.any()
            assert np.isfinite(proof.low[proof.holds]).all()
            assert np.isfinite(proof.high[proof.holds]).all()
