"""Errors traced backward: what two paths do to one error is added before it is measured, unless it is rounded twice."""

import numpy as np

from fairmend.bounds.sensitivity import NodeError, traced_error
from fairmend.network import Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Input, Sum


def test_an_error_that_two_paths_cancel_is_gone_unless_each_path_may_round_by_itself():
    plain, opposite = Affine(np.eye(2), np.zeros(2)), Affine(-np.eye(2), np.zeros(2))
    nodes = [Node(Input(2)), Node(plain, (0,), "first"), Node(plain, (1,), "read twice"), Node(opposite, (2,), "minus")]
    network = Network.from_nodes([*nodes, Node(Sum(), (2, 3)), Node(opposite, (4,), "head")])
    zero, one, nowhere = np.zeros((1, 2)), np.ones((1, 2)), np.zeros(1, bool)
    for number, least in enumerate((0, 0, 2, 1)):
        found = [NodeError((zero, one), (zero, one), 9 * one, one * (i == number), nowhere) for i in range(6)]
        assert least <= traced_error(network, found, 5, np.eye(2)[None]).max() < least + 1e-6


def test_an_error_that_reaches_a_node_by_two_paths_counts_twice():
    network = Network.from_nodes(
        [Node(Input(1)), Node(Sum(), (0, 0)), Node(Affine(np.ones((1, 1)), np.zeros(1)), (1,), "head")]
    )
    zero, one, nowhere = np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1, bool)
    found = [NodeError((zero, one), (zero, one), one, local, nowhere) for local in (one, zero, zero)]
    assert 2 <= traced_error(network, found, 2, np.ones((1, 1, 1)))[0, 0] < 2 + 1e-6
