"""The choice follows the policy, knows the noise of the rows, and says why."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.base.metrics import balanced_accuracy
from fairmend.repairing.candidates import GUARANTEES, Candidate, JudgedCandidate, lost_classes
from fairmend.repairing.choice import Judgement, choose
from fairmend.repairing.fall import Fall
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.policy import Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.task import prepare_task
from support.blind_cases import SPEC, case

NETWORK, X_REPAIR, X_CAL, Y = case(SPEC, 3, rows=420)
TASK = prepare_task(NETWORK, SPEC, X_REPAIR, X_CAL, Y, HeadOptions(), 0)  # the labels are the network's predictions


def candidate(name, wrong, level=2, unfair=0.0):
    """A candidate that is wrong in these rows."""
    predictions = Y.copy()
    predictions[wrong] = 1 - predictions[wrong]
    kept = balanced_accuracy(Y, predictions)
    figures = Candidate(
        Recipe(name), GUARANTEES[level], float(np.mean(predictions == Y)), kept, float(np.mean(predictions != Y)),
        kept, unfair, collapsed=lost_classes(Y, predictions),
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
