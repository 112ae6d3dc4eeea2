"""The table of candidates fits a terminal, and says for each one what it gives and why it was not taken."""

import io
from types import SimpleNamespace

import pytest

from fairmend.cli.candidates import _ranges, show_candidates
from fairmend.cli.screen import Screen
from fairmend.repairing.options import Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.selection import Candidate

EVERYONE, PARTLY, LISTED = "everyone", "everyone, and the repair inputs with tolerance or links", "the repair inputs"


def candidate(name, guarantee=EVERYONE, unfair=0.0, reason="balanced accuracy is below 70.0 %", **more):
    return Candidate(Recipe(name), guarantee, 0.81, 0.76, 0.02, 0.97, unfair, reason=reason, **more)


CANDIDATES = (
    candidate("blind", reason="keeps the most", chosen=True, on_frontier=True),
    *(candidate(f"blind, distilled with labels, in {n} ways") for n in range(2, 6)),
    candidate("blind, fairness 0.03, distilled with labels, and a name that is long", PARTLY, 0.0012, on_frontier=True),
    Candidate(Recipe("prof"), problem="HiGHS does not accept a row; scale the inputs of the network, please"),
    *(Candidate(Recipe(f"late {n}"), problem="not run: it cannot win") for n in range(3)),
    candidate("points", LISTED, 0.25),
)


def shown(width=80, candidates=CANDIDATES, policy=None, original=0.82):
    screen = Screen(file=io.StringIO(), width=width)
    show_candidates(
        screen,
        SimpleNamespace(
            candidates=candidates,
            policy=policy or Policy(),
            original_accuracy=original,
            original_balanced_accuracy=None if original is None else 0.77,
        ),
    )
    return screen.file.getvalue().replace("\xa0", " ")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_figure_is_wrapped_or_cut(width):
    lines = [line.rstrip() for line in shown(width).splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    rows = [line for line in lines if line.lstrip("→● ")[:1].isdigit() and line.count("%") > 1]
    assert len(rows) == 7
    assert all(line.count("%") == 4 for line in rows)


def test_guarantees_are_headings_from_the_strongest_on_and_marks_are_shown():
    lines = shown().splitlines()
    headings = [line.rstrip() for line in lines if line.startswith(("Proven", "Not proven"))]
    assert headings == [
        "Proven for everyone",
        "Proven for everyone, and the repair inputs with tolerance or links",
        "Proven for the repair inputs",
        "Not proven",
    ]
    assert [line.split()[:3] for line in lines if line[:1] in "→●" and line[:1]][:2] == [
        ["→", "1", "blind"],
        ["●", "6", "blind,"],
    ]
    [original] = [line for line in lines if "the original network " in line and "%" in line]
    assert original.split()[-6:] == ["82.0", "%", "77.0", "%", "100", "%"]


def test_reasons_are_grouped_and_recipes_not_run_are_one_line():
    text = shown()
    assert "  2–6, 11: balanced accuracy is below 70.0 %\n" in "\n".join(map(str.rstrip, text.splitlines()))
    assert "3 recipes were not run: it cannot win.\n" in text
    assert "late 1" not in text
    assert "7: HiGHS does not accept a row" in text


def test_a_regression_network_has_r2_in_place_of_accuracy():
    text = shown(candidates=CANDIDATES[:1], original=None)
    assert "whose R² is at most 0.02 below" in text
    assert "accuracy" not in text
    [row] = [line for line in text.splitlines() if line.startswith("→   1")]
    assert row.split()[-5:] == ["0", "%", "0.760", "97.0", "%"]


def test_the_legend_explains_only_the_marks_that_are_shown():
    assert "● on the frontier" in shown()
    assert "●" not in shown(candidates=CANDIDATES[:2])
    assert "→ selected" in shown(candidates=CANDIDATES[:2])
    assert "→" not in shown(candidates=CANDIDATES[1:2])


def test_names_are_not_markup_and_stay_on_their_line():
    text = shown(candidates=(candidate("[red]x\x1b[0m\nProven for nobody", reason="[b]a\nb"),))
    assert "[red]x" in text
    assert "\x1b" not in text
    assert "\nProven for nobody" not in text
    assert "[b]a" in text


def test_numbers_in_a_row_are_a_range():
    assert _ranges([1, 3, 4, 5, 7, 8]) == "1, 3–5, 7, 8"
    assert _ranges([2]) == "2"
