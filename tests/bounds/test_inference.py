"""Inference is never further from real arithmetic than its error bound says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.bounds.inference import inference_error
from fairmend.network import Activation, Affine, Network
from fairmend.prove.proof import prove_regions
from support.exact import KINKED, exact_logits
from support.repair_cases import random_regions, sampled
from support.strategies import ACTIVATIONS, networks, random_network


@settings(max_examples=60, deadline=None)
@given(networks(KINKED), st.integers(0, 2**32 - 1), st.integers(-12, 12), st.booleans())
def test_inference_is_never_further_from_the_truth_than_the_error_says(network, seed, magnitude, mixed):
    rng = np.random.default_rng(seed)
    if mixed:  # columns of very different sizes
        first = network.affines[0]
        sizes = (2.0 ** rng.integers(-20, 20, size=network.inputs)).astype(network.dtype)
        network = network.with_affines([Affine(first.weight * sizes, first.bias), *network.affines[1:]])
    x = (rng.normal(size=(1, network.inputs)) * 2.0**magnitude).astype(network.dtype)
    error = inference_error(network, x, x)[0]
    truth = exact_logits(network, x[0])
    order = rng.permutation(network.inputs)
    first = network.affines[0]
    permuted = Network(
        [Affine(first.weight[:, order], first.bias), *network.affines[1:]], network.activations, network.closing
    )
    for net, row in ((network, x), (permuted, x[:, order])):
        for computed, real, bound in zip(np.atleast_1d(net.logits(row)[0]), truth, error, strict=True):
            assert abs(Fraction(float(computed)) - real) <= Fraction(float(bound))


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_inference_of_curved_units_stays_within_the_error(activation):
    rng = np.random.default_rng(7)
    for size in (1e-3, 1.0, 30.0):
        network = random_network(rng, 5, [6, 4], 2, activation)
        X = (rng.normal(size=(50, 5)) * size).astype(np.float32)
        wide = network.astype(np.float64).logits(X)  # off by 1e-15, far less than the bound
        assert (np.abs(network.logits(X) - wide) <= inference_error(network, X, X) + 1e-13).all()


def test_the_error_over_a_box_covers_every_point_in_it():
    rng = np.random.default_rng(8)
    network = random_network(rng, 4, [5, 5], 2, "leaky_relu")
    regions = random_regions(rng, 4, 4, 5, width=4.0, dtype=np.float32)
    error = inference_error(network, regions.lower, regions.upper)
    points, owner = sampled(regions, rng)
    points = points.astype(np.float32)
    off = np.abs(network.logits(points) - network.astype(np.float64).logits(points))
    assert (off <= error[owner]).all()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_an_overflow_in_float32_is_an_infinite_error(activation):
    big = np.full((1, 2), 3e38, np.float32)
    network = Network([Affine(big, np.zeros(1, np.float32)), Affine(big[:, :1] / 3e38, big[0, :1] * 0)], [activation])
    x = np.array([[1.0, 1.0]], np.float32)
    assert np.isinf(inference_error(network, x, x)).all()
    proof = prove_regions(network, random_regions(np.random.default_rng(0), 2, 1, 2, dtype=np.float32))
    assert not proof.covers_inference[np.isinf(proof.error)].any()
    assert not np.isnan(proof.margin).any()
    assert not np.isnan(proof.error).any()


def test_an_intermediate_overflow_that_cancels_is_an_infinite_error():
    first = Affine(np.array([[3e38, 3e38, -3e38, -3e38]], np.float32), np.ones(1, np.float32))
    network = Network([first, Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [Activation("relu")])
    x = np.ones((1, 4), np.float32)
    assert np.isinf(inference_error(network, x, x)).all()
