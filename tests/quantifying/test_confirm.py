"""A certificate of a quantification claims what the checker confirms, whatever the network and the spec."""

from fractions import Fraction

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.quantifying import run
from fairmend.quantifying.confirm import confirmed_certificate
from fairmend.quantifying.search import search
from support.quantify_cases import CONTINUOUS, MANY, SMALL, TOLERANT, linear
from support.share_cases import CONTINUOUS as TOLERANT_CONTINUOUS
from support.strategies import random_network

SPECS = {"small": SMALL, "tolerant": TOLERANT, "many": MANY, "plain": CONTINUOUS, "continuous": TOLERANT_CONTINUOUS}


def quantified(spec, seed, rounds, monkeypatch):
    """Quantify a random network in so many rounds, however fast the machine is."""
    net = random_network(np.random.default_rng(seed), spec.width, [5, 4], 1 + seed % 3)
    ticks = iter(range(10**6))
    monkeypatch.setattr(run, "search", lambda d, _, *more: search(d, lambda: next(ticks), *more))
    return net, fairmend.quantify(net, spec, seconds=rounds, samples=0)


@pytest.mark.parametrize("name", SPECS)
def test_the_certificate_is_valid_in_every_case_and_claims_no_more_than_the_result(name, tmp_path, monkeypatch):
    for seed in range(4):
        net, found = quantified(SPECS[name], seed, 6, monkeypatch)
        if not found.fair and not found.unfair:
            continue
        net.save(tmp_path / "model.onnx")
        found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
        assert checked.valid, (name, seed, checked.reasons)
        claimed = found.certificate.content["shares"]
        assert claimed["fair"] <= found.fair
        assert claimed["unfair"] <= found.unfair


def test_shares_that_are_too_high_are_lowered_to_what_the_checker_confirms(tmp_path, monkeypatch):
    net, found = quantified(MANY, 5, 4, monkeypatch)
    net.save(tmp_path / "model.onnx")
    confirmed_certificate(found.evidence, 1.0, 1.0).save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons


def test_nothing_confirmed_is_an_error(monkeypatch):
    _, found = quantified(MANY, 5, 4, monkeypatch)
    with pytest.raises(FairmendError, match="the checker confirms no share"):
        confirmed_certificate(found.evidence, 0.0, 0.0)


def test_shares_of_people_who_are_all_decided_are_rounded_down():
    """One third and two thirds are no numbers of a computer."""
    spec = fairmend.Spec(
        [
            fairmend.Feature(name="sex", kind="integer", range=(0, 1), protected=True),
            fairmend.Feature(name="level", kind="integer", range=(0, 2)),
        ]
    )
    found = fairmend.quantify(linear([1, 2], -2.5), spec, seconds=5, samples=0)
    assert found.undecided == 0
    assert Fraction(found.unfair) <= Fraction(1, 3) < Fraction(np.nextafter(found.unfair, 1))
    assert Fraction(found.fair) <= Fraction(2, 3) < Fraction(np.nextafter(found.fair, 1))


@pytest.mark.parametrize("seed", [0, 11])
def test_the_checker_gets_more_pieces_where_few_are_too_loose_for_it(seed, tmp_path, monkeypatch):
    """Its bounds of tanh are looser than those of the search, most of all over ranges of protected values."""
    spec = fairmend.Spec([*MANY.features[:2], *CONTINUOUS.features[1:]])
    net = random_network(np.random.default_rng(seed), spec.width, [6, 5], activation="tanh")
    found = fairmend.quantify(net, spec, seconds=60, share=0.4, samples=0)
    net.save(tmp_path / "model.onnx")
    found.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert checked.valid, checked.reasons
    assert checked.fair + checked.unfair > 0.9 * (found.fair + found.unfair)
    pieces = found.certificate.content["shares"]["pieces"]
    assert np.prod(pieces) > np.prod(found.evidence.space.parts)
