"""The global phase that gradient testers share: every seed takes its steps until somebody unequal is met, all at once.

Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020, Algorithm 1, and its variants.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairmend.search.found import Found
from fairmend.search.oracle import Oracle
from fairmend.search.values import Choices, Space, Values
from fairmend.search.walk import Steps

Moves = Callable[[Choices, Values, Values], Values]
"""Called with the numbers of some seeds, where they are now and their partners; returns their next moves."""


def climb(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    moves: Moves,
    found: Found,
    progress: Steps | None = None,
) -> tuple[Values, Choices]:
    """Take up to so many steps from each seed; return those met who are unequal, one per seed, and their partners."""
    V, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    met = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~met)
        if len(rows) == 0:
            break
        look = oracle.look(V[rows])
        partners[rows], met[rows] = look.partner, look.unequal
        found.add(V[rows[look.unequal]], look.partner[look.unequal])
        rows = np.flatnonzero(~met)
        if progress is not None:
            progress(min(done + 1, steps), steps)
        if done < steps and len(rows):
            others = oracle.neighbours(V[rows], partners[rows])
            V[rows] = oracle.space.clip(V[rows] + moves(rows, V[rows], others))
    return V[met], partners[met]


def agreed(space: Space, V: Values, up: Values, theirs: Values, rng: np.random.Generator) -> Values:
    """Return the moves (rows, features) where both ends of a pair agree.

    Where they agree on nothing, the row follows its own gradient, and where it has none, takes a random step: the
    published algorithm does something random there, too.
    """
    moves = np.where(up == theirs, up, 0.0)
    none = np.flatnonzero(~moves.any(axis=1))
    moves[none] = up[none]
    lost = np.flatnonzero(~moves.any(axis=1))
    if len(lost) and space.free.any():
        moves[lost] = space.stepped(V[lost], rng.choice(np.flatnonzero(space.free), len(lost)), rng) - V[lost]
    return moves
