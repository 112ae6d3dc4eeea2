"""The charts: extreme values can be drawn, and no bar claims what is not so."""

import re
from dataclasses import replace

import pytest

from fairmend.auditing.figures import AboveLimit, AtThreshold, DisparityFigures, ScoreFigures
from fairmend.evaluate.document import ScoreRange
from fairmend.report.charts import (
    _RANGES,
    _bar,
    _place,
    describe_curve,
    difference_chart,
    drawing,
    element,
    line,
    path,
    range_chart,
    strip,
    text,
    threshold_chart,
)
from support.html_page import Page

# SVG elements: attributes and texts are escaped, and every picture has a label.


def test_attributes_and_children_are_escaped():
    made = element("text", "<b>", title='"><script>', class_="a", stroke_width=1.5, fill=None)
    assert made == '<text title="&#34;&gt;&lt;script&gt;" class="a" stroke-width="1.5">&lt;b&gt;</text>'


def test_children_that_are_elements_stay_elements():
    assert "<line " in drawing(10, 20, "a label", line(0, 0, 1, 1, "grid"))


def test_pictures_have_a_role_and_a_label():
    for picture in (drawing(10, 20, "about <this>"), strip("about <this>")):
        (attributes,) = Page(picture).all("svg")
        assert (attributes["role"], attributes["aria-label"]) == ("img", "about <this>")


def test_a_path_without_steps_is_nothing():
    assert path([], "bar") == ""
    assert path(["M0 0", "L1 1"], "bar") == '<path d="M0 0L1 1" class="bar"></path>'


def test_text_is_anchored():
    assert text(1.0, 2.5, "x", anchor="end") == '<text x="1" y="2.5" text-anchor="end">x</text>'


# The histogram of differences: every count is a bar, and bars above delta are marked.


SCORES = ScoreFigures("output", 2.0, 4.0, 1.0, 3.0, [0.0, 1.0, 2.0, 3.0, 4.0], [5, 0, 2, 1])


def test_bars_above_delta_are_marked():
    chart = difference_chart(SCORES)
    assert chart.count("fill one") == 1
    assert chart.count("fill two") == 2
    assert "delta 2" in chart
    assert "decision" in chart


def test_a_chart_without_people_is_drawn():
    assert "<rect" not in difference_chart(ScoreFigures("logit", 1.0, 0.0, 0.0, 0.0, [0.0, 1.0], [0]))


# The curve over the thresholds: drawn to scale, with the threshold that decides, and read aloud.


THRESHOLDS = [round(0.01 * step, 2) for step in range(1, 100)]
FIGURES = DisparityFigures(
    "probability",
    True,
    0.02,
    0.1,
    0.2,
    0.3,
    0.4,
    [AboveLimit(1, 9, 0.9), AboveLimit(5, 5, 0.5), AboveLimit(10, 2, 0.25)],
    [0.0, 0.2, 0.4],
    [7, 3],
    worst=None,
    threshold=0.3,
    curve=[AtThreshold(t, 0, 0.37 if t == 0.3 else 0.41 if t == 0.27 else 0.1) for t in THRESHOLDS],
)


def scaled(most):
    return replace(FIGURES, curve=[replace(point, share=most * point.share / 0.41) for point in FIGURES.curve])


def test_the_share_at_the_threshold_and_the_highest_one_are_named():
    words = describe_curve(FIGURES).replace("\N{NO-BREAK SPACE}", " ")
    assert words == "37.0 % at 0.3, your threshold; highest at 0.27: 41.0 %"
    sampled = describe_curve(replace(FIGURES, exact=False)).replace("\N{NO-BREAK SPACE}", " ")
    assert sampled == "at least 37.0 % at 0.3, your threshold; highest at 0.27: at least 41.0 %"
    assert describe_curve(replace(FIGURES, threshold=None, curve=[])) == ""


@pytest.mark.parametrize("most", [0.0, 0.0004, 0.013, 0.41, 1.0])
def test_the_curve_stays_inside_the_chart(most):
    drawn = str(threshold_chart(scaled(most)))
    assert 'role="img"' in drawn
    path = drawn.split(' d="')[1].split('"')[0]
    places = [tuple(float(part) for part in step.split()) for step in path[1:].split("L")]
    assert len(places) == 99
    assert all(0 < x < 520 and 10 < y < 240 for x, y in places)
    assert "your threshold" in drawn


def test_a_curve_of_zeros_has_no_highest_point():
    nobody = scaled(0.0)
    assert describe_curve(nobody) == "no one, at any threshold"
    assert describe_curve(replace(nobody, exact=False)) == "no one was found, at any threshold"


@pytest.mark.parametrize("decision", [0.5, 0.3, 0.9])
def test_a_short_bar_never_reaches_over_the_decision_line(decision):
    for value in (0.0, 1e-9, 0.01, 0.49, 0.5, 0.51, 0.99, 1 - 1e-9, 1.0, decision + 1e-9, decision - 1e-9):
        top, bottom = map(float, _bar(10, value, value, decision).split(" ")[1].split("V"))
        line = _place(decision)
        assert bottom - top >= 4.9
        assert bottom <= line + 0.11 if value >= decision else top >= line - 0.11
        assert _RANGES.top <= top < bottom <= _RANGES.floor + 0.11


def test_the_decision_line_is_at_the_threshold():
    one = [ScoreRange(0.5, 0.5, 0.5, 0.5, 0.5, "one")]
    for threshold in (0.5, 0.3):
        drawn = str(range_chart(one, "positive", "x", "order", threshold))
        at = float(re.search(r'y1="([0-9.]+)"[^>]*class="decision"', drawn)[1])
        assert at == pytest.approx(_RANGES.floor - (_RANGES.floor - _RANGES.top) * threshold, abs=0.1)


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
        assert all(_RANGES.top <= float(y) <= _RANGES.floor for y in re.findall(r"M[0-9.]+ ([0-9.]+)V", str(drawn)))
