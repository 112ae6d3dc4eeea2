"""auto runs the recipes that can win, selects one by the policy, and reports every one."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError, Feature, Network, Spec
from fairmend.network import Activation, Affine
from fairmend.repairing import demands
from fairmend.repairing import selection as auto
from fairmend.repairing.choice import Judgement
from fairmend.repairing.head.solve import repair_head
from fairmend.repairing.options import HeadOptions, Policy
from fairmend.repairing.recipe import Recipe, blind_and_distil
from fairmend.repairing.task import Deadline, prepare_task
from support.blind_cases import SPEC, TOLERANT, case

QUICK = tuple(replace(recipe, distil_steps=min(recipe.distil_steps, 20)) for recipe in auto.EVERYONE)
HOPELESS = Recipe("hopeless", learning_rate=-1.0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(auto, "EVERYONE", QUICK)
    monkeypatch.setattr(auto, "STEPS", 20)
    monkeypatch.setattr(auto, "LISTED_STEPS", 5)
    monkeypatch.setattr(auto, "CERTIFIED_STEPS", 50)
    monkeypatch.setattr(auto, "PROF", Recipe("prof", steps=10))


def arguments(spec, seed):
    network, X_repair, X_cal, y_cal = case(spec, seed)
    return network, spec, X_repair, X_cal, y_cal


def chosen(result):
    (candidate,) = [candidate for candidate in result.candidates if candidate.chosen]
    return candidate


def income_decides(weight=4.0):
    """A network over TOLERANT that hears income only, and rows: no other feature can replace it."""
    first = Affine(np.array([[0.0, weight, 0.0], [0.0, -weight, 0.0]], np.float32), np.zeros(2, np.float32))
    head = Affine(np.array([[1.0, -1.0]], np.float32), np.zeros(1, np.float32))
    network = Network([first, head], [Activation("relu")])
    X = TOLERANT.sample_inputs(80, np.random.default_rng(0))
    X = X[np.abs(X[:, 1]) > 0.2]
    return network, TOLERANT, X[:20], X[20:], network.predict(X[20:])


@cache  # several tests look at the same repairs
def income_repaired(**policy):
    return fairmend.repair(*income_decides(), **policy)


@cache
def repaired(number, /, **options):
    return fairmend.repair(*arguments(SPEC, number), **options)


def test_where_every_feature_is_protected_the_paper_s_method_does_not_run():
    network, spec, X_repair, X_cal, y_cal = income_decides()
    everything = Spec([replace(feature, protected=True, tolerance=0.0) for feature in spec.features], spec.label)
    result = fairmend.repair(network, everything, X_repair, X_cal, y_cal)
    assert result.collapsed
    assert result.candidates[-1].problem == "not run: every feature is protected, so only a constant network is fair"
    assert result.warnings[0].endswith("so only a constant network is fair: protect fewer")


@pytest.mark.parametrize(("spec", "names"), [(SPEC, ("age", "group")), (TOLERANT, ("age", "income"))])
def test_a_network_that_ignores_all_that_varies_is_proven_for_everyone(spec, names):
    result = fairmend.repair(*arguments(spec, 1), keep=1.0)
    assert result.everyone
    assert not result.collapsed
    assert result.blind_features == names
    assert chosen(result).guarantee == "everyone"
    assert chosen(result).level == 2
    assert chosen(result).unfair_rate == 0
    assert any(candidate.on_frontier for candidate in result.candidates)
    everyone = "For every input within the ranges of the spec, the output of this model"
    claim = f"{everyone} does not depend on {' or '.join(names)}."
    assert result.certificate.claim.startswith(f"{claim} The values of these features are: ")
    assert all(candidate.reason for candidate in result.candidates)


def test_with_few_rows_the_network_that_is_only_blind_is_preferred():
    network, spec, X_repair, X_cal, y_cal = arguments(SPEC, 1)
    rows = np.resize(X_cal, (auto.FEW_ROWS - len(X_cal), X_cal.shape[1]))
    names = {}
    for unlabelled in (rows[1:], rows):
        task = prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0, X_unlabelled=unlabelled)
        names[len(unlabelled)] = [recipe.name for recipe in auto.everyone_recipes(task)]
    assert list(names.values()) == [["blind", "blind, distilled"], ["blind, distilled", "blind"]]


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "learnt"), [(120, 0, True), (500, 0, False), (200, 799, False), (200, 800, True)]
)
def test_distillation_learns_labels_where_rows_are_few_or_most_have_none(labelled, unlabelled, learnt):
    network, spec, X_repair, X_cal, y_cal = arguments(SPEC, 1)
    X, rest = (np.resize(X_cal, (rows, X_cal.shape[1])) for rows in (labelled, unlabelled))
    y = np.resize(y_cal, labelled)
    distilled = []
    for labels in (y, 1 - y):
        task = prepare_task(network, spec, X_repair, X, labels, HeadOptions(), 0, X_unlabelled=rest)
        (recipe,) = [recipe for recipe in auto.everyone_recipes(task) if recipe.distil_steps]
        distilled += blind_and_distil(recipe, [task])
    assert (distilled[0] != distilled[1]) == learnt


def test_recipes_that_cannot_win_are_not_run_and_say_why():
    result = fairmend.repair(*arguments(TOLERANT, 1), keep=1.0)
    skipped = result.candidates[len(QUICK) :]
    assert [candidate.recipe.name for candidate in skipped][-1] == "prof"
    assert all(
        c.problem == "not run: a network with the same guarantee or a stronger one keeps the model" for c in skipped
    )
    strict = fairmend.repair(*arguments(SPEC, 1))
    assert strict.candidates[-1].problem.startswith("not run: a network ")


def test_where_a_tolerant_feature_is_needed_the_guarantee_is_weaker_and_the_model_is_kept():
    result = income_repaired()
    assert chosen(result).guarantee == "everyone, and the repair inputs with tolerance or links"
    assert chosen(result).level == 1
    assert result.blind
    assert not result.everyone
    assert result.proof.covers_inference.all()
    assert "income by up to 0.05" in result.certificate.claim
    assert chosen(result).balanced_accuracy > 0.9


def test_the_slowest_recipe_for_scores_runs_only_where_no_other_network_keeps_the_model(monkeypatch):
    network, spec, *rows = income_decides()
    scores = Spec(spec.features, claim={"kind": "score", "delta": 0.3, "on": "probability"})
    kept = fairmend.repair(network, scores, *rows)
    (slow,) = [each for each in kept.candidates if each.recipe.name.endswith("linear bounds")]
    assert slow.problem == "not run: a network with the same guarantee or a stronger one keeps the model"
    monkeypatch.setattr(auto._Contest, "kept", False)
    monkeypatch.setattr(auto._Contest, "surely_kept", False)
    lost = fairmend.repair(network, scores, *rows)
    (slow,) = [each for each in lost.candidates if each.recipe.name.endswith("linear bounds")]
    assert slow.proven


def test_a_guarantee_for_everyone_that_was_demanded_is_given_and_its_price_is_told():
    result = income_repaired(guarantee="everyone")
    assert result.everyone
    assert {candidate.problem[:7] for candidate in result.candidates[len(QUICK) :]} == {"not run"}
    lost = "no proven candidate keeps accuracy and balanced accuracy within 2 points"
    assert any(lost in warning for warning in result.warnings)


def test_where_the_model_is_lost_a_weaker_guarantee_is_named_if_the_policy_accepts_one():
    (warning,) = [each for each in repaired(2).warnings if "accuracy within" in each]
    assert (
        'or guarantee="listed" (--guarantee listed), which accepts a proof for the repair inputs alone, may help'
        in warning
    )
    strict = repaired(2, guarantee="everyone")
    (warning,) = [each for each in strict.warnings if "accuracy within" in each]
    assert warning.endswith("unlabelled rows, or a spec in which fewer features vary may help")


def test_decisions_are_compared_with_100_per_cent():
    result = repaired(2, prefer="decisions")
    (warning,) = [each for each in result.warnings if each.startswith("no proven candidate")]
    assert warning.startswith("no proven candidate keeps agreement with the original within 2 points of 100 %: blind")
    with pytest.raises(FairmendError, match=r"agreement with the original is about [\d.]+ points below 100 %; allow"):
        fairmend.repair(*arguments(SPEC, 2), prefer="decisions", guarantee="everyone", keep=0.001)


def test_a_network_that_collapsed_is_marked_where_there_is_no_other():
    result = income_repaired(guarantee="everyone")
    assert result.collapsed == chosen(result).collapsed
    assert result.collapsed
    assert "all proven candidates collapsed" in chosen(result).reason


def test_a_network_that_collapsed_but_keeps_the_accuracy_is_not_said_to_lose_it():
    """The labels are the opposite of what the original predicts: nothing is worse."""
    *rest, y_cal = income_decides()
    result = fairmend.repair(*rest, 1 - y_cal, guarantee="everyone")
    assert result.collapsed
    assert any(warning.startswith("every proven candidate collapsed: blind") for warning in result.warnings)


def test_a_policy_that_no_candidate_meets_is_an_error_that_names_the_closest():
    with pytest.raises(
        FairmendError, match=r"^keep=0\.001: no proven candidate stays within it\. The closest is blind"
    ):
        fairmend.repair(*arguments(SPEC, 2), guarantee="everyone", keep=0.001)


def test_with_guarantee_listed_the_papers_method_runs_as_well():
    result = repaired(1, guarantee="listed")
    assert result.candidates[-1].recipe.name == "prof"
    assert result.candidates[-1].proven
    assert result.candidates[-1].level == 0


def test_step_2_of_a_candidate_stops_after_so_many_solver_runs(monkeypatch):
    asked = []

    def recorded(*args, most_solves, **options):
        asked.append(most_solves)
        return repair_head(*args, most_solves=most_solves, **options)

    monkeypatch.setattr(demands, "repair_head", recorded)
    fairmend.repair(*arguments(SPEC, 1), guarantee="listed")
    assert set(asked) == {auto.MOST_SOLVES}
    asked.clear()
    fairmend.repair(*arguments(SPEC, 1), method="prof", training=fairmend.TrainingOptions(steps=10))
    assert set(asked) == {math.inf}


def test_mixtures_ignore_all_but_one_of_several_tolerant_features():
    features = [
        Feature("age", "integer", range=(0, 9), protected=True),
        *(Feature(f"x{k}", "continuous", range=(-3, 3), tolerance=0.05) for k in range(5)),
    ]
    spec = Spec(features)
    network, X_repair, X_cal, y_cal = case(spec, 1)
    recipes = auto.listed_recipes(prepare_task(network, spec, X_repair, X_cal, y_cal, HeadOptions(), 0))
    mixtures = [recipe for recipe in recipes if recipe.name.startswith("blind but for")]
    assert len(mixtures) == auto.MOST_MIXTURES
    for recipe in mixtures:
        (kept,) = {f.name for f in features} - {f.name for f in recipe.blinded_features(spec)}
        assert recipe.name == f"blind but for {kept}"


def test_the_same_seed_gives_the_same_network_and_table():
    first, second = repaired(3, seed=4), fairmend.repair(*arguments(SPEC, 3), seed=4)
    assert first.network == second.network
    assert first.candidates == second.candidates


def test_where_all_labels_are_equal_the_decisions_of_the_original_are_kept():
    """A network without income has the same accuracy on them, and decides something else."""
    *rest, y_cal = income_decides()
    result = fairmend.repair(*rest, np.zeros_like(y_cal))
    assert result.policy.prefer == "decisions"
    assert chosen(result).level == 1
    assert chosen(result).agreement > 0.9
    assert any("; auto keeps the decisions of the original network instead" in each for each in result.warnings)
    asked = fairmend.repair(*rest, np.zeros_like(y_cal), prefer="accuracy")
    assert asked.policy.prefer == "accuracy"
    assert not any("auto keeps the decisions" in each for each in asked.warnings)


def test_a_tolerance_that_is_proven_for_listed_people_offers_bands():
    result = income_repaired()
    assert chosen(result).level == 1
    (warning,) = [each for each in result.warnings if "Bands instead" in each]
    assert "income are proven for the repair inputs only" in warning
    assert "bands = {width = " in warning


def test_unlabelled_rows_are_used():
    network, spec, X_repair, X_cal, y_cal = arguments(SPEC, 3)
    more = spec.sample_inputs(200, np.random.default_rng(0))
    with_more = fairmend.repair(network, spec, X_repair, X_cal, y_cal, X_unlabelled=more)
    without = repaired(3)
    assert with_more.network != without.network
    with pytest.raises(FairmendError, match="prof does not use it; use method auto, blind or average"):
        fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="prof", X_unlabelled=more)


def test_a_network_is_hopeless_if_it_loses_the_model_on_its_own_rows_and_another_is_clearly_better():
    network, spec, *rows = arguments(SPEC, 5)
    task = prepare_task(network, spec, *rows, HeadOptions(), 0)
    contest = auto._Contest(task, Judgement(Policy(), task))
    judged = contest.jury.judge(QUICK[1])
    wrong = replace(judged, outputs=-judged.outputs)
    assert not contest._is_hopeless(wrong)  # nothing else is proven yet
    contest.judged.append(judged)
    assert contest._is_hopeless(wrong)
    assert not contest._is_hopeless(judged)
    assert not contest._is_hopeless(replace(judged, outputs=network.logits(task.X_cal)))


def test_a_candidate_that_fails_is_reported_with_the_reason_and_not_selected(monkeypatch):
    monkeypatch.setattr(auto, "EVERYONE", (QUICK[0], HOPELESS))  # with few rows, the last comes first
    failed, selected, _ = fairmend.repair(*arguments(SPEC, 5)).candidates
    assert "learning_rate is -1.0" in failed.problem
    assert not failed.proven
    assert selected.chosen


def test_where_nothing_can_be_proven_the_first_reason_is_given(monkeypatch):
    monkeypatch.setattr(auto, "EVERYONE", (HOPELESS,))
    monkeypatch.setattr(auto, "PROF", HOPELESS)
    with pytest.raises(FairmendError, match=r"no recipe gave a proven repair; first failure: learning_rate"):
        fairmend.repair(*arguments(SPEC, 5))


class Clock:
    """A clock that moves on by one second each time it is read."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def timed(limit):
    network, spec, *rows = arguments(SPEC, 5)
    return prepare_task(network, spec, *rows, HeadOptions(), 0, Deadline(limit, Clock()))


