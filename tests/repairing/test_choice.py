"""The choice follows the policy, knows the noise of the rows, and says why."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.base.metrics import balanced_accuracy
from fairmend.network.decision import predicted_classes
from fairmend.repairing.candidates import GUARANTEES, Candidate, JudgedCandidate
from fairmend.repairing.choice import Fall, FallEstimate, Judgement, choose, class_probabilities
from fairmend.repairing.measures import Classes
from fairmend.repairing.options import HeadOptions, Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.task import prepare_task
from support.blind_cases import SPEC, case

LABELLED, ROWS = 500, 3000


def two_features(rng, weight):
    """Return people, their classes, and the logits of a network that reads both features, and of one that reads one."""
    x, z = rng.normal(size=(2, ROWS))
    odds = 1.5 * x + weight * z - 0.5
    return (rng.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(np.int64), odds, (1.5 * x - 0.5)


def estimates(before, after, y, sure=1.0):
    """Return both estimates for an original with these logits, which are ``sure`` times what they should be."""
    logits = sure * before
    classes = logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0).astype(np.int64)
    task = SimpleNamespace(
        y_cal=y[:LABELLED],
        data=SimpleNamespace(logits=logits),
        original_predictions=classes,
        model=SimpleNamespace(decide=predicted_classes),
    )
    return FallEstimate(task)(after)


def estimate(before, after, y, sure=1.0):
    return estimates(before, after, y, sure)[1]


def fall(before, after, y):
    return balanced_accuracy(y, (before > 0).astype(np.int64)) - balanced_accuracy(y, (after > 0).astype(np.int64))


@pytest.mark.parametrize("sure", [1.0, 5.0])
@pytest.mark.parametrize("weight", [0.2, 1.0])
def test_the_estimate_has_less_error_than_labels_alone_even_if_the_original_is_too_sure(weight, sure):
    errors, by_labels = [], []
    draws = (two_features(np.random.default_rng(seed), weight) for seed in range(100, 110))
    expected = np.mean([fall(before, after, y) for y, before, after in draws])
    for seed in range(40):
        y, before, after = two_features(np.random.default_rng(seed), weight)
        errors.append(estimate(before, after, y, sure).value - expected)
        by_labels.append(fall(before[:LABELLED], after[:LABELLED], y[:LABELLED]) - expected)
    assert np.sqrt(np.mean(np.square(errors))) < 0.85 * np.sqrt(np.mean(np.square(by_labels)))
    assert abs(np.mean(errors)) < 0.005


def test_nothing_changed_is_no_fall():
    y, before, _ = two_features(np.random.default_rng(0), 1.0)
    assert estimate(before, 2 * before, y) == Fall(0.0)


def test_labels_decide_where_they_contradict_the_probabilities():
    """All labels say that the candidate is right in the rows in which the original is most sure of itself."""
    y, before, _ = two_features(np.random.default_rng(0), 1.0)
    sure = before > 2
    after, y = np.where(sure, -before, before), np.where(sure, 0, y)
    by_labels = fall(before[:LABELLED], after[:LABELLED], y[:LABELLED])
    assert by_labels < -0.05
    assert estimate(before, after, y).value < by_labels / 2


def test_several_classes():
    rng = np.random.default_rng(0)
    before = rng.normal(size=(ROWS, 3))
    y = (before + rng.gumbel(size=before.shape)).argmax(axis=1)
    after = before.copy()
    after[:, 2] -= 0.8
    own, other = (balanced_accuracy(y, logits.argmax(axis=1)) for logits in (before, after))
    assert estimate(before, after, y).value == pytest.approx(own - other, abs=0.015)


def test_probabilities_correct_slope_and_offset():
    y, before, _ = two_features(np.random.default_rng(1), 1.0)
    odds = np.column_stack([np.zeros(ROWS), 4 * before + 3])
    found = class_probabilities([odds], y)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-before)), atol=0.05)


def test_labels_that_are_all_of_one_class_give_an_estimate():
    y, before, after = two_features(np.random.default_rng(1), 1.0)
    assert np.isfinite(estimate(before, after, np.ones_like(y)).value)


def test_the_more_decisions_change_the_less_is_known():
    y, before, after = two_features(np.random.default_rng(1), 1.0)
    few = np.where(np.arange(ROWS) % 10 == 0, after, before)
    many, some = (estimate(before, each, y) for each in (after, few))
    assert many.error > some.error > 0
    assert many.within(many.value)
    assert not many.within(many.value, errors=1.0)


def test_accuracy_can_fall_while_balanced_accuracy_gains():
    """A network that predicts the rare class for far more people finds more of them, and is wrong more often."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=ROWS)
    y = (rng.random(ROWS) < 1 / (1 + np.exp(2.5 - 1.2 * x))).astype(np.int64)
    before, after = 1.2 * x - 2.5, 1.2 * x - 0.6
    accuracy, balanced = estimates(before, after, y)
    assert (accuracy.measure, balanced.measure) == ("accuracy", "balanced accuracy")
    assert accuracy.value == pytest.approx(np.mean((before > 0) == y) - np.mean((after > 0) == y), abs=0.02)
    assert accuracy.value > 0.02 > 0 > balanced.value


