"""The local phase moves one unprotected feature at a time, and adds only instances that are treated unequally."""

import numpy as np
import pytest

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.gradients import loss_gradient
from fairmend.searching.local_phase import LocalRule, run_local_phase
from fairmend.searching.oracle import Oracle
from support.search_cases import biased, people, spec


class Recorded(DiscoveredInstances):
    """Keeps everything that is added."""

    def __init__(self, oracle):
        super().__init__(oracle)
        self.rows = []

    def add(self, V, partners):
        self.rows.append((V.copy(), partners.copy()))
        super().add(V, partners)


@pytest.mark.parametrize("gradient", [None, loss_gradient])
@pytest.mark.parametrize("on_failure", ["hop", "origin", "stay"])
def test_what_is_added_is_unequal_and_protected_features_stay(gradient, on_failure):
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    V = oracle.space.values(people(case, 60))
    found = oracle.find_partners(V)
    starts, partners = V[found.unequal], found.partner[found.unequal]
    recorded, done = Recorded(oracle), []
    rule = LocalRule(gradient, reuse=2, on_failure=on_failure)
    run_local_phase(oracle, starts, partners, 8, rule, recorded, rng, lambda *step: done.append(step))
    assert done == [(step, 8) for step in range(1, 9)]
    rows, others = (np.concatenate(side) for side in zip(*recorded.rows, strict=True))
    assert len(rows) > len(starts)
    assert (oracle.predict(rows) != oracle.predict(oracle.neighbours(rows, others))).all()
    kept = oracle.space.protected
    assert {tuple(row) for row in rows[:, kept]} <= {tuple(row) for row in starts[:, kept]}


def test_a_step_changes_one_feature_of_the_start():
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    V = oracle.space.values(people(case, 60))
    found = oracle.find_partners(V)
    starts = V[found.unequal][:1]
    recorded = Recorded(oracle)
    rule = LocalRule(None, on_failure="origin")
    run_local_phase(oracle, starts, found.partner[found.unequal][:1], 1, rule, recorded, rng)
    (moved, _), *rest = recorded.rows
    assert not rest
    assert len(moved) <= 1
    assert ((moved != starts).sum(axis=1) <= 1).all()
