"""auto selects the proven network that keeps the most of the model, and reports every recipe that it tried."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError, Network
from fairmend.network import Activation, Affine
from fairmend.repair import selection as auto
from fairmend.repair.options import HeadOptions
from fairmend.repair.recipe import Recipe, run_recipe
from fairmend.repair.task import Deadline, prepare_task
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
    monkeypatch.setattr(auto, "TOLERANT", auto.TOLERANT[5:8] + auto.TOLERANT[-1:])
    result = fairmend.repair(*_arguments(TOLERANT, 2))
    assert result.proof.covers_inference.all()
    chosen = next(candidate for candidate in result.candidates if candidate.chosen)
    assert chosen.guarantee == "everyone, and the repair inputs with tolerance"
    assert "income by up to 0.05" in result.certificate.claim


def test_the_same_seed_gives_the_same_network_and_table():
    first, second = (fairmend.repair(*_arguments(SPEC, 3), seed=4) for _ in range(2))
    assert first.network == second.network
    assert first.candidates == second.candidates


def test_a_candidate_that_fails_is_reported_with_the_reason_and_not_selected(monkeypatch):
    monkeypatch.setattr(auto, "STRICT", (Recipe("hopeless", learning_rate=-1.0), auto.STRICT[0]))
    result = fairmend.repair(*_arguments(SPEC, 5))
    failed, selected = result.candidates
    assert "learning_rate is -1.0" in failed.problem
    assert not failed.proven
    assert selected.chosen


def test_where_nothing_can_be_proven_the_first_reason_is_given(monkeypatch):
    monkeypatch.setattr(auto, "STRICT", (Recipe("hopeless", learning_rate=-1.0),))
    with pytest.raises(FairmendError, match=r"no recipe gave a proven repair; first failure: learning_rate"):
        fairmend.repair(*_arguments(SPEC, 5))


def test_a_recipe_that_loses_a_rare_class_is_not_selected(monkeypatch):
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


class Clock:
    """A clock that moves on by one second each time it is read."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def _timed(limit):
    network, spec, *rows = _arguments(SPEC, 5)
    return prepare_task(network, spec, *rows, HeadOptions(time_limit=limit), 0, Deadline(limit, Clock()))


def test_recipes_that_have_no_time_left_do_not_run_and_say_so(monkeypatch):
    runs = []

    def counted(recipe, task, progress=None):
        runs.append(recipe.name)
        return run_recipe(recipe, task, progress)

    monkeypatch.setattr(auto, "run_recipe", counted)
    # A recipe without step 2 reads the clock five times: before its run, and before each of the four folds.
    _, candidates = auto.select_repair(_timed(11.5))
    assert [candidate.proven for candidate in candidates] == [True, True, *[False] * 4]
    assert all(candidate.problem.startswith("time limit: the 11.5 s") for candidate in candidates[2:])
    assert runs == [auto.STRICT[0].name] * 5 + [auto.STRICT[1].name] * 5 + [auto.STRICT[2].name]
    assert sum(candidate.chosen for candidate in candidates) == 1
    assert all(candidate.reason for candidate in candidates)


def test_a_time_limit_that_ends_before_anything_is_proven_is_an_error():
    with pytest.raises(FairmendError, match=r"no recipe gave a proven repair within the time limit of 3 s; allow more"):
        auto.select_repair(_timed(3))


def test_the_time_limit_is_one_for_the_whole_call():
    with pytest.raises(FairmendError, match="within the time limit of 1e-09 s"):
        fairmend.repair(*_arguments(SPEC, 5), time_limit=1e-9)


def test_the_figures_of_a_candidate_come_from_the_rows_that_they_name(monkeypatch):
    """Accuracy and changes are cross-fitted; agreement and unequal treatment are those of the returned network."""
    recipe = Recipe("prof", steps=30)
    monkeypatch.setattr(auto, "TOLERANT", (recipe,))
    network, spec, X_repair, X_cal, y_cal = _arguments(TOLERANT, 2)
    result = fairmend.repair(network, spec, X_repair, X_cal, y_cal)
    task = prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0)
    attempt = run_recipe(recipe, task)
    assert result.network == attempt.network
    (candidate,) = result.candidates
    held_out = np.empty(len(y_cal), np.int64)
    for fold in auto._folds(task):
        rest = np.setdiff1d(np.arange(len(y_cal)), fold)
        held_out[fold] = run_recipe(recipe, task.with_calibration_rows(rest)).network.predict(X_cal[fold])
    assert candidate.accuracy == np.mean(held_out == y_cal)
    assert candidate.changed == np.mean(held_out != network.predict(X_cal))
    assert candidate.unfair_rate == auto._unfair_rate(attempt.network, task)
