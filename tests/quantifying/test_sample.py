"""Random people estimate the share that is treated unequally, and show which values decide in a box."""

import numpy as np
import pytest

from fairmend.quantifying.decide import Decider
from fairmend.quantifying.sample import find_witnesses, sampled_unequal
from fairmend.spec import Feature, Spec
from support.quantify_cases import LINKED, MANY, SMALL, TOLERANT, linear, unequal_people
from support.strategies import random_network


@pytest.mark.parametrize("spec", [SMALL, MANY, TOLERANT, LINKED["offsets"]])
def test_the_estimate_is_close(spec):
    net = random_network(np.random.default_rng(1), spec.width, [4])
    found = sampled_unequal(Decider(net, spec), 5000, 0)
    assert found == pytest.approx(unequal_people(net, spec).mean(), abs=0.05)
    assert found == sampled_unequal(Decider(net, spec), 5000, 0)


@pytest.mark.parametrize("kind", ["integer", "continuous"])
def test_large_differences_within_tolerances_are_among_those_compared(kind):
    """Class 1 from 500 on: those within 100 of it are treated unequally, whatever their sex is."""
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    spec = Spec([sex, Feature(name="income", kind=kind, range=(0, 1000), tolerance=100)])
    net = linear([1e-9, 1], -500.5)
    assert sampled_unequal(Decider(net, spec), 5000, 0) == pytest.approx(0.2, abs=0.03)


def test_no_samples_no_estimate():
    assert sampled_unequal(Decider(linear([1] * 6, 0), SMALL), 0, 0) is None


def witnesses(net, spec):
    decider = Decider(net, spec)
    return find_witnesses(decider, decider.people.everyone)


def test_the_values_with_the_higher_class_come_first():
    net = linear([10, 0.1, 0, 0, 0, 0], -220)
    found = witnesses(net, SMALL)
    assert found.classes == (1, 0)
    assert found.values[0] > found.values[1]


def test_of_several_classes_the_most_frequent_pair_is_shown():
    net = random_network(np.random.default_rng(7), SMALL.width, [3], 3)
    found = witnesses(net, SMALL)
    assert found.classes[0] > found.classes[1]
    assert found.classes == witnesses(net, SMALL).classes


def test_without_a_protected_difference_there_are_none():
    net = linear([0, 0, 1, 0, 0], -1.05)
    assert witnesses(net, TOLERANT) is None
