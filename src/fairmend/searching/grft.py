"""GRFT's tester: a genetic search for people whose neighbours get different outputs, then random steps around them.

Quan et al., Dissecting global search: a simple yet effective method to boost individual discrimination testing and
repair, ICSE 2025. It uses no gradients.

Every seed has a population of its own. Fitness is the difference in probability between a row and its most different
neighbour. The search of a seed ends when its population contains an IDI.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.local_phase import LocalRule, StepProgress
from fairmend.searching.oracle import Oracle, Partners
from fairmend.searching.value_space import Choices, Values

POPULATION = 10
TOURNAMENT = 2
# The probability that a feature of a child takes one step. Drawing a new value instead would leave the surroundings of
# the seed: then every seed led to an IDI, even on networks that treat hardly anyone unequally.
STEP = 0.2
RULE = LocalRule(None, on_failure="stay")


def find_starts(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None,
) -> tuple[Values, Choices]:
    """Run the global phase; a step is a generation."""
    population = np.repeat(seeds[:, None, :], POPULATION, axis=1)  # (seeds, population, features)
    population[:, 1:] = _mutate(oracle, population[:, 1:], rng)
    best, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    reached = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~reached)
        if len(rows) == 0:
            break
        flat = population[rows].reshape(-1, population.shape[2])
        found = oracle.find_partners(flat)
        discovered.add(flat[found.unequal], found.partner[found.unequal])
        fitness = _fitness(found).reshape(len(rows), POPULATION)
        fittest = fitness.argmax(axis=1) + np.arange(len(rows)) * POPULATION
        best[rows], partners[rows], reached[rows] = flat[fittest], found.partner[fittest], found.unequal[fittest]
        if progress is not None:
            progress(min(done + 1, steps), steps)
        left = np.flatnonzero(~reached[rows])
        if done < steps and len(left):
            children = _make_children(population[rows[left]], fitness[left], rng)
            children[:, 1:] = _mutate(oracle, children[:, 1:], rng)
            children[:, 0] = best[rows[left]]  # the fittest survives unchanged
            population[rows[left]] = children
    return best[reached], partners[reached]


def _fitness(found: Partners) -> Floats:
    """Return the difference of probabilities (rows,), with IDIs above all others."""
    own, theirs = (1 / (1 + np.exp(-np.clip(side, -500, 500))) for side in (found.own, found.theirs))
    return np.asarray(np.abs(own - theirs) + 2.0 * found.unequal)


def _make_children(population: Values, fitness: Floats, rng: np.random.Generator) -> Values:
    """Return as many children, with each feature from one of two parents, both winners of a tournament."""
    seeds, size = fitness.shape
    at = np.arange(seeds)[:, None]

    def parents() -> Values:
        drawn = rng.integers(size, size=(seeds, size, TOURNAMENT))
        winner = fitness[at[..., None], drawn].argmax(axis=2)
        return np.asarray(population[at, np.take_along_axis(drawn, winner[..., None], axis=2)[..., 0]])

    first, second = parents(), parents()
    return np.where(rng.random(first.shape) < 0.5, first, second)


def _mutate(oracle: Oracle, population: Values, rng: np.random.Generator) -> Values:
    """Return the population (seeds, size, features) with some features changed, never protected ones."""
    space = oracle.space
    flat = population.reshape(-1, population.shape[2]).copy()
    for feature in np.flatnonzero(space.free):
        who = np.flatnonzero(rng.random(len(flat)) < STEP)
        flat[who] = space.take_random_step(flat[who], np.full(len(who), feature), rng)
    return flat.reshape(population.shape)
