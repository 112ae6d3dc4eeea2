"""The headline of a report: it claims what is proven or found, and no more."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fairmend
from fairmend.base.text import percent
from fairmend.evaluate.document import Unequal
from fairmend.evaluate.summary import (
    describe_collapse,
    describe_policy,
    describe_unrun,
    gap_widened,
    summarize,
    was_run,
)
from fairmend.network import Affine
from fairmend.repairing.options import Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.selection import Candidate
from fairmend.report.page import render
from support.cli_case import small_spec
from support.report_cases import audit_of, people, repair_of, repaired

# The sentences about the choice of auto: the policy, the recipes that were not run, and a collapse.


def test_the_policy_is_said_with_its_figures():
    assert describe_policy(Policy()) == (
        "A candidate keeps the model if its accuracy and balanced accuracy are at most 2 points below the original "
        "network's. Of those that do, auto takes those with the strongest guarantee, and of these the one that keeps "
        "the most balanced accuracy, or the first of those that are not clearly different."
    )
    assert "if its R² is at most 0.02 below the original network's. Of those that do, auto" in describe_policy(
        Policy(), "R²"
    )
    everyone = describe_policy(Policy(0.005, "everyone", "decisions"))
    assert everyone.startswith("Only a proof for everyone counts.")
    assert "decisions is at most 0.5 points below 100 %" in everyone
    assert describe_policy(Policy(0.01, "listed")).startswith("A proof for the repair inputs is enough.")
    assert "at most 1 point below" in describe_policy(Policy(0.01))


def test_recipes_that_were_not_run_are_one_sentence():
    late = "not run: it cannot win"
    assert was_run(Candidate(Recipe("prof"), problem="HiGHS does not accept a row"))
    assert not was_run(Candidate(Recipe("a"), problem=late))
    assert describe_unrun([]) == ""
    assert describe_unrun([late, late]) == "2 recipes were not run: it cannot win."
    assert describe_unrun([late]) == "1 recipe was not run: it cannot win."


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


def test_the_verdict_claims_what_is_proven_and_no_more():
    everyone = summarize(repair_of("auto").document)
    assert (everyone.status, everyone.tag) == ("good", "Proven for everyone")
    some = summarize(repair_of("prof").document)
    assert some.tag == "Proven for 30 repair inputs"
    assert "still treated unequally" in some.sections[2].paragraphs[0]
    assert not any("still treated unequally" in paragraph for paragraph in everyone.sections[2].paragraphs)
    baseline = repair_of("flip").document
    left = baseline.after.repair_inputs.count
    none = summarize(baseline)
    assert baseline.proven_repair_inputs < baseline.repair_inputs
    assert (none.status, none.tag) == ("bad", "Not proven")
    assert none.headline.startswith(f"{left} of the 30" if left else "The method flip gives no guarantee")


def test_a_collapse_is_part_of_the_headline_whatever_is_proven():
    proven = repair_of("auto").document
    collapsed = summarize(replace(proven, collapsed=True))
    assert collapsed.status == "bad"
    assert collapsed.headline.startswith(summarize(proven).headline)
    assert collapsed.headline.endswith("hardly more than chance would.")


def test_features_ignored_besides_the_protected_ones_are_named():
    document = with_tolerance(repair_of("auto").document, blind_features=["age", "gender", "credits"])
    everyone = summarize(document)
    assert (everyone.status, everyone.tag) == ("good", "Proven for everyone")
    assert "does not depend on age, gender or credits" in everyone.headline


def test_none_unequal_and_none_found_are_two_things():
    spec, frame = small_spec(), people()
    blind = repaired("auto")[0].network
    fair = fairmend.report.audit_report(fairmend.audit(blind, spec, frame), blind, spec, frame).document
    assert summarize(fair).status == "good"
    assert "There are none" in render(fair)
    vague, first = small_spec(kind="continuous"), blind.affines[0]
    reads = blind.with_affines([Affine(first.weight + np.float32(1e-9), first.bias), *blind.affines[1:]])
    sampled = fairmend.audit(reads, vague, frame, method="sample")
    unknown = fairmend.report.audit_report(sampled, reads, vague, frame).document
    assert summarize(unknown).status == "open"
    assert "not every possibility could be tried" in summarize(unknown).headline


def with_tolerance(document, **changes):
    similar = replace(document.similar, tolerances={"credits": 1.0})
    return replace(document, similar=similar, **changes)


def test_a_tolerance_is_part_of_the_headline():
    some = summarize(with_tolerance(repair_of("prof").document))
    assert some.headline == (
        "Each of the 30 repair inputs keeps its prediction whatever its age or gender, even if it also differs in "
        "credits by up to 1."
    )
    audit = summarize(with_tolerance(audit_of().document))
    assert audit.headline.endswith("if only their age or gender were different, or their credits by up to 1.")


def test_a_tolerance_that_is_not_proven_is_neither_good_nor_bad():
    partly = summarize(with_tolerance(repair_of("auto").document, proven_repair_inputs=3))
    assert partly.status == "open"
    assert "3 of 30 repair inputs" in partly.tag


def test_the_arithmetic_of_the_proof_is_stated():
    document = repair_of("prof").document
    exact = replace(document, proof_covers_inference=False)
    assert "float32 inference" in " ".join(summarize(document).sections[0].paragraphs)
    assert "It does not cover rounding" in " ".join(summarize(exact).sections[0].paragraphs)


def test_samples_come_with_their_interval():
    document = audit_of(sampled=True).document
    low, high = document.interval
    stated = summarize(document).sections[1].paragraphs[1]
    assert stated == (
        f"Of the whole input space, between {percent(low, 2)} and {percent(high, 2)} is treated unequally "
        "(95 % interval)."
    )


def test_a_gap_has_widened_by_half_a_point_or_more():
    assert gap_widened(0.10, 0.11)
    assert not gap_widened(0.10, 0.104)
    assert not gap_widened(None, 0.5)
    assert not gap_widened(0.5, None)


def test_one_row_that_is_left_is_singular_and_a_lower_bound_is_not_less_than_something():
    document = with_tolerance(repair_of("auto").document)
    after = replace(document.after, data=Unequal(1, 5000, 1 / 5000, exact=False))
    summary = summarize(replace(document, after=after))
    assert summary.sections[2].paragraphs[0] == (
        "Other people: of the 5,000 rows of the data, at least 1 (0.02\N{NO-BREAK SPACE}%) is still treated unequally."
    )
