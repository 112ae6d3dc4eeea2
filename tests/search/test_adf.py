"""The global phase of adf follows its gradients to instances that are treated unequally."""

import numpy as np

from fairmend.search import adf
from fairmend.search.discovered import DiscoveredInstances
from fairmend.search.gradients import loss_gradient
from fairmend.search.oracle import Oracle
from support.search_cases import biased, people, spec


def test_more_steps_reach_more_idis_and_every_start_is_one():
    case = spec(one_hot=False)
    reached = []
    for steps in (0, 10):
        rng = np.random.default_rng(0)
        oracle = Oracle(biased(case, bias=0.05), case, rng)
        seeds = oracle.space.values(people(case))
        starts, partners = adf.find_starts(oracle, seeds, steps, DiscoveredInstances(oracle), rng, None)
        assert (oracle.predict(starts) != oracle.predict(oracle.neighbours(starts, partners))).all()
        reached.append(len(starts))
    assert reached[0] < reached[1]


def test_the_local_phase_uses_the_gradient_of_the_paper():
    assert adf.RULE.gradient is loss_gradient
