"""Slopes for rigorous bounds are those of the CROWN relaxation."""

import numpy as np
import pytest
import torch

import fairmend.bounds.pieces
import fairmend.bounds.rigorous
from fairmend.bounds import (
    Boxes,
    choose_slopes,
    propagate,
    slopes_from,
)
from support.strategies import ACTIVATIONS, random_network


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_chosen_slopes_are_those_of_the_relaxation(activation):
    rng = np.random.default_rng(0)
    network = random_network(rng, 4, [6, 5], 2, activation)
    lower = rng.normal(size=(7, 4))
    upper = lower + rng.uniform(0, 0.5, size=lower.shape)
    parameters = [(torch.tensor(a.weight).double(), torch.tensor(a.bias).double()) for a in network.affines[:-1]]
    found = propagate(network, parameters, Boxes.from_arrays(lower, upper, torch.float64))
    chosen = choose_slopes(network, lower, upper)
    assert [slopes.lower.shape for slopes in chosen] == [(7, 6), (7, 5)]
    for mine, theirs in zip(chosen, slopes_from(found.relaxations), strict=True):
        np.testing.assert_array_equal(mine.lower, theirs.lower)
        np.testing.assert_array_equal(mine.upper, theirs.upper)


def test_batches_do_not_change_the_slopes(monkeypatch):
    rng = np.random.default_rng(1)
    network = random_network(rng, 3, [5], 1)
    lower = rng.normal(size=(9, 3))
    whole = choose_slopes(network, lower, lower + 0.5)
    monkeypatch.setattr(fairmend.bounds.pieces, "MAX_ENTRIES", 1)
    for a, b in zip(whole, choose_slopes(network, lower, lower + 0.5), strict=True):
        np.testing.assert_allclose(a.lower, b.lower, atol=1e-12)
        np.testing.assert_allclose(a.upper, b.upper, atol=1e-12)
