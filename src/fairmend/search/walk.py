"""The local phase that the testers share: random steps from everybody found, one feature at a time, all at once.

Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020, Algorithm 2, and its variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmend.arrays import Floats
from fairmend.search.found import Found
from fairmend.search.oracle import Mask, Oracle
from fairmend.search.values import Choices, Values

Gradient = Callable[[Oracle, Values], Floats]
Steps = Callable[[int, int], None]

# Keeps the probabilities of features without any influence finite; as in the published code of EIDIG.
_LEAST = 1e-6


@dataclass(frozen=True)
class Rule:
    """How one tester walks.

    Attributes
    ----------
    gradient : features are chosen with probability inverse to its size at both ends of the pair; None: evenly
    reuse : how many steps one gradient serves
    on_failure : where to go on from a step that ended at nobody unequal: "hop" (stay, but with probability 1/e go on
        from there), "origin" (back to the start) or "stay"
    """

    gradient: Gradient | None
    reuse: int = 1
    on_failure: str = "stay"


def walk(
    oracle: Oracle,
    starts: Values,
    partners: Choices,
    steps: int,
    rule: Rule,
    found: Found,
    rng: np.random.Generator,
    progress: Steps | None = None,
) -> None:
    """Take so many steps from each of the starts (rows, features), and put everybody unequal into `found`."""
    space = oracle.space
    if len(starts) == 0 or not space.free.any():
        return
    V, partner = starts.copy(), partners.copy()
    unequal = np.ones(len(V), np.bool_)  # the walkers that stand at somebody unequal
    weights = _weights(oracle, V, partner, rule)
    first, age = weights.copy(), np.zeros(len(V), np.int64)
    for done in range(1, steps + 1):
        due = np.flatnonzero(age >= rule.reuse)
        if rule.gradient is not None and len(due):
            weights[due] = _weights(oracle, V[due], partner[due], rule)
            age[due] = 0
        age += 1
        moved = space.stepped(V, _pick(weights, rng), rng)
        hit, other = _check(oracle, moved, partner)
        found.add(moved[hit], other[hit])
        go = hit.copy()
        if rule.on_failure == "hop":
            # Basin hopping at temperature 1 on "nobody unequal here" as 0 or 1, which is what ADF calls.
            go |= ~unequal | (rng.random(len(V)) < np.exp(-1))
        V[go], partner[go], unequal[go] = moved[go], other[go], hit[go]
        if rule.on_failure == "origin":
            V[~hit], partner[~hit], age[~hit] = starts[~hit], partners[~hit], 0
            weights[~hit] = first[~hit]
        elif rule.reuse == 1:
            age[~go] = 0  # who has not moved knows the gradient
        if progress is not None:
            progress(done, steps)


def _check(oracle: Oracle, V: Values, partner: Choices) -> tuple[Mask, Choices]:
    """Return who is unequal (rows,) and to which neighbour; the one of the step before is asked first."""
    other = partner.copy()
    hit = oracle.answers(V) != oracle.answers(oracle.neighbours(V, partner))
    rest = np.flatnonzero(~hit)
    if len(rest) and not oracle.pairs:
        look = oracle.look(V[rest])
        hit[rest], other[rest] = look.unequal, look.partner
    return hit, other


def _weights(oracle: Oracle, V: Values, partner: Choices, rule: Rule) -> Floats:
    """Return with which probability each feature is changed (rows, features)."""
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
