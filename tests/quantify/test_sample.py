"""Random people estimate the share that is treated unequally."""

import numpy as np
import pytest

from fairmend.quantify.sample import sampled_unequal
from fairmend.quantify.space import make_space
from support.quantify_cases import MANY, SMALL, linear, unequal_people
from support.strategies import random_network


@pytest.mark.parametrize("spec", [SMALL, MANY])
def test_the_estimate_is_close(spec):
    net = random_network(np.random.default_rng(1), spec.width, [4])
    space = make_space(net, spec)
    found = sampled_unequal(net, space, 5000, 0)
    assert found == pytest.approx(unequal_people(net, space, space.root(), 0).mean(), abs=0.05)
    assert found == sampled_unequal(net, space, 5000, 0)


def test_no_samples_no_estimate():
    assert sampled_unequal(linear([1] * 6, 0), make_space(linear([1] * 6, 0), SMALL), 0, 0) is None