def test_recipes_that_have_no_time_left_do_not_run_and_say_so():
    selection = auto.select_repair(timed(1.5), Policy())  # the clock is read once before each recipe
    blind, distilled, prof = selection.candidates
    assert distilled.problem == "time limit: the 1.5 s ended before this recipe was run"
    assert blind.chosen
    assert prof.problem.startswith("not run: ")
    assert "the time limit of 1.5 s ended before auto had evaluated blind, distilled;" in selection.warnings[0]


def test_a_recipe_is_stopped_in_its_training_when_the_time_is_up():
    blind, distilled, _ = auto.select_repair(timed(9)).candidates  # the clock is read before each step of training, too
    assert distilled.problem == "time limit: the 9 s ended while this recipe was run"
    assert blind.chosen


def test_step_1_of_a_recipe_is_stopped_when_the_time_is_up(monkeypatch):
    trained = replace(QUICK[1], name="trained", steps=50, blind_to=None)
    monkeypatch.setattr(auto, "EVERYONE", (trained, QUICK[1]))  # with few rows, the last comes first
    selection = auto.select_repair(timed(9))
    assert selection.candidates[1].problem == "time limit: the 9 s ended while this recipe was run"
    assert selection.candidates[0].chosen


def test_enough_time_changes_nothing():
    limited, unlimited = fairmend.repair(*arguments(SPEC, 3), time_limit=1e6), repaired(3)
    assert limited.network == unlimited.network
    assert limited.warnings == unlimited.warnings


