"""The curve over the thresholds: drawn to scale, with the threshold that decides, and read aloud."""

from dataclasses import replace

import pytest

from fairmend.evaluate.document import DisparityFigures
from fairmend.report.threshold_chart import describe_curve, threshold_chart

THRESHOLDS = [round(0.01 * step, 2) for step in range(1, 100)]
FIGURES = DisparityFigures(
    "probability",
    True,
    0.02,
    0.1,
    0.2,
    0.3,
    0.4,
    {"1": 0.9, "5": 0.5, "10": 0.25},
    [0.0, 0.2, 0.4],
    [7, 3],
    threshold=0.3,
    thresholds=THRESHOLDS,
    unequal=[0.37 if t == 0.3 else 0.41 if t == 0.27 else 0.1 for t in THRESHOLDS],
)


def test_the_share_at_the_threshold_and_the_highest_one_are_named():
    words = describe_curve(FIGURES).replace("\N{NO-BREAK SPACE}", " ")
    assert words == "37.0 % at 0.3, your threshold; highest at 0.27: 41.0 %"
    sampled = describe_curve(replace(FIGURES, exact=False)).replace("\N{NO-BREAK SPACE}", " ")
    assert sampled == "at least 37.0 % at 0.3, your threshold; highest at 0.27: at least 41.0 %"
    assert describe_curve(replace(FIGURES, threshold=None, thresholds=[], unequal=[])) == ""


@pytest.mark.parametrize("most", [0.0, 0.0004, 0.013, 0.41, 1.0])
def test_the_curve_stays_inside_the_chart(most):
    unequal = [most * share / 0.41 for share in FIGURES.unequal]
    drawn = str(threshold_chart(replace(FIGURES, unequal=unequal)))
    assert 'role="img"' in drawn
    path = drawn.split(' d="')[1].split('"')[0]
    places = [tuple(float(part) for part in step.split()) for step in path[1:].split("L")]
    assert len(places) == 99
    assert all(0 < x < 520 and 10 < y < 240 for x, y in places)
    assert "your threshold" in drawn


def test_a_curve_of_zeros_has_no_highest_point():
    nobody = replace(FIGURES, unequal=[0.0] * len(FIGURES.unequal))
    assert describe_curve(nobody) == "no one, at any threshold"
    assert describe_curve(replace(nobody, exact=False)) == "no one was found, at any threshold"
