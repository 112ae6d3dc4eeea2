"""The global phase follows moves until a seed reaches an IDI, and pairs move where both ends agree."""

import numpy as np

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.global_phase import agreed_moves, follow_gradients
from fairmend.searching.oracle import Oracle
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
