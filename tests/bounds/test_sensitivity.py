"""Errors traced backward: what two paths do to one error is added before it is measured."""

import numpy as np

from fairmend.bounds.sensitivity import NodeError, traced_error
from fairmend.network import Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Input, Sum


def test_an_error_that_two_paths_cancel_is_gone():
    opposite = Affine(-np.eye(2), np.zeros(2))
    nodes = [Node(Input(2)), Node(opposite, (0,), "minus"), Node(Sum(), (0, 1)), Node(opposite, (2,), "head")]
    network = Network.from_nodes(nodes)
    zero, one, nowhere = np.zeros((1, 2)), np.ones((1, 2)), np.zeros(1, bool)
    found = [NodeError((zero, one), (zero, one), one, local, nowhere) for local in (one, zero, zero, zero)]
    assert traced_error(network, found, 3, np.eye(2)[None]).max() < 1e-12
    found[1] = found[1]._replace(local=one)
    assert 1 <= traced_error(network, found, 3, np.eye(2)[None]).max() < 1 + 1e-6


def test_an_error_that_reaches_a_node_by_two_paths_counts_twice():
    network = Network.from_nodes(
        [Node(Input(1)), Node(Sum(), (0, 0)), Node(Affine(np.ones((1, 1)), np.zeros(1)), (1,), "head")]
    )
    zero, one, nowhere = np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1, bool)
    found = [NodeError((zero, one), (zero, one), one, local, nowhere) for local in (one, zero, zero)]
    assert 2 <= traced_error(network, found, 2, np.ones((1, 1, 1)))[0, 0] < 2 + 1e-6
