"""Graphs of nodes: what is refused, and which inputs the output depends on."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Node, Sum

ONE = Affine(np.ones((1, 2)), np.zeros(1))
TWO = Affine(np.eye(2), np.zeros(2))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([Node(TWO), Node(ONE, (0,))], "first node of a network must be its input"),
        ([Node(Input(2)), Node(Activation("relu"), (0,))], "last node of a network must be an affine layer"),
        ([Node(Input(2)), Node(Sum(), (0, 2)), Node(ONE, (1,))], r"node 1 \(sum\) reads node 2"),
        ([Node(Input(2)), Node(Input(2)), Node(ONE, (1,))], "second input"),
        ([Node(Input(3)), Node(ONE, (0,), "fc")], "layer 'fc' takes 2 values, but the layer before it gives 3"),
        ([Node(Input(2)), Node(TWO, (0,), "fc"), Node(ONE, (0,))], "layer 'fc' is not read by any other node"),
        ([Node(Input(2)), Node(Sum(), (0,)), Node(ONE, (1,))], "sum has 1 sources; it must have at least 2"),
        ([Node(Input(2)), Node(Lookup(np.eye(2)), (0,)), Node(ONE, (1,))], "a look-up reads 1 column, not 2"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_node(nodes, words):
    with pytest.raises(FairmendError, match=words):
        Network.from_nodes(nodes)


def test_columns_count_if_a_weight_or_a_skip_lets_them_through():
    cut = Affine(np.array([[1.0, 0.0]]), np.zeros(1))
    table = Lookup(np.array([[1.0], [1.0]]))
    nodes = [Node(Input(3)), Node(Columns((0, 1)), (0,)), Node(cut, (1,), "cut"), Node(Columns((2,)), (0,)),
             Node(table, (3,)), Node(Concatenate(), (2, 4)), Node(ONE, (5,), "head")]  # fmt: skip
    assert Network.from_nodes(nodes).read_columns.tolist() == [True, False, False]
    skipped = [*nodes[:5], Node(Concatenate(), (2, 3)), Node(ONE, (5,), "head")]
    skipped[4] = Node(Columns((0,)), (3,))
    skipped[5] = Node(Concatenate(), (2, 4))
    assert Network.from_nodes(skipped).read_columns.tolist() == [True, False, True]


def test_equal_nodes_are_equal_networks_in_either_way_of_building():
    chain = Network([TWO, ONE], [Activation("relu")], "sigmoid", ["a", "b"])
    nodes = [Node(Input(2)), Node(TWO, (0,), "a"), Node(Activation("relu"), (1,)), Node(ONE, (2,), "b")]
    assert chain == Network.from_nodes(nodes, "sigmoid")
    assert chain.is_chain
    assert hash(chain) == hash(Network.from_nodes(nodes, "sigmoid"))


def test_a_function_does_not_overwrite_what_a_skip_reads():
    nodes = [Node(Input(2)), Node(TWO, (0,), "a"), Node(Activation("relu"), (1,)), Node(Sum(), (1, 2)), Node(ONE, (3,))]
    assert Network.from_nodes(nodes).logits([[-1.0, 2.0]]).tolist() == [3.0]
    nodes = [Node(Input(2)), Node(Activation("relu"), (0,)), Node(ONE, (1,))]
    X = np.array([[-1.0, 2.0]])
    assert Network.from_nodes(nodes).logits(X).tolist() == [2.0]
    assert X.tolist() == [[-1.0, 2.0]]
