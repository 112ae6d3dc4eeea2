"""The global phase reaches IDIs, and the local phase walks from one to others."""

import numpy as np
import pytest

from fairmend.searching.oracle import Oracle
from fairmend.searching.result import DiscoveredInstances
from fairmend.searching.testers import LocalRule, agreed_moves, follow_gradients, loss_gradient, run_local_phase
from support.search_cases import biased, people, spec


def test_seeds_that_are_idis_do_not_move_and_the_others_take_every_step():
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    seeds = oracle.space.values(people(case, 60))
    unequal = oracle.find_partners(seeds).unequal
    assert 0 < unequal.sum() < len(seeds)
    asked = []

    def stand_still(rows, V, others):
        asked.append(rows)
        return np.zeros_like(V)

    starts, partners = follow_gradients(oracle, seeds, 3, stand_still, DiscoveredInstances(oracle))
    assert np.array_equal(starts, seeds[unequal])
    assert (oracle.predict(starts) != oracle.predict(oracle.neighbours(starts, partners))).all()
    assert [rows.tolist() for rows in asked] == [np.flatnonzero(~unequal).tolist()] * 3


def test_pairs_move_where_they_agree_else_along_their_own_gradient_else_at_random():
    case = spec()
    space = Oracle(biased(case), case, np.random.default_rng(0)).space
    V = space.values(people(case, 3))
    up, theirs = np.zeros_like(V), np.zeros_like(V)
    up[0, [0, 3]], theirs[0, [0, 3]] = (1, 1), (1, -1)
    up[1, 0], theirs[1, 0] = 1, -1
    moves = agreed_moves(space, V, up, theirs, np.random.default_rng(0))
    assert moves[0].tolist() == [1, 0, 0, 0, 0, 0]
    assert moves[1].tolist() == up[1].tolist()
    assert (moves[2] != 0).sum() <= 1
    assert not moves[:, ~space.free].any()


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
