"""The encoded network is the network, and its units stay within their intervals."""

import numpy as np
import pytest

from fairmend.network import Activation, Network
from fairmend.prove.certify import certify
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.prove.result import Verdict
from support.certify_cases import CONTINUOUS, affine
from support.strategies import random_network


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "identity"])
def test_units_stay_within_the_intervals_that_big_m_is_made_of(activation):
    rng = np.random.default_rng(0)
    spec = CONTINUOUS
    net = random_network(rng, 2, [8, 7, 6], activation=activation, dtype=np.float64)
    regions = spec.regions(spec.sample_inputs(5, rng, np.float64), np.float64)
    known = KernelBounds(net).function_intervals(regions.lower, regions.upper)
    t = rng.random((2000, 5, 2))
    points = regions.lower + t * (regions.upper - regions.lower)
    for layer, (low, high) in enumerate(known):
        until = Network(net.affines[: layer + 1], net.activations[:layer])
        values = until.logits(points.reshape(-1, 2)).reshape(2000, 5, -1)
        assert (values >= low - 1e-12).all()  # the values are rounded
        assert (values <= high + 1e-12).all()


def test_a_kink_that_is_crossed_by_very_little_is_not_stable():
    net = Network([affine([[1.0]], [-1.0], np.float64), affine([[1.0]], [0.0], np.float64)], [Activation("relu")])
    low, high = KernelBounds(net).function_intervals(np.array([[0.0]]), np.array([[1 + 1e-13]]))[0]
    assert low[0, 0] <= -1.0
    assert high[0, 0] >= 1e-13


def test_a_network_without_kinks_is_a_linear_program():
    net = Network(
        [affine([[1.0, 0.5], [0.5, 1.0]], [0.0, 0.0]), affine([[1.0, -1.0]], [0.6])], [Activation("identity")]
    )
    report = certify(net, CONTINUOUS, np.array([[0.5, 0.5], [1.0, 0.0]], np.float32), "milp")
    # f = 0.5 score - 0.5 income + 0.6 is at least 0.2 at income 0.8.
    assert report.verdicts == (Verdict.FAIR, Verdict.FAIR)