NETWORK, X_REPAIR, X_CAL, Y = case(SPEC, 3, rows=420)
TASK = prepare_task(NETWORK, SPEC, X_REPAIR, X_CAL, Y, HeadOptions(), 0)  # the labels are the network's predictions


def candidate(name, wrong, level=2, unfair=0.0, **more):
    """A candidate that is wrong in these rows."""
    predictions = Y.copy()
    predictions[wrong] = 1 - predictions[wrong]
    kept = balanced_accuracy(Y, predictions)
    figures = Candidate(
        Recipe(name), GUARANTEES[level], float(np.mean(predictions == Y)), kept, float(np.mean(predictions != Y)),
        kept, unfair, collapsed=Classes().has_collapsed(Y, predictions), **more,
    )  # fmt: skip
    return JudgedCandidate(figures, None, 2.0 * predictions - 1)


def choice(*judged, **policy):
    made = choose(judged, Judgement(Policy(**policy), TASK))
    assert all(made.reasons)
    return judged[made.winner].candidate.recipe.name, made


FEW, SOME, MANY, ALMOST_ALL = (slice(0, n) for n in (2, 6, 60, 390))


def test_the_strongest_guarantee_that_keeps_the_model_wins():
    name, made = choice(candidate("everyone", FEW), candidate("listed", slice(0, 0), level=0))
    assert name == "everyone"
    assert made.keeps
    assert made.reasons[1] == "the guarantee is weaker: for the repair inputs"


def test_a_weaker_guarantee_wins_if_no_stronger_one_keeps_the_model():
    name, made = choice(candidate("everyone", MANY), candidate("tolerant", FEW, level=1), candidate("prof", FEW, 0))
    assert name == "tolerant"
    assert "points below the original's, more than 2 points" in made.reasons[0]


def test_guarantee_everyone_takes_no_other_and_listed_gives_no_weight_to_more():
    pair = candidate("everyone", SOME), candidate("listed", slice(0, 0), level=0)
    assert choice(*pair, guarantee="everyone")[0] == "everyone"
    assert choice(*pair, guarantee="listed")[0] == "listed"
    with pytest.raises(FairmendError, match='guarantee="everyone": no recipe'):
        choice(pair[1], guarantee="everyone")


def test_a_keep_that_was_asked_for_is_demanded():
    with pytest.raises(FairmendError, match=r"keep=0.02: no proven candidate stays within it. The closest is some,"):
        choice(candidate("many", MANY), candidate("some", slice(0, 20)), keep_required=True)


def test_without_one_that_keeps_the_model_the_one_that_keeps_the_most_is_taken():
    name, made = choice(candidate("everyone", slice(0, 90)), candidate("prof", MANY, level=0))
    assert name == "prof"
    assert not made.keeps
    assert "no candidate stays within 2 points" in made.reasons[1]
    assert choice(candidate("everyone", MANY), candidate("prof", slice(0, 90), level=0))[0] == "everyone"


def test_a_stronger_guarantee_is_no_tie_break_if_none_keeps_the_model():
    """Both lose rows of their own, so that a few rows more are within the noise of the paired difference."""
    name, made = choice(candidate("everyone", slice(0, 66)), candidate("prof", slice(100, 160), level=0, unfair=0.03))
    assert name == "prof"
    assert made.reasons[0].endswith("with the selected guarantee, less is lost")


