"""Tables of a repair and of its candidates, and the disparity of scores, as the terminal shows them."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fairmend
from fairmend.base.text import in_points, percent
from fairmend.cli.console import Screen
from fairmend.cli.figures import sparkline
from fairmend.cli.repaired import _ranges, show_candidates
from fairmend.cli.results import show_audit
from fairmend.evaluate.repair_document import _candidate, _policy
from fairmend.network import Network
from fairmend.repairing.options import Policy
from fairmend.repairing.recipe import Recipe
from fairmend.repairing.selection import Candidate
from fairmend.workflows import audit_files
from support.cli_case import Case, run, small_network, small_people, small_spec
from support.price_case import PriceCase


def audit(case, *more):
    result = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--no-report", *more)
    assert result.exit_code in (0, 1), result.stderr
    return result.stdout


def test_an_audit_of_decisions_shows_the_disparity(case):
    found = fairmend.audit(small_network(), small_spec(), small_people()).disparity
    shown = " ".join(audit(case).split())
    names = ("median", "90 % at most", "95 % at most", "99 % at most", "largest")
    for name, value in zip(names, (*found.quantiles.values(), found.largest), strict=True):
        assert f"Score disparity: {name} {100 * value:.1f} points" in shown
    for limit, count in found.above.items():
        share = " ".join(percent(count / 200).split())
        assert f"Score disparity: share above {100 * limit:g} {'point' if limit == 0.01 else 'points'} {share}" in shown
    pair = found.worst
    assert f'Largest score disparity, row {pair.row + 2}: "yes" has probability' in shown
    assert "with age 18; " in shown


def test_the_curve_is_a_line_with_a_few_figures(case):
    curve = fairmend.audit(small_network(), small_spec(), small_people()).disparity.curve
    shown = audit(case)
    assert f"Treated unequally at each threshold: 0 {sparkline(curve.shares.tolist())} 1" in shown
    plain = " ".join(shown.split())
    assert f"0.3: {percent(curve.share_at(0.3))}".replace("\N{NO-BREAK SPACE}", " ") in plain
    assert f"0.5 (yours): {percent(curve.share_at(0.5))}".replace("\N{NO-BREAK SPACE}", " ") in plain
    at, most = curve.peak
    assert f"{at:g} (most): {percent(most)}".replace("\N{NO-BREAK SPACE}", " ") in plain
    assert all(len(line) <= 80 for line in shown.splitlines() if "threshold" in line)


def test_the_threshold_of_the_spec_is_marked(case):
    case.spec.write_text(case.spec.read_text().replace('positive = "yes"', 'positive = "yes"\nthreshold = 0.45'))
    document = json.loads(audit(case, "--json"))
    assert document["disparity"]["threshold"] == 0.45
    (point,) = [point for point in document["disparity"]["curve"] if point["threshold"] == 0.45]
    assert point["count"] == document["count"]
    assert "0.45 (yours): " in " ".join(audit(case).split())


def test_several_classes_have_no_curve_but_a_class(case):
    small_network(3).save(case.model)
    shown = " ".join(audit(case).split())
    assert "Treated unequally at each threshold" not in shown
    assert "Largest score disparity, row " in shown
    assert ": class " in shown


def test_outputs_of_a_regression_network_are_in_their_own_units(tmp_path):
    shown = " ".join(audit(PriceCase(tmp_path)).split())
    assert "Score disparity: largest 40" in shown
    assert "points" not in shown


def test_a_line_of_blocks_shows_the_highest_of_each_few():
    assert sparkline([0.0] * 33) == "·" * 33
    line = sparkline((np.arange(99) / 98).tolist())
    assert len(line) == 33
    assert line[0] == "▁"
    assert line[-1] == "█"
    assert list(line) == sorted(line)


def test_what_is_not_computed_makes_lower_bounds(case):
    case.spec.write_text(case.spec.read_text().replace('name = "income"', 'name = "income"\ntolerance = 5'))
    shown = " ".join(audit(case, "--method", "sample").split())
    assert "Score disparity: largest ≥ " in shown
    assert "score disparities are at least these (≥), and so are the shares at other thresholds." in shown


def test_a_curve_without_anyone_is_one_figure(case):
    net = small_network()
    first = net.affines[0]
    weight = first.weight.copy()
    for feature in small_spec().varying:
        weight[:, small_spec().columns(feature.name)] = 0
    Network([replace(first, weight=weight), *net.affines[1:]], net.activations).save(case.model)
    shown = audit(case)
    assert "Treated unequally at each threshold: 0 %\n" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert "(most)" not in shown


def test_the_curve_has_a_line_of_its_own_in_a_narrow_terminal(case, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    curve = fairmend.audit(small_network(), small_spec(), small_people()).disparity.curve
    lines = [line.rstrip() for line in audit(case).splitlines()]
    assert lines[lines.index("Treated unequally at each threshold:") + 1] == f"  0 {sparkline(curve.shares.tolist())} 1"


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
    balanced = None if original is None else 0.77
    result = SimpleNamespace(policy=policy or Policy(), original_accuracy=original, original_balanced_accuracy=balanced)
    show_candidates(screen, list(map(_candidate, candidates)), _policy(result))
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
    assert "if its R² is at most 0.02 below" in text
    assert "accuracy" not in text
    [row] = [line for line in text.splitlines() if line.startswith("→   1")]
    assert row.split()[-6:] == ["0", "%", "0.760", "97.0", "%", "–"]


def test_the_estimate_that_decides_is_a_column():
    text = shown(candidates=(candidate("blind", fall=0.0123, fall_of="accuracy", chosen=True),))
    [row] = [line for line in text.splitlines() if line.startswith("→   1")]
    assert row.split()[-1] == "1.2"
    assert "loses: the largest fall against the original" in " ".join(text.split())


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


def test_a_repair_shows_repair_inputs_and_the_score_disparity_before_and_after(tmp_path):
    case = Case(tmp_path)
    shown = " ".join(case.repair(method="blind", steps=1).stdout.split())
    assert "Repair inputs treated unequally " in shown
    figures = json.loads((case.out / "result.json").read_text())
    before, after = (figures[when]["disparity"] for when in ("before", "after"))
    for name, key in (("median", "median"), ("99 % at most", "p99"), ("largest", "largest")):
        both = f"{in_points(before[key])} {in_points(after[key])}".replace("\N{NO-BREAK SPACE}", " ")
        assert f"Score disparity: {name} {both}" in shown
    assert before["largest"] > 0 == after["largest"]
    share = percent(before["above"][2]["share"]).replace("\N{NO-BREAK SPACE}", " ")
    assert f"Score disparity: share above 10 points {share} 0 %" in shown
    assert f"Largest score disparity before the repair, row {before['worst']['row']}: " in shown
    assert "After the repair, similar people get equal scores." in shown


def test_the_terminal_shows_what_the_document_says(case):
    audited = audit_files(case.model, case.spec, data=case.data)
    document = replace(audited.document, count=123_456, disparity=replace(audited.document.disparity, p99=0.987))
    screen = Screen(file=io.StringIO(), width=100)
    show_audit(screen, replace(audited, document=document))
    shown = screen.file.getvalue()
    assert "123,456" in shown
    assert "98.7" in shown
