"""The sentences about the choice of auto: the policy, the recipes that were not run, and a collapse."""

from types import SimpleNamespace

import pytest

from fairmend.evaluate.selection_summary import describe_collapse, describe_policy, describe_unrun, was_run
from fairmend.repairing.options import Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.selection import Candidate
from support.cli_case import small_spec


def test_the_policy_is_said_with_its_figures():
    assert describe_policy(Policy()) == (
        "Of the candidates whose accuracy and balanced accuracy are at most 2 points below the original network's, "
        "auto takes those with the strongest guarantee, and of these the one that keeps the most balanced accuracy, or "
        "the first of those that are not clearly different."
    )
    assert "whose R² is at most 0.02 below the original network's, auto" in describe_policy(Policy(), "R²")
    everyone = describe_policy(Policy(0.005, "everyone", "decisions"))
    assert everyone.startswith("Only a proof for everyone counts.")
    assert "decisions is at most 0.5 points below 100 %" in everyone
    assert describe_policy(Policy(0.01, "listed")).startswith("A proof for the repair inputs is enough.")
    assert "at most 1 point below" in describe_policy(Policy(0.01))


def test_recipes_that_were_not_run_are_one_sentence():
    ran = Candidate(Recipe("blind"), "everyone")
    failed = Candidate(Recipe("prof"), problem="HiGHS does not accept a row")
    assert describe_unrun([ran, failed]) == ""
    assert was_run(failed)
    late = [Candidate(Recipe(name), problem="not run: it cannot win") for name in "ab"]
    assert describe_unrun([ran, *late]) == "2 recipes were not run: it cannot win."
    assert describe_unrun([ran, late[0]]) == "1 recipe was not run: it cannot win."


@pytest.mark.parametrize(
    ("options", "helps", "not_said"),
    [
        ({"policy": Policy()}, ["--guarantee listed", "more calibration rows than 500"], ["tolerances", "scaled"]),
        ({"policy": Policy(guarantee="listed")}, ["calibration rows"], ["--guarantee"]),
        ({"policy": None}, ["method auto"], ["--guarantee"]),
    ],
)
def test_a_collapse_names_what_helps_here(options, helps, not_said):
    result = SimpleNamespace(candidates=(), **options)
    said = describe_collapse(result, small_spec(), 500)
    assert said.startswith("Collapsed: ")
    assert "\n" not in said
    assert all(word in said for word in helps)
    assert not any(word in said for word in not_said)


def test_tolerances_and_large_inputs_are_named_where_there_are_any():
    result = SimpleNamespace(candidates=(1,), policy=Policy())
    said = describe_collapse(result, small_spec(protected=False, tolerance=1.0, scale=None), 500)
    assert "smaller tolerances in the spec" in said
    assert "scaled inputs (not scaled: age)" in said
