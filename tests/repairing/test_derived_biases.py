"""Biases that no layer stores follow from the weights, in training and for several networks at once."""

import numpy as np
import torch

from fairmend.base.gpu import CPU
from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Fold, Norm
from fairmend.repairing.derived_biases import DerivedBiases

RNG = np.random.default_rng(4)


def network():
    """Return a network whose second layer has a bias, whose first has none, and whose last has a norm before it."""
    norm = Norm("bn", RNG.normal(size=2), np.full(2, 2.0), RNG.normal(size=2), RNG.normal(size=2), 1e-5, "bn")
    head = Affine.from_fold(Fold(RNG.normal(size=(1, 2)), None, (norm,), (), "here"))
    first, second = Affine.without_bias(RNG.normal(size=(3, 2))), Affine(RNG.normal(size=(2, 3)), RNG.normal(size=2))
    return Network([first, second, head], [Activation("relu")] * 2)


def test_the_biases_of_the_layers_as_they_are_are_their_own():
    net = network()
    given = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in net.affines]
    found = DerivedBiases(net, torch.float64, CPU).replace(given)
    for (weight, bias), affine in zip(found, net.affines, strict=True):
        np.testing.assert_array_equal(weight, affine.weight)
        np.testing.assert_allclose(bias, affine.bias, atol=1e-12)
    assert found[1][1] is given[1][1]


def test_changed_weights_of_several_networks_give_what_can_be_stored():
    net = network()
    weights = [torch.tensor(RNG.normal(size=(4, *a.weight.shape))) for a in net.affines]
    biases = [torch.ones((4, len(a.bias)), dtype=torch.float64) for a in net.affines]
    found = DerivedBiases(net, torch.float64, CPU).replace(list(zip(weights, biases, strict=True)))
    for k in range(4):
        own = [Affine(weight[k].numpy(), bias[k].numpy()) for weight, bias in found]
        for stored, affine in zip(net.with_affines(own).affines, own, strict=True):
            np.testing.assert_allclose(stored.weight, affine.weight, rtol=1e-12)
            np.testing.assert_allclose(stored.bias, affine.bias, atol=1e-12)
