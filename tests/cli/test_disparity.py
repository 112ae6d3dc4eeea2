"""The score disparity in the terminal: a distribution, the worst pair, and a curve of blocks."""

import json
from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.base.text import percent
from fairmend.cli.disparity import sparkline
from fairmend.network import Network
from support.cli_case import Case, run, small_network, small_people, small_spec
from support.price_case import PriceCase


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


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
        assert f"Score disparity above {100 * limit:g} {'point' if limit == 0.01 else 'points'} {share}" in shown
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
