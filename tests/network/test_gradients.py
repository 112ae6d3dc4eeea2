"""Backpropagation gives the derivatives that differences give."""

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.network.gradients import backward, forward


def test_the_gradient_of_a_sum_of_outputs_is_that_of_differences():
    rng = np.random.default_rng(0)
    layers = [Affine(rng.normal(size=shape), rng.normal(size=shape[0])) for shape in ((6, 4), (3, 6))]
    net, X = Network(layers, [Activation("tanh")]), rng.normal(size=(5, 4))
    values = forward(net, X)
    np.testing.assert_allclose(values[-1], net.logits(X))
    found = backward(net, values, {len(values) - 1: np.ones((5, 3))})
    for column in range(4):
        step = 1e-6 * np.eye(4)[column]
        slope = (net.logits(X + step) - net.logits(X - step)).sum(axis=1) / 2e-6
        np.testing.assert_allclose(found[:, column], slope, rtol=1e-5, atol=1e-7)
