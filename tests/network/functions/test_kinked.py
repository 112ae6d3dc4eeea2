"""Functions with a kink at 0: exact where the sign is known."""

import numpy as np
import pytest
import torch

from fairmend.network.functions.kinked import relax_relu
from support.functions import KINKED


@pytest.mark.parametrize("activation", KINKED, ids=str)
@pytest.mark.parametrize(("low", "high"), [(0.5, 3.0), (-3.0, -0.5)])
def test_a_unit_of_one_sign_is_a_line(activation, low, high):
    function = activation.function
    slope = np.atleast_1d(1.0 if low > 0 else function.negative)
    ends = np.array([low]), np.array([high])
    assert function.lowest(slope, *ends) == function.highest(slope, *ends) == 0
    assert function.slope_range(*ends) == (slope, slope)
    lines = [float(line) for line in function.relax(torch.tensor([low]), torch.tensor([high]))]
    assert lines == pytest.approx([slope[0], 0, slope[0], 0])


def test_the_relu_lines_are_those_of_crown():
    lines = [float(line) for line in relax_relu(torch.tensor([-6.0]), torch.tensor([14.0]))]
    assert lines == pytest.approx([1, 0, 0.7, 4.2])
