"""The biased neurons are those that protected features move, and the gradient is that of their difference."""

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.searching.gradients import forward, layer_nodes
from fairmend.searching.neuronfair import biased_neurons, difference_gradient
from fairmend.searching.oracle import Oracle
from support.search_cases import biased, people, spec


def test_the_neuron_that_reads_the_protected_feature_is_the_biased_one():
    case = spec()
    weight = np.zeros((10, case.width), np.float32)
    weight[:, 0] = 1
    weight[7, case.columns("sex")] = 5
    head = Affine(np.ones((1, 10), np.float32), np.zeros(1, np.float32))
    net = Network([Affine(weight, np.zeros(10, np.float32)), head], [Activation("relu")])
    oracle = Oracle(net, case, np.random.default_rng(0))
    hidden, outputs = biased_neurons(oracle, oracle.space.values(people(case)))
    assert np.flatnonzero(hidden).tolist() == [7]
    assert not outputs.any()


def test_the_gradient_is_that_of_finite_differences():
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    V = oracle.space.values(people(case, 40))
    others = oracle.neighbours(V, oracle.find_partners(V).partner)
    mask = [np.ones(len(affine.bias), np.bool_) for affine in oracle.net.affines]
    X, Y = (oracle.space.encode(side).astype(np.float64) for side in (V, others))

    def difference(off):
        here, there = forward(oracle.net, X + off), forward(oracle.net, Y + off)
        chosen = zip(layer_nodes(oracle.net), mask, strict=True)
        return sum((np.abs(here[node] - there[node]) * each).sum(axis=1) for node, each in chosen)

    G = difference_gradient(oracle, mask, V, others)
    assert np.abs(G).max() > 0
    for column in range(case.width):
        off = np.zeros(case.width)
        off[column] = 1e-6
        slope = (difference(off) - difference(-off)) / 2e-6
        assert np.median(np.abs(G[:, column] - slope)) < 1e-6
