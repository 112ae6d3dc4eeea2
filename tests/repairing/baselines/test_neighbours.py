"""Neighbours lie in the neighbourhood, and IDI pairs are IDI pairs."""

import numpy as np
import pytest

from fairmend.repairing.baselines.neighbours import draw_neighbours, find_different_pairs, flip_protected
from support.baseline_cases import SPECS, arguments, unequal
from support.link_cases import family_case


@pytest.mark.parametrize("which", SPECS)
def test_neighbours_lie_in_the_neighbourhood(which):
    spec = SPECS[which]
    X, rng = spec.sample_inputs(300, np.random.default_rng(0)), np.random.default_rng(1)
    lower, upper = spec.regions(X).hull()
    for points in (draw_neighbours(spec, X, rng), flip_protected(spec, X, rng)):
        assert (lower <= points).all()
        assert (points <= upper).all()
        assert (spec.as_inputs(points) == points).all()  # one-hot groups are one-hot


@pytest.mark.parametrize("which", SPECS)
def test_flipped_copies_differ_in_protected_features_and_in_nothing_else(which):
    spec = SPECS[which]
    X = spec.sample_inputs(300, np.random.default_rng(0))
    protected = np.zeros(spec.width, dtype=bool)
    for feature in spec.protected:
        protected[spec.columns(feature.name)] = True
    copies = flip_protected(spec, X, np.random.default_rng(1))
    assert (copies[:, ~protected] == X[:, ~protected]).all()
    assert (copies[:, protected] != X[:, protected]).any(axis=1).all()


@pytest.mark.parametrize("which", SPECS)
def test_idi_pairs_are_idi_pairs_and_come_first(which):
    network, spec, X, *_ = arguments(which)
    rows, others, idi = find_different_pairs(network, spec, X, np.random.default_rng(0))
    assert ((network.predict(X)[rows] != network.predict(others)) == idi).all()
    assert idi.any()
    assert set(rows[idi]).isdisjoint(rows[~idi])
    assert set(rows[idi]) <= set(np.flatnonzero(unequal(network, spec, X).rows)) or not spec.finite


def test_linked_features_follow():
    spec, _, X = family_case(rows=300)
    assert spec.are_similar(X, draw_neighbours(spec, X, np.random.default_rng(1))).all()
    flipped = flip_protected(spec, X, np.random.default_rng(1))
    assert spec.are_similar(X, flipped).all()
    columns = [column for f in spec.protected for column in range(spec.width)[spec.columns(f.name)]]
    assert (flipped[:, columns] != X[:, columns]).any(axis=1).all()
