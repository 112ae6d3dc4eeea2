"""The global phase of the gradient testers: every seed takes steps until it reaches an IDI, all seeds in one batch.

Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020, Algorithm 1, and its variants.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.local_phase import StepProgress
from fairmend.searching.oracle import Oracle
from fairmend.searching.value_space import Choices, Values, ValueSpace

Moves = Callable[[Choices, Values, Values], Values]
"""Returns the next moves of some seeds, from their numbers, their present values and their partners."""


def follow_gradients(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    moves: Moves,
    discovered: DiscoveredInstances,
    progress: StepProgress | None = None,
) -> tuple[Values, Choices]:
    """Take up to this many steps from each seed; return the IDIs reached, at most one per seed, and their partners."""
    V, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    reached = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~reached)
        if len(rows) == 0:
            break
        found = oracle.find_partners(V[rows])
        partners[rows], reached[rows] = found.partner, found.unequal
        discovered.add(V[rows[found.unequal]], found.partner[found.unequal])
        rows = np.flatnonzero(~reached)
        if progress is not None:
            progress(min(done + 1, steps), steps)
        if done < steps and len(rows):
            others = oracle.neighbours(V[rows], partners[rows])
            V[rows] = oracle.space.clip(V[rows] + moves(rows, V[rows], others))
    return V[reached], partners[reached]


def agreed_moves(space: ValueSpace, V: Values, up: Values, theirs: Values, rng: np.random.Generator) -> Values:
    """Return the moves (rows, features) on which both ends of a pair agree.

    A row whose pair agrees on nothing follows its own gradient. If that vanishes, it takes a random step: the published
    algorithm makes a random choice there, too.
    """
    moves = np.where(up == theirs, up, 0.0)
    none = np.flatnonzero(~moves.any(axis=1))
    moves[none] = up[none]
    lost = np.flatnonzero(~moves.any(axis=1))
    if len(lost) and space.free.any():
        moves[lost] = space.take_random_step(V[lost], rng.choice(np.flatnonzero(space.free), len(lost)), rng) - V[lost]
    return moves
