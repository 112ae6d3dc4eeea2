"""The genetic search keeps protected features, and the fittest individual survives."""

import numpy as np

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.grft import _fitness, _make_children, _mutate, find_starts
from fairmend.searching.oracle import Oracle
from support.search_cases import biased, people, spec


def test_an_idi_is_fitter_than_anyone_else():
    case = spec()
    oracle = Oracle(biased(case), case, np.random.default_rng(0))
    found = oracle.find_partners(oracle.space.values(people(case)))
    fitness = _fitness(found)
    assert 0 < found.unequal.sum() < len(fitness)
    assert fitness[found.unequal].min() > fitness[~found.unequal].max()


def test_children_have_the_features_of_fit_parents():
    rng = np.random.default_rng(0)
    population = np.arange(4, dtype=float)[None, :, None] + np.zeros((1, 4, 3))
    fitness = np.array([[0.0, 1.0, 2.0, 3.0]])
    children = np.concatenate([_make_children(population, fitness, rng) for _ in range(50)])
    assert set(np.unique(children)) <= {0.0, 1.0, 2.0, 3.0}
    assert children.mean() > population.mean()


def test_mutation_never_changes_protected_features():
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    population = oracle.space.values(people(case, 60)).reshape(6, 10, -1)
    mutated = _mutate(oracle, population, rng)
    free = oracle.space.free
    assert np.array_equal(mutated[..., ~free], population[..., ~free])
    assert (mutated[..., free] != population[..., free]).any()


def test_every_start_is_an_idi():
    case, rng = spec(), np.random.default_rng(0)
    oracle = Oracle(biased(case), case, rng)
    seeds = oracle.space.values(people(case, 40))
    starts, partners = find_starts(oracle, seeds, 3, DiscoveredInstances(oracle), rng, None)
    assert len(starts) > 0
    assert (oracle.predict(starts) != oracle.predict(oracle.neighbours(starts, partners))).all()
