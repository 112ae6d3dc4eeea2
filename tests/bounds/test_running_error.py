"""The error of each node, forward: each operation adds its own."""

import numpy as np

from fairmend.bounds.running_error import RunningError
from fairmend.network import Affine, Network
from fairmend.network.functions.base import Precision
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Sum

FLOAT32 = Precision.of(np.float32)
UNIT = FLOAT32.unit


def errors(*nodes, lower, upper):
    head = Affine(np.ones((1, nodes[-1][2]), np.float32), np.zeros(1, np.float32))
    listed = [Node(Input(len(lower))), *(Node(operation, sources) for operation, sources, _ in nodes)]
    network = Network.from_nodes([*listed, Node(head, (len(listed) - 1,), "head")])
    box = np.array([lower], float), np.array([upper], float)
    return RunningError(network, box, FLOAT32, None, False, 1).run()


def test_copies_are_exact_but_for_subnormal_numbers():
    found = errors((Columns((1, 1)), (0,), 2), (Concatenate(), (1, 0), 4), lower=[0.0, 1.0], upper=[0.0, 2.0])
    assert found[2].error.tolist() == [[3 * FLOAT32.tiny, 3 * FLOAT32.tiny, 0, 2 * FLOAT32.tiny]]
    assert found[2].exact[1].tolist() == [[2, 2, 0, 2]]


def test_every_addition_of_a_sum_is_rounded():
    found = errors((Sum(), (0, 0), 1), (Sum(), (1, 0, 0), 1), lower=[1.0], upper=[1.0])
    assert UNIT * 2 <= found[1].local[0, 0] < UNIT * 2.001
    assert UNIT * 12 <= found[2].error[0, 0] < UNIT * 12.001  # three additions of numbers up to 4


def test_the_terms_of_a_layer_may_be_added_to_the_other_parts_of_a_sum():
    small = Affine(np.full((1, 100), 0.25, np.float32), np.zeros(1, np.float32))
    first = Columns(tuple(range(100))), Columns((100,))
    nodes = [(first[0], (0,), 100), (first[1], (0,), 1), (small, (1,), 1), (Sum(), (2, 3), 1)]
    ends = [1.0] * 100 + [2.0**24]
    found = errors(*nodes, lower=ends, upper=ends)
    total = np.float32(2**24)
    for _ in range(100):
        total += np.float32(0.25)
    assert total == 2**24
    assert 25 <= found[4].error[0, 0] < 110
    found = errors(*nodes, (Sum(), (4, 3), 1), lower=ends, upper=ends)  # others read the layer as well
    assert found[4].local[0, 0] >= 101


def test_sums_of_sums_may_be_added_in_any_order():
    nodes = [(Columns((0,)), (0,), 1), (Columns((1,)), (0,), 1), (Sum(), (1, 1), 1), (Sum(), (3, 2), 1)]
    found = errors(*nodes, lower=[1.0, 2.0**25], upper=[1.0, 2.0**25])
    assert 4 <= found[4].error[0, 0] < 4.1  # 2^25 + 1 + 1: each addition is off by up to 2
    found = errors(*nodes, (Sum(), (4, 3), 1), lower=[1.0, 2.0**25], upper=[1.0, 2.0**25])
    assert 2 <= found[4].error[0, 0] < 2.1  # of a sum that others read as well, one of them


def test_a_sum_that_may_overflow_is_an_overflow():
    found = errors((Sum(), (0, 0), 1), lower=[0.0], upper=[2e38])
    assert found[1].overflow.tolist() == [True]


def test_a_row_of_a_table_is_exact_unless_its_number_is_computed():
    table = Lookup(np.array([[0.1], [0.2]], np.float32))
    found = errors((table, (0,), 1), lower=[0.0], upper=[1.0])
    assert found[1].error[0, 0] == FLOAT32.tiny
    assert not found[1].overflow.any()
    found = errors((Sum(), (0, 0), 1), (table, (1,), 1), lower=[0.0], upper=[0.5])
    assert found[2].overflow.all()
