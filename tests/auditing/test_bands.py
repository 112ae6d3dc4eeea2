"""Bands in audits, searches, proofs and reports: compared with lists of similar people."""

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import find_unequal, sample_unequal, stream_random_neighbours
from fairmend.prove.vnnlib import region_boxes
from fairmend.repairing.baselines.neighbours import draw_neighbours, flip_protected
from fairmend.searching.oracle import Oracle
from support.band_cases import band_case, band_spec


@pytest.mark.parametrize("seed", range(4))
def test_audit_counts_what_listing_finds(seed):
    spec, net, X = band_case(rows=200, seed=seed)
    listed = find_unequal(net, spec, X)
    audit = fairmend.audit(net, spec, X)
    assert (audit.exact, audit.count) == (True, listed.count)
    assert 0 < listed.count < len(X)


def test_certify_agrees_with_listing():
    spec, net, X = band_case(rows=40)
    unequal = find_unequal(net, spec, X).rows
    result = fairmend.certify(net, spec, X)
    verdicts = np.array([verdict.name for verdict in result.verdicts])
    assert (verdicts[unequal] == "UNFAIR").all()
    assert (verdicts[~unequal] == "FAIR").all()


def test_continuous_bands_are_decided_by_branching():
    spec, net, X = band_case(rows=30, continuous=True)
    found = sample_unequal(net, spec, X, per_row=256).rows
    result = fairmend.certify(net, spec, X)
    fair = np.array([verdict.name == "FAIR" for verdict in result.verdicts])
    assert not (fair & found).any()
    assert fair.any() or found.all()


@pytest.mark.parametrize("continuous", [False, True])
def test_whoever_is_drawn_is_similar(continuous):
    spec, net, X = band_case(rows=50, continuous=continuous)
    rng = np.random.default_rng(0)
    rows, drawn = next(stream_random_neighbours(spec, X, 20, rng))
    assert spec.are_similar(X[rows], drawn).all()
    assert spec.are_similar(X, draw_neighbours(spec, X, rng)).all()
    assert spec.are_similar(X, flip_protected(spec, X, rng)).all()
    oracle = Oracle(net, spec, rng)
    V = oracle.space.values(X)
    for number in range(0, len(oracle._table), 7):
        others = oracle.neighbours(V, np.full(len(V), number))
        assert spec.are_similar(oracle.space.encode(V), oracle.space.encode(others)).all()


def test_boxes_for_other_verifiers_hold_every_similar_person():
    spec, _, X = band_case(rows=5)
    for x in X:
        lower, upper, relaxed = region_boxes(spec, x, 10_000)
        assert relaxed == ()
        _, points = next(spec.points(x[None]))
        inside = ((lower[None] <= points[:, None]) & (points[:, None] <= upper[None])).all(axis=2).any(axis=1)
        assert inside.all()
        assert len(lower) == len(points)


def test_a_similarity_in_words():
    from fairmend.spec.describe import describe_neighbourhood, describe_role, describe_similarity

    spec = band_spec()
    assert describe_role(spec.features[1]) == "any value of the same band: 3 bands (from 20, 24 and 29)"
    assert "age (within its band)" in describe_similarity(spec)
    assert describe_neighbourhood(spec) == "Each neighbourhood has up to 120 people, fewer in smaller bands."
