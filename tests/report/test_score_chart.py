"""The histogram of differences: every count is a bar, and bars above delta are marked."""

from fairmend.evaluate.document import ScoreFigures
from fairmend.report.score_chart import difference_chart

SCORES = ScoreFigures("output", 2.0, 4.0, 1.0, 3.0, [0.0, 1.0, 2.0, 3.0, 4.0], [5, 0, 2, 1])


def test_bars_above_delta_are_marked():
    chart = difference_chart(SCORES)
    assert chart.count("fill one") == 1
    assert chart.count("fill two") == 2
    assert "delta 2" in chart
    assert "decision" in chart


def test_a_chart_without_people_is_drawn():
    assert "<rect" not in difference_chart(ScoreFigures("logit", 1.0, 0.0, 0.0, 0.0, [0.0, 1.0], [0]))
