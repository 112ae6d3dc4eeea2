"""GRFT's tester: a genetic search for people whose neighbours' outputs differ, then random steps around them.

Quan et al., Dissecting global search: a simple yet effective method to boost individual discrimination testing and
repair, ICSE 2025. No gradients are used.

Every seed breeds a population of its own; fitness is the difference in probability between a row and its most different
neighbour. It ends where somebody in it is unequal.
"""

from __future__ import annotations

import numpy as np

from fairmend.arrays import Floats
from fairmend.search.found import Found
from fairmend.search.oracle import Look, Oracle
from fairmend.search.values import Choices, Values
from fairmend.search.walk import Rule, Steps

POPULATION = 10
TOURNAMENT = 2
# Of each feature of a child to take one step. Features drawn anew instead would leave the seed's surroundings: that led
# every seed to somebody, on networks with hardly anybody unequal as well.
STEP = 0.2
RULE = Rule(None, on_failure="stay")


def find(
    oracle: Oracle, seeds: Values, steps: int, found: Found, rng: np.random.Generator, progress: Steps | None
) -> tuple[Values, Choices]:
    """Run the global phase; a step is a generation."""
    people = np.repeat(seeds[:, None, :], POPULATION, axis=1)  # (seeds, population, features)
    people[:, 1:] = _mutated(oracle, people[:, 1:], rng)
    best, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    met = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~met)
        if len(rows) == 0:
            break
        flat = people[rows].reshape(-1, people.shape[2])
        look = oracle.look(flat)
        found.add(flat[look.unequal], look.partner[look.unequal])
        fitness = _fitness(look).reshape(len(rows), POPULATION)
        fittest = fitness.argmax(axis=1) + np.arange(len(rows)) * POPULATION
        best[rows], partners[rows], met[rows] = flat[fittest], look.partner[fittest], look.unequal[fittest]
        if progress is not None:
            progress(min(done + 1, steps), steps)
        left = np.flatnonzero(~met[rows])
        if done < steps and len(left):
            children = _children(people[rows[left]], fitness[left], rng)
            children[:, 1:] = _mutated(oracle, children[:, 1:], rng)
            children[:, 0] = best[rows[left]]  # the fittest lives on as it is
            people[rows[left]] = children
    return best[met], partners[met]


def _fitness(look: Look) -> Floats:
    """Return the difference of probabilities (rows,), with everybody unequal above all others."""
    own, theirs = (1 / (1 + np.exp(-np.clip(side, -500, 500))) for side in (look.own, look.theirs))
    return np.asarray(np.abs(own - theirs) + 2.0 * look.unequal)


def _children(people: Values, fitness: Floats, rng: np.random.Generator) -> Values:
    """Return as many children: each feature from one of two parents, each the winner of a tournament."""
    seeds, size = fitness.shape
    at = np.arange(seeds)[:, None]

    def parents() -> Values:
        drawn = rng.integers(size, size=(seeds, size, TOURNAMENT))
        winner = fitness[at[..., None], drawn].argmax(axis=2)
        return np.asarray(people[at, np.take_along_axis(drawn, winner[..., None], axis=2)[..., 0]])

    first, second = parents(), parents()
    return np.where(rng.random(first.shape) < 0.5, first, second)


def _mutated(oracle: Oracle, people: Values, rng: np.random.Generator) -> Values:
    """Return the people (seeds, size, features) with some features changed, never protected ones."""
    space = oracle.space
    flat = people.reshape(-1, people.shape[2]).copy()
    for feature in np.flatnonzero(space.free):
        who = np.flatnonzero(rng.random(len(flat)) < STEP)
        flat[who] = space.stepped(flat[who], np.full(len(who), feature), rng)
    return flat.reshape(people.shape)