def test_a_time_limit_that_ends_before_anything_is_proven_is_an_error():
    with pytest.raises(FairmendError, match=r"no recipe gave a proven repair within the time limit of 0.5 s; allow"):
        auto.select_repair(timed(0.5))


def test_the_time_limit_is_one_for_the_whole_call():
    with pytest.raises(FairmendError, match="within the time limit of 1e-09 s"):
        fairmend.repair(*arguments(SPEC, 5), time_limit=1e-9)


def test_a_regression_keeps_its_fit_and_has_a_claim_about_scores_for_everyone():
    spec = Spec.from_dict(
        {
            "label": {"column": "price"},
            "claim": {"kind": "score", "delta": 0.05, "on": "output"},
            "feature": SPEC.to_dict()["feature"],
        }
    )
    network, X_repair, X_cal, _ = case(spec, 1)
    targets = network.logits(X_cal).astype(np.float64)
    result = fairmend.repair(network, spec, X_repair, X_cal, targets)
    assert result.everyone
    assert chosen(result).balanced_accuracy == chosen(result).accuracy <= 1
    assert "R²" in chosen(result).reason
    assert 0 <= chosen(result).agreement <= 1


def test_a_threshold_and_a_bias_moved_by_its_log_odds_make_the_same_choice():
    """The offset of 0.3 is not baked in: auto sees the same decisions, and chooses the same, for the moved network."""
    network, X_repair, X, y = case(SPEC, 12, rows=60)
    labelled = Spec(SPEC.features, fairmend.Label("outcome", "1"))
    at = network.at_threshold(0.3)
    head = Affine(network.head.weight, (network.head.bias + np.float32(at.offset)).astype(network.dtype))
    moved = network.with_affines([*network.affines[:-1], head])
    plain = fairmend.repair(network, labelled, X_repair, X, y, seed=3, prefer="decisions")
    there = fairmend.repair(moved, labelled.at_threshold(0.3), X_repair, X, y, seed=3, prefer="decisions")
    assert there.network.threshold == 0.3
    assert there.original_accuracy == plain.original_accuracy
    for one, other in zip(plain.candidates, there.candidates, strict=True):
        if not one.recipe.distil_steps and one.proven:  # training towards other probabilities gives other networks
            assert (one.recipe, one.accuracy, one.changed) == (other.recipe, other.accuracy, other.changed)
