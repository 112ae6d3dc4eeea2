"""Boxes that adjoin become one, with the same people."""

import numpy as np
import pytest

from fairmend.quantifying.unequal_map import merge_boxes
from fairmend_check.shares.people import Boxes


def boxes(*ranges):
    """Return boxes from (first, last) of each axis."""
    ends = np.array(ranges)
    return Boxes(ends[:, :, 0], ends[:, :, 1])


def test_four_quarters_are_one_box():
    quarters = boxes([(0, 1), (0, 4)], [(2, 3), (0, 4)], [(0, 1), (5, 9)], [(2, 3), (5, 9)])
    (whole,) = merge_boxes(quarters, np.full(4, 0.25), np.full(4, 0.2))
    assert (whole.first.tolist(), whole.last.tolist()) == ([0, 0], [3, 9])
    assert whole.share == pytest.approx(1)
    assert whole.of_box == pytest.approx(0.8)


def test_boxes_apart_or_of_different_ranges_stay():
    apart = boxes([(0, 1), (0, 4)], [(3, 3), (0, 4)], [(0, 1), (5, 8)], [(2, 2), (5, 9)])
    assert len(merge_boxes(apart, np.full(4, 0.1), np.full(4, 0.1))) == 3


def test_a_box_is_not_diluted():
    halves = boxes([(0, 1)], [(2, 3)])
    assert len(merge_boxes(halves, np.full(2, 0.5), np.array([0.5, 0.001]))) == 2
    assert len(merge_boxes(halves, np.full(2, 0.5), np.array([0.5, 0.25]))) == 1
