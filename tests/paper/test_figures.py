"""Figures are SVG texts that show every value they can."""

import numpy as np

from fairmend.paper.figures import comparison_figure, loss_figure


def test_the_loss_figure_is_one_svg():
    svg = loss_figure("x", {"a": np.ones((3, 5)), "b": np.zeros((3, 5))})
    assert svg.startswith("<svg")
    assert svg.count("<polyline") == 2


def test_missing_values_and_zeros_are_left_out_of_a_log_scale():
    svg = comparison_figure("<x>", ["a", "b"], {"one": [1.0, 0.0], "two": [None, 10.0]}, logarithmic=True)
    assert svg.count("<circle") == 2
    assert "&lt;x&gt;" in svg
    assert "nan" not in svg
