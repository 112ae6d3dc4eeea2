"""The charts: extreme values can be drawn, and no bar claims what is not so."""

import re

import pytest

from fairmend.evaluate.document import ScoreRange
from fairmend.report.charts import _FLOOR, _TOP, _bar, _place, range_chart


@pytest.mark.parametrize("decision", [0.5, 0.3, 0.9])
def test_a_short_bar_never_reaches_over_the_decision_line(decision):
    for value in (0.0, 1e-9, 0.01, 0.49, 0.5, 0.51, 0.99, 1 - 1e-9, 1.0, decision + 1e-9, decision - 1e-9):
        top, bottom = map(float, _bar(10, value, value, decision).split(" ")[1].split("V"))
        line = _place(decision)
        assert bottom - top >= 4.9
        assert bottom <= line + 0.11 if value >= decision else top >= line - 0.11
        assert _TOP <= top < bottom <= _FLOOR + 0.11


def test_the_decision_line_is_at_the_threshold():
    one = [ScoreRange(0.5, 0.5, 0.5, 0.5, 0.5, "one")]
    for threshold in (0.5, 0.3):
        drawn = str(range_chart(one, "positive", "x", "order", threshold))
        at = float(re.search(r'y1="([0-9.]+)"[^>]*class="decision"', drawn)[1])
        assert at == pytest.approx(_FLOOR - (_FLOOR - _TOP) * threshold, abs=0.1)


def test_with_many_classes_there_is_no_decision_line():
    one = [ScoreRange(0.4, 0.3, 0.6, 0.3, 0.6, "two")]
    assert "decision" in str(range_chart(one, "positive", "x", "order"))
    assert "decision" not in str(range_chart(one, "own", "x", "order"))


def test_numbers_that_are_no_probabilities_stay_in_the_chart():
    wild = [ScoreRange(1e30, -1e30, 1e30, None, None, "two"), ScoreRange(0.0, 0.0, 0.0, 0.0, 0.0, "one")]
    for kind in ("positive", "own"):
        drawn = range_chart(wild, kind, "x", "order")
        assert "nan" not in drawn
        assert "inf" not in drawn
        assert all(_TOP <= float(y) <= _FLOOR for y in re.findall(r"M[0-9.]+ ([0-9.]+)V", str(drawn)))
