"""auto serves a proven network, the one that keeps most of the model, and shows what else there was."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError, Network
from fairmend.network import Activation, Affine
from fairmend.repair import selection as auto
from fairmend.repair.recipe import Recipe
from support.blind_cases import SPEC, TOLERANT, case


def test_without_tolerances_the_claim_is_about_everyone():
    result = fairmend.repair(*_arguments(SPEC, 1))
    assert result.method == "auto"
    assert result.blind
    assert sum(candidate.chosen for candidate in result.candidates) == 1
    chosen = next(candidate for candidate in result.candidates if candidate.chosen)
    assert chosen.guarantee == "everyone"
    assert chosen.unfair_rate == 0
    assert {candidate.recipe.name for candidate in result.candidates} == {recipe.name for recipe in auto.STRICT}


def test_with_tolerances_the_repair_inputs_are_proven_as_well(monkeypatch):
    monkeypatch.setattr(auto, "TOLERANT", auto.TOLERANT[:3] + auto.TOLERANT[-1:])
    result = fairmend.repair(*_arguments(TOLERANT, 2))
    assert result.proof.covers_inference.all()
    chosen = next(candidate for candidate in result.candidates if candidate.chosen)
    assert chosen.guarantee == "everyone, and the repair inputs with tolerance"
    assert "income by up to 0.05" in result.certificate.claim


def test_the_same_seed_gives_the_same_network_and_table():
    first, second = (fairmend.repair(*_arguments(SPEC, 3), seed=4) for _ in range(2))
    assert first.network == second.network
    assert first.candidates == second.candidates


def test_a_candidate_that_fails_is_shown_with_the_reason_and_not_served(monkeypatch):
    monkeypatch.setattr(auto, "STRICT", (Recipe("hopeless", learning_rate=-1.0), auto.STRICT[0]))
    result = fairmend.repair(*_arguments(SPEC, 5))
    failed, served = result.candidates
    assert "learning_rate is -1.0" in failed.problem
    assert not failed.proven
    assert served.chosen


def test_where_nothing_can_be_proven_the_first_reason_is_given(monkeypatch):
    monkeypatch.setattr(auto, "STRICT", (Recipe("hopeless", learning_rate=-1.0),))
    with pytest.raises(FairmendError, match=r"no recipe gave a proven repair.*learning_rate"):
        fairmend.repair(*_arguments(SPEC, 5))


def test_a_recipe_that_loses_a_rare_class_is_not_served(monkeypatch):
    """The rare answer is given to 1 row in 20: labels of 60 rows would hardly notice that it is gone."""
    weight = np.array([[0.0, 4.0, 0.0], [0.3, 0.0, 0.1]], np.float32)
    head = Affine(np.array([[1.0, 0.05]], np.float32), np.array([-10.5], np.float32))
    network = Network([Affine(weight, np.zeros(2, np.float32)), head], [Activation("relu")])
    rng = np.random.default_rng(0)
    X = TOLERANT.sample_inputs(80, rng)
    y = network.predict(X)
    assert 0 < y.mean() < 0.3
    constant = Recipe("constant", "mean", fairness_weight=300.0, label_weight=0.0, steps=400, learning_rate=0.02)
    gentle = Recipe("gentle", "mean", fairness_weight=0.0, label_weight=0.0, steps=50)
    monkeypatch.setattr(auto, "TOLERANT", (constant, gentle))
    result = fairmend.repair(network, TOLERANT, X[:20], X[20:], y[20:])
    lost, kept = result.candidates
    assert lost.agreement < kept.agreement - auto.KEEPS_PREDICTIONS
    assert kept.chosen
    assert len(np.unique(result.network.predict(X))) == 2


def test_one_calibration_row_cannot_be_split():
    network, X_repair, X_cal, y_cal = case(SPEC, 1)
    with pytest.raises(FairmendError, match="at least 4 calibration rows"):
        fairmend.repair(network, SPEC, X_repair, X_cal[:1], y_cal[:1])


def _arguments(spec, seed):
    network, X_repair, X_cal, y_cal = case(spec, seed)
    return network, spec, X_repair, X_cal, y_cal
