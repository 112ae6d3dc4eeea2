"""Functions with a kink at 0: exact where the sign is known."""

import pytest
import torch

from fairmend.network.functions.straight import relax_relu


def test_the_relu_lines_are_those_of_crown():
    lines = [float(line) for line in relax_relu(torch.tensor([-6.0]), torch.tensor([14.0]))]
    assert lines == pytest.approx([1, 0, 0.7, 4.2])
