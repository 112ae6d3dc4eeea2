"""The figures of a repair in the terminal."""

import json

from fairmend.base.text import in_points, percent
from support.cli_case import Case


def test_a_repair_shows_repair_inputs_and_the_score_disparity_before_and_after(tmp_path):
    case = Case(tmp_path)
    shown = " ".join(case.repair(method="blind", steps=1).stdout.split())
    assert "Repair inputs treated unequally (CUR)" in shown
    figures = json.loads((case.out / "result.json").read_text())
    before, after = (figures[when]["disparity"] for when in ("before", "after"))
    for name, key in (("median", "median"), ("99 % at most", "p99"), ("largest", "largest")):
        both = f"{in_points(before[key])} {in_points(after[key])}".replace("\N{NO-BREAK SPACE}", " ")
        assert f"Score disparity: {name} {both}" in shown
    assert before["largest"] > 0 == after["largest"]
    share = percent(before["above"][2]["share"]).replace("\N{NO-BREAK SPACE}", " ")
    assert f"Score disparity above 10 points {share} 0 %" in shown
    assert f"Largest score disparity before the repair, row {before['worst']['row']}: " in shown
    assert "After the repair, similar people get equal scores." in shown
