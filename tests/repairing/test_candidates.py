"""Candidates are judged on rows that their networks did not see."""

import numpy as np
import pytest

from fairmend import FairmendError, Feature, Spec
from fairmend.auditing.neighbours import UnequalInputs, find_unequal
from fairmend.base.metrics import balanced_accuracy
from fairmend.network.input_columns import fix_columns
from fairmend.repairing import candidates
from fairmend.repairing.candidates import (
    FOLDS,
    HopelessError,
    Jury,
    make_folds,
)
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.recipe import Recipe, run_recipe, run_recipe_on_parts
from fairmend.repairing.task import prepare_task
from support.blind_cases import SPEC, TOLERANT, case


def prepared(spec, unlabelled=40):
    network, X_repair, X_cal, y_cal = case(spec, 2)
    more = spec.sample_inputs(unlabelled, np.random.default_rng(1)) if unlabelled else None
    return prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0, None, more)


def test_every_row_judges_exactly_once_and_classes_are_spread():
    task = prepared(SPEC)
    folds = make_folds(task)
    for name, rows in (("labelled", len(task.X_cal)), ("unlabelled", len(task.X_unlabelled))):
        np.testing.assert_array_equal(np.sort(np.concatenate([getattr(f, name) for f in folds])), np.arange(rows))
    counts = [np.bincount(task.y_cal[fold.labelled], minlength=2) for fold in folds]
    assert np.ptp(counts, axis=0).max() <= 1


def test_figures_come_from_networks_that_were_made_without_the_rows():
    task = prepared(TOLERANT)
    recipe = Recipe("few steps", "mean", 0.5, 0.5, steps=5, blind_to="protected")
    jury = Jury(task)
    folds, judged = jury.folds, jury.judge(recipe)
    assert judged.attempt.network == run_recipe(recipe, task).network
    for fold in folds:
        alone = run_recipe(recipe, task.without_rows(fold.labelled, fold.unlabelled)).network
        np.testing.assert_allclose(judged.outputs[fold.labelled], alone.logits(task.X_cal[fold.labelled]), rtol=1e-5)
        rows = len(task.X_cal) + fold.unlabelled
        expected = alone.logits(task.X_unlabelled[fold.unlabelled])
        np.testing.assert_allclose(judged.outputs[rows], expected, rtol=1e-5)
    candidate, all_rows = judged.candidate, (judged.outputs >= 0).astype(np.int64)
    assert candidate.accuracy == np.mean(all_rows[: len(task.y_cal)] == task.y_cal)
    assert candidate.changed == np.mean(all_rows != task.original_predictions)
    assert candidate.agreement == balanced_accuracy(task.original_predictions, all_rows)
    assert candidate.level == 1
    assert candidate.blind_features == ("age",)


def test_a_recipe_that_is_hopeless_on_its_own_rows_is_not_run_without_each_fold(monkeypatch):
    jury = Jury(prepared(SPEC))
    recipe = Recipe("blind", "mean", 0.0, 0.0, steps=0, blind_to="varying")
    asked, parts = [], []

    def counted(recipe, tasks, *rest):
        parts.append(len(tasks))
        return run_recipe_on_parts(recipe, tasks, *rest)

    monkeypatch.setattr(candidates, "run_recipe_on_parts", counted)
    with pytest.raises(HopelessError, match="stopped: even on the rows that it learnt from"):
        jury.judge(recipe, lambda own: asked.append(own) or True)
    assert parts == [1]
    rows = np.concatenate([jury.task.X_cal, jury.task.X_unlabelled])
    np.testing.assert_array_equal(asked[0].outputs, asked[0].attempt.network.logits(rows))
    assert asked[0].candidate.level == 2
    assert jury.judge(recipe, lambda own: False).candidate == Jury(jury.task).judge(recipe).candidate


def test_nobody_is_compared_in_features_that_the_network_ignores_and_the_rate_is_the_same():
    spec = Spec(
        [
            Feature("age", "integer", range=(0, 40), protected=True),
            Feature("sex", "integer", range=(0, 1), protected=True),
            Feature("amount", "integer", range=(0, 20), tolerance=2),
            Feature("income", "continuous", range=(-3, 3)),
        ]
    )
    network, X_repair, X_cal, y_cal = case(spec, 3)
    task = prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0)
    blind = fix_columns(network, [0, 1], np.array([20, 1]))
    fewer = candidates._spec_of_differences(spec, blind)
    assert [feature.name for feature in fewer.varying] == ["amount"]
    rate = candidates.unequal_rows(blind, task, X_cal).rate
    assert rate == find_unequal(blind, spec, X_cal).rate
    assert rate > 0
    assert candidates._spec_of_differences(spec, network) == spec


def test_one_calibration_row_cannot_be_split():
    network, X_repair, X_cal, y_cal = case(SPEC, 1)
    task = prepare_task(network, SPEC, X_repair, X_cal[:1], y_cal[:1], HeadOptions(), 0)
    with pytest.raises(FairmendError, match=f"at least {FOLDS} calibration rows"):
        make_folds(task)


def found(*numbers, exact=True, rows=100):
    """Return that these of the rows are treated unequally."""
    return UnequalInputs(np.isin(np.arange(rows), numbers), exact)


def test_one_person_more_is_more_where_everyone_was_compared():
    assert candidates.are_more([found(1, 2)], [found(1, 2, 3)])
    assert candidates.are_more([found(1), found()], [found(2), found(7)])
    assert not candidates.are_more([found(1, 2)], [found(1, 3)])
    assert not candidates.are_more([found(1, 2)], [found(3)])
    assert not candidates.are_more([found(1), found(7)], [found(2), found()])


def test_chance_is_allowed_for_where_random_counterfactuals_were_tried():
    assert not candidates.are_more([found(exact=False)], [found(1, 2, 3, exact=False)])
    assert candidates.are_more([found(exact=False)], [found(*range(4), exact=False)])
    assert not candidates.are_more([found(*range(20), exact=False)], [found(*range(12, 42), exact=False)])
    assert candidates.are_more([found(*range(20), exact=False)], [found(*range(12, 60), exact=False)])
    assert not candidates.are_more([found(exact=True)], [found(1, exact=False)])


def test_only_rows_that_both_know_are_compared():
    """A network that ignores a feature has smaller neighbourhoods, so more of its rows are compared in time."""
    assert not candidates.are_more([found(1, rows=5)], [found(1, 50, 60)])
    assert candidates.are_more([found(1, rows=5)], [found(1, 3, 60)])
