"""Clipped lines: knots that are rounded, and lines of least area."""

import numpy as np
import pytest
import torch

from fairmend.network import Activation


def test_the_lines_pass_through_the_knots():
    relu6 = Activation("clip", parameters=(0, 6)).function
    lines = [float(line) for line in relu6.relax(torch.tensor([-2.0]), torch.tensor([10.0]))]
    assert lines == pytest.approx([0.6, 0, 0.75, 1.5])
    flat = [float(line) for line in relu6.relax(torch.tensor([7.0]), torch.tensor([9.0]))]
    assert flat == [0, 6, 0, 6]


def test_its_lines_exist_as_far_as_its_ends():
    assert Activation("clip", parameters=(0, 6)).function.lines == [(0.0, 0.0), (1.0, 0.0), (0.0, 6.0)]
    assert Activation("clip", parameters=(-np.inf, 6)).function.lines == [(1.0, 0.0), (0.0, 6.0)]
