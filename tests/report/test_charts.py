"""The charts: extreme values can be drawn, and no bar claims what is not so."""

import re

from fairmend.evaluate.document import RecipeSummary, ScoreRange
from fairmend.report.charts import _FLOOR, _TOP, GUARANTEES, _bar, _score_axis, range_chart, recipe_chart, score_scale


def test_a_short_bar_never_reaches_over_the_decision_line():
    place, _, decision = _score_axis("logit", (-1, 1))
    for value in (0.0, 1e-9, -1e-9, 0.01, -0.01, 5.0, -5.0, 50.0, -50.0):
        top, bottom = map(float, _bar(10, value, value, place, decision).split(" ")[1].split("V"))
        line = place(decision)
        assert bottom - top >= 4.9
        assert bottom <= line + 0.11 if value >= 0 else top >= line - 0.11
        assert _TOP <= top < bottom <= _FLOOR + 0.11


def test_extreme_scores_can_be_drawn():
    wild = [ScoreRange(1e30, -1e30, 1e30, None, None, "two"), ScoreRange(0.0, 0.0, 0.0, 0.0, 0.0, "one")]
    for kind in ("logit", "lead"):
        drawn = range_chart(wild, kind, "x", score_scale(wild), "order")
        assert "nan" not in drawn
        assert "inf" not in drawn


def test_no_recipe_covers_the_name_of_its_guarantee():
    crowd = [RecipeSummary(f"recipe {i}", GUARANTEES[1], 0.8, 0.1, 0.9, 0.0, i == 0, True, "") for i in range(5)]
    drawn = recipe_chart(crowd)
    names = [float(y) for y in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>everyone, and', drawn)]
    tops = [float(y) - 12 for y in re.findall(r'<circle[^>]* cy="([\d.]+)"', drawn)]
    assert len(names) == 1
    assert len(tops) == 5
    assert min(tops) > names[0] + 4
