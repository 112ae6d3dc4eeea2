"""Affine layers whose matrix repeats what is stored for it."""

import numpy as np
import pytest
import torch

from fairmend import FairmendError
from fairmend.network import Activation, Affine, Network, Node
from fairmend.network.operations import Input
from fairmend.network.operations.ties import Tie
from fairmend.repairing.training import Parameters


def layer(tie, seed=0, bias=True):
    random = np.random.default_rng(seed)
    weight = random.normal(size=(tie.blocks, tie.outputs, tie.inputs)).astype(np.float32)
    biases = random.normal(size=tie.bias_places.max() + 1).astype(np.float32)
    return Affine.from_tie(tie, weight, biases if bias else None), weight, biases


def test_the_matrix_is_that_of_the_product_by_blocks_and_tokens():
    affine, weight, bias = layer(Tie(2, 3, blocks=2, tokens=4))
    x = np.random.default_rng(1).normal(size=24).astype(np.float32)
    expected = np.einsum("boi,bti->bto", weight, x.reshape(2, 4, 3)) + bias.reshape(2, 1, 2)
    assert np.allclose(affine.weight @ x + affine.bias, expected.reshape(-1), atol=1e-6)
    assert affine.size == 12 + 4
    assert affine.weights.tolist() == [*weight.reshape(-1).tolist(), *bias.tolist()]


def test_the_closest_layer_has_the_mean_and_keeps_equal_numbers_to_the_bit():
    affine, weight, _ = layer(Tie(2, 3, tokens=7))
    assert Affine(affine.weight, affine.bias).stored_as(affine) == affine
    moved = affine.weight.copy()
    moved[0, 0] += 7
    moved[0, 5] = 1  # always 0
    found = Affine(moved, affine.bias).stored_as(affine)
    assert found.tie == affine.tie
    assert np.allclose(found.weight[0, :3], [weight[0, 0, 0] + 1, *weight[0, 0, 1:]], atol=1e-6)
    assert found.weight[0, 5] == 0


def test_a_layer_without_weights_gives_its_bias():
    affine = Affine.from_tie(Tie(3, 2, own_bias=True, weighted=False), np.zeros(0, np.float32), np.ones(3, np.float32))
    assert affine.size == 3
    assert affine.stored("cls")[0].weight.size == 0
    assert not affine.weight.any()


def test_a_matrix_that_is_too_large_is_refused_by_its_size():
    with pytest.raises(FairmendError, match=r"\(64, 64\) for 512 groups of columns.*1,073,741,824 numbers"):
        Tie(64, 64, tokens=512)


def test_parameters_train_each_stored_number_once():
    tie = Tie(2, 2, tokens=2, key="fc")
    first, weight, bias = layer(tie)
    head, _, _ = layer(Tie(1, 4))
    nodes = [
        Node(Input(4)),
        Node(first, (0,), "fc"),
        Node(Activation("relu"), (1,)),
        Node(first, (2,), "fc (2)"),
        Node(Affine(head.weight, head.bias), (3,), "head"),
    ]
    network = Network.from_nodes(nodes)
    assert network.weights == 6 + 5
    parameters = Parameters(network, torch.float32)
    assert parameters.flat.numel() == 11
    layers = parameters.layers()
    assert all(torch.equal(layers[i][0], torch.tensor(first.weight)) for i in (0, 1))
    layers[1][0].sum().backward()
    assert parameters.flat.grad[:4].tolist() == [2.0] * 4
    stack = Parameters(network, torch.float32, stack=[network.affines] * 3)
    assert stack.layers()[0][0].shape == (3, 4, 4)
    moved = Affine(first.weight + np.float32(1), first.bias)
    again = network.with_affines([moved, *network.affines[1:]])
    assert again.affines[0] == again.affines[1]
    assert np.allclose(again.affines[0].weight[:2, :2], weight[0] + 0.5, atol=1e-6)
    assert np.allclose(again.affines[0].bias[:2], bias)
