"""The chart of candidates: every proven one is where its figures say, and its words say the same."""

import re
from dataclasses import replace
from itertools import combinations
from math import dist

import pytest

from fairmend.evaluate.document import PolicySummary, RecipeSummary
from fairmend.report.frontier import GUARANTEES, frontier_chart
from support.html_page import Page

POLICY = PolicySummary(0.02, "any", "accuracy", False, None, None, "balanced accuracy", "")


def candidate(name="blind", guarantee=GUARANTEES[0], balanced=0.8, unfair=0.0, proven=True, **more):
    given = {"chosen": False, "collapsed": False, "on_frontier": False, "accuracy": 0.0, "agreement": 0.9} | more
    given |= {"fall": 0.01, "fall_of": "accuracy", "more_unequal": False}
    return RecipeSummary(
        name=name,
        recipe={},
        guarantee=guarantee,
        balanced_accuracy=balanced,
        changed=0.1,
        unfair_rate=unfair,
        proven=proven,
        ran=True,
        problem="",
        reason="",
        blind_features=[],
        **given,
    )


def circles(drawn):
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)" class="candidate ([^"]*)"', drawn)
    return [(float(x), float(y), float(r), style) for x, y, r, style in found]


def test_further_right_keeps_more_and_further_up_is_the_stronger_guarantee():
    chart = [
        candidate("weak", GUARANTEES[2], 0.84),
        candidate("strong", GUARANTEES[0], 0.80),
        candidate("between", GUARANTEES[1], 0.82),
    ]
    strong, between, weak = circles(frontier_chart(chart, POLICY))  # from the top
    assert strong[0] < between[0] < weak[0]
    assert strong[1] < between[1] < weak[1]


def test_a_candidate_that_is_not_proven_is_not_drawn_and_keeps_its_number():
    shown = [candidate("failed", proven=False), candidate("blind", chosen=True), candidate("other")]
    drawn = frontier_chart(shown, POLICY)
    assert len(circles(drawn)) == 2
    assert re.findall(r'class="key [a-z]+"[^>]*>(\d)<', drawn) == ["3", "2"]  # the selected one is on top


def test_the_circle_grows_with_the_share_still_treated_unequally():
    shown = [[candidate(unfair=share), candidate("x")] for share in (0, 1e-4, 0.01, 0.1)]
    sizes = [circles(frontier_chart(each, POLICY))[0][2] for each in shown]
    assert sizes == sorted(set(sizes))


def test_chosen_frontier_collapsed_and_other_can_be_told_apart():
    drawn = circles(
        frontier_chart(
            [
                candidate("a", balanced=0.80, chosen=True, on_frontier=True),
                candidate("b", balanced=0.82, on_frontier=True),
                candidate("c", balanced=0.84),
                candidate("d", balanced=0.5, collapsed=True),
            ],
            POLICY,
        )
    )
    assert {style for *_, style in drawn} == {"chosen", "frontier", "other", "other collapsed"}


def test_nine_equal_candidates_do_not_hide_each_other_nor_the_name_of_their_guarantee():
    drawn = frontier_chart([candidate(f"recipe {i}", GUARANTEES[1]) for i in range(9)], POLICY)
    found = circles(drawn)
    assert len(found) == 9
    for (x, y, r, _), (u, v, s, _) in combinations(found, 2):
        assert dist((x, y), (u, v)) > r + s
    [name] = [float(y) for y in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>proven for everyone, and', drawn)]
    assert min(y - r for _, y, r, _ in found) > name + 4


@pytest.mark.parametrize(("prefer", "words"), [("accuracy", "balanced accuracy"), ("decisions", "agree")])
def test_the_axis_is_what_the_policy_prefers_and_the_original_is_a_line(prefer, words):
    policy = replace(POLICY, prefer=prefer, original_balanced_accuracy=0.91)
    drawn = frontier_chart([candidate(balanced=0.7), candidate("x", balanced=0.71)], policy)
    assert words in drawn
    assert f"original {'91.0' if prefer == 'accuracy' else '100'}" in drawn
    [line] = [float(x) for x in re.findall(r'<line x1="([\d.]+)"[^>]*class="decision"', drawn)]
    (first, *_), (second, *_) = circles(drawn)
    assert first < second < line if prefer == "accuracy" else first == second < line  # both agree with 90 %
    [(x, width)] = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert float(x) + float(width) == pytest.approx(line, abs=0.01)


@pytest.mark.parametrize(
    ("low", "high"), [(0.5, 0.5), (0.0, 1.0), (0.999, 1.0), (0.75, 0.7512), (1.0, 1.0), (-10.2, -3.0)]
)
def test_every_range_of_figures_has_an_axis(low, high):
    drawn = frontier_chart(
        [candidate(balanced=low), candidate("x", balanced=high)], replace(POLICY, original_balanced_accuracy=high)
    )
    assert not re.search("nan|inf", drawn)
    marks = [float(mark) for mark in re.findall(r'class="tick"[^>]*>(-?[\d.]+)\xa0%', drawn.replace("\u202f", "\xa0"))]
    assert len(marks) >= 2
    assert marks == sorted(set(marks))
    assert marks[0] <= 100 * low <= 100.0
    assert all(30 <= x <= 490 for x, *_ in circles(drawn))


def test_the_text_alternative_names_the_selected_and_the_frontier():
    chart = [
        candidate("blind, distilled", balanced=0.8, chosen=True, on_frontier=True),
        candidate("prof", GUARANTEES[2], 0.83, on_frontier=True),
        candidate("worse", balanced=0.7),
    ]
    [svg] = Page(f"<html>{frontier_chart(chart, replace(POLICY, original_balanced_accuracy=0.85))}</html>").all("svg")
    label = svg["aria-label"].replace("\xa0", " ")
    assert "Selected: blind, distilled." in label
    assert "On the frontier, proven for everyone: blind, distilled (80.0 %)." in label
    assert "proven for the repair inputs: prof (83.0 %)" in label
    assert "The original network: 85.0 %." in label
    assert "worse" not in label
