"""The two phases that testers share, each for all rows in one batch.

In the global phase every seed takes steps until it reaches an IDI; in the local phase every IDI takes random steps, one
feature at a time. Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020, Algorithms 1 and 2,
and their variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.searching.oracle import Mask, Oracle
from fairmend.searching.result import DiscoveredInstances
from fairmend.searching.value_space import Choices, Values, ValueSpace

Gradient = Callable[[Oracle, Values], Floats]
StepProgress = Callable[[int, int], None]

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


# Keeps the probabilities of features without influence finite, as in the published code of EIDIG.
_LEAST = 1e-6


@dataclass(frozen=True)
class LocalRule:
    """The settings of one tester's local phase.

    Attributes
    ----------
    gradient : a feature is chosen with probability inverse to the size of this gradient at both ends of the pair; None
        gives all features the same probability
    reuse : for how many steps a gradient is used
    on_failure : where to continue after a step that found no IDI: "hop" (before the step, or with probability 1/e
        after it), "origin" (at the start) or "stay" (before the step)
    """

    gradient: Gradient | None
    reuse: int = 1
    on_failure: str = "stay"


def run_local_phase(
    oracle: Oracle,
    starts: Values,
    partners: Choices,
    steps: int,
    rule: LocalRule,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None = None,
) -> None:
    """Take this many steps from each of the starts (rows, features), and add every IDI to `discovered`."""
    space = oracle.space
    if len(starts) == 0 or not space.free.any():
        return
    V, partner = starts.copy(), partners.copy()
    unequal = np.ones(len(V), np.bool_)  # the rows that are at an IDI
    weights = _weights(oracle, V, partner, rule)
    first, age = weights.copy(), np.zeros(len(V), np.int64)
    for done in range(1, steps + 1):
        due = np.flatnonzero(age >= rule.reuse)
        if rule.gradient is not None and len(due):
            weights[due] = _weights(oracle, V[due], partner[due], rule)
            age[due] = 0
        age += 1
        moved = space.take_random_step(V, _pick(weights, rng), rng)
        hit, other = _find_unequal(oracle, moved, partner)
        discovered.add(moved[hit], other[hit])
        go = hit.copy()
        if rule.on_failure == "hop":
            # Basin hopping at temperature 1, as in ADF, on a function that is 0 at an IDI and 1 elsewhere.
            go |= ~unequal | (rng.random(len(V)) < np.exp(-1))
        V[go], partner[go], unequal[go] = moved[go], other[go], hit[go]
        if rule.on_failure == "origin":
            V[~hit], partner[~hit], age[~hit] = starts[~hit], partners[~hit], 0
            weights[~hit] = first[~hit]
        elif rule.reuse == 1:
            age[~go] = 0  # a row that has not moved keeps its gradient
        if progress is not None:
            progress(done, steps)


def _find_unequal(oracle: Oracle, V: Values, partner: Choices) -> tuple[Mask, Choices]:
    """Return which rows are IDIs (rows,), and to which neighbour; the neighbour of the last step is tried first."""
    other = partner.copy()
    hit = oracle.predict(V) != oracle.predict(oracle.neighbours(V, partner))
    rest = np.flatnonzero(~hit)
    if len(rest) and not oracle.single_neighbour:
        found = oracle.find_partners(V[rest])
        hit[rest], other[rest] = found.unequal, found.partner
    return hit, other


def _weights(oracle: Oracle, V: Values, partner: Choices, rule: LocalRule) -> Floats:
    """Return the probability that each feature is changed (rows, features)."""
    free = np.broadcast_to(oracle.space.free, V.shape)
    if rule.gradient is None:
        weights = free.astype(np.float64)
    else:
        others = oracle.neighbours(V, partner)
        size = sum(oracle.space.influence(side, rule.gradient(oracle, side)) for side in (V, others))
        weights = np.where(free, 1 / (size + _LEAST * np.max(size, axis=1, keepdims=True) + 1e-300), 0.0)
        weights /= weights.max(axis=1, keepdims=True)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _pick(weights: Floats, rng: np.random.Generator) -> Choices:
    """Draw one feature for each row, with its probabilities."""
    limits = np.cumsum(weights, axis=1)
    drawn = rng.random((len(weights), 1)) * limits[:, -1:]
    return np.asarray((limits > drawn).argmax(axis=1), dtype=np.int64)
