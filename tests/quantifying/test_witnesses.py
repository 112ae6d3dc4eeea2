"""The witnesses of a box have different classes."""

import numpy as np

from fairmend.quantifying.space import make_space
from fairmend.quantifying.witnesses import find_witnesses
from support.quantify_cases import SMALL, TOLERANT, linear
from support.strategies import random_network


def test_the_values_with_the_higher_class_come_first():
    net = linear([10, 0.1, 0, 0, 0, 0], -220)
    space = make_space(net, SMALL)
    found = find_witnesses(net, space, space.root())
    assert found.classes == (1, 0)
    assert found.values[0] > found.values[1]


def test_of_several_classes_the_most_frequent_pair_is_shown():
    net = random_network(np.random.default_rng(7), SMALL.width, [3], 3)
    space = make_space(net, SMALL)
    found = find_witnesses(net, space, space.root())
    assert found.classes[0] > found.classes[1]
    assert found.classes == find_witnesses(net, space, space.root()).classes


def test_without_a_protected_difference_there_are_none():
    net = linear([0, 0, 1, 0, 0], -1.05)
    space = make_space(net, TOLERANT)
    assert find_witnesses(net, space, space.root()) is None