def test_if_none_keeps_the_model_the_first_of_equals_is_taken():
    name, made = choice(candidate("first", MANY), candidate("second", MANY))
    assert name == "first"
    assert made.reasons[1].endswith("not clearly different from the selected one's, which comes first")


def test_a_loss_of_accuracy_counts_though_balanced_accuracy_gains():
    judged = candidate("eager", FEW)
    judgement = Judgement(Policy(), TASK)
    judgement.falls = lambda judged: (Fall(0.03, measure="accuracy"), Fall(-0.02))
    assert judgement.fall(judged).measure == "accuracy"
    assert not judgement.keeps(judged)
    made = choose([judged], judgement)
    assert not made.keeps


def test_a_collapsed_network_is_never_chosen_while_another_is_proven():
    name, made = choice(candidate("collapsed", ALMOST_ALL), candidate("bad", MANY, level=0))
    assert name == "bad"
    assert made.reasons[0].startswith("collapsed")
    name, made = choice(candidate("collapsed", ALMOST_ALL))
    assert made.reasons[0].startswith("all proven candidates collapsed; this one is the best")
    made = choice(candidate("collapsed", ALMOST_ALL), candidate("again", ALMOST_ALL))[1]
    assert made.reasons[1] == "collapsed too, and is not better than the selected one"
    with pytest.raises(FairmendError, match=r"keep=0.02: every proven candidate collapsed"):
        choice(candidate("collapsed", ALMOST_ALL), keep_required=True)


def test_of_two_that_cannot_be_told_apart_the_first_wins():
    """They differ in four rows, two each way."""
    first, second = candidate("first", [0, 1, 2]), candidate("second", [2, 3, 4])
    name, made = choice(first, second)
    assert name == "first"
    assert "is not clearly different from the selected one's, which comes first" in made.reasons[1]


def test_of_two_that_can_the_better_wins_though_it_comes_second():
    name, made = choice(candidate("first", slice(0, 8)), candidate("second", slice(0, 1)), keep=0.05)
    assert name == "second"
    assert "against" in made.reasons[0]


def test_of_equals_the_one_that_leaves_less_unfairness_wins():
    name, made = choice(candidate("unfair", FEW, 1, unfair=0.1), candidate("fair", FEW, 1, unfair=0.01))
    assert name == "fair"
    assert "leaves more people treated unequally" in made.reasons[0]


def test_decisions_are_compared_with_the_original_network_and_not_with_labels():
    judgement = Judgement(Policy(prefer="decisions"), TASK)
    assert judgement.original == 1
    assert judgement.measure == "agreement with the original"
    assert judgement.kept(candidate("some", SOME).candidate) == candidate("some", SOME).candidate.agreement


def test_a_candidate_that_surely_keeps_the_model_wins_over_a_stronger_guarantee_that_may_not():
    """Both are within the limit, but so many decisions changed in the first that its fall is not well known."""
    risky, sure = candidate("risky", slice(0, 10)), candidate("sure", FEW, level=1)
    judgement = Judgement(Policy(), TASK)
    fall = judgement.fall(risky)
    keep = fall.value + fall.error / 2
    assert not Judgement(Policy(keep=keep), TASK).surely_keeps(risky)
    name, made = choice(risky, sure, keep=keep)
    assert name == "sure"
    assert made.keeps
    assert "may be more than" in made.reasons[0]
    assert choice(risky, sure, keep=fall.value + 2 * fall.error)[0] == "risky"


def test_a_candidate_that_leaves_more_people_unequal_than_before_is_not_preferred():
    worse = candidate("listed", slice(0, 0), level=0, unfair=0.2, more_unequal=True)
    name, made = choice(candidate("everyone", MANY), worse)
    assert name == "everyone"
    assert made.reasons[1] == "leaves more people of the data treated unequally than the original does"
    assert not made.keeps


def test_it_is_chosen_if_it_alone_keeps_what_the_policy_demands_or_nothing_else_is_sound():
    worse = candidate("listed", slice(0, 0), level=0, unfair=0.2, more_unequal=True)
    assert choice(candidate("everyone", MANY), worse, keep=0.02, keep_required=True)[0] == "listed"
    assert choice(candidate("everyone", ALMOST_ALL), worse)[0] == "listed"
    assert choice(worse)[0] == "listed"
