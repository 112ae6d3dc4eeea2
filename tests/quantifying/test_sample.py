"""Random people estimate the share that is treated unequally."""

import numpy as np
import pytest

from fairmend.quantifying.sample import sampled_unequal
from fairmend.quantifying.space import make_space
from fairmend.spec import Feature, Spec
from support.quantify_cases import LINKED, MANY, SMALL, TOLERANT, linear, unequal_people
from support.strategies import random_network


@pytest.mark.parametrize("spec", [SMALL, MANY, TOLERANT, LINKED["offsets"]])
def test_the_estimate_is_close(spec):
    net = random_network(np.random.default_rng(1), spec.width, [4])
    space = make_space(net, spec)
    found = sampled_unequal(net, space, 5000, 0)
    assert found == pytest.approx(unequal_people(net, space, space.root(), 0).mean(), abs=0.05)
    assert found == sampled_unequal(net, space, 5000, 0)


@pytest.mark.parametrize("kind", ["integer", "continuous"])
def test_large_differences_within_tolerances_are_among_those_compared(kind):
    """Class 1 from 500 on: those within 100 of it are treated unequally, whatever their sex is."""
    sex = Feature(name="sex", kind="integer", range=(0, 1), protected=True)
    spec = Spec([sex, Feature(name="income", kind=kind, range=(0, 1000), tolerance=100)])
    net = linear([1e-9, 1], -500.5)
    assert sampled_unequal(net, make_space(net, spec), 5000, 0) == pytest.approx(0.2, abs=0.03)


def test_no_samples_no_estimate():
    assert sampled_unequal(linear([1] * 6, 0), make_space(linear([1] * 6, 0), SMALL), 0, 0) is None
