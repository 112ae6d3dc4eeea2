"""PReLU: a slope for each unit, of either sign."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from support.function_checks import check_inference


@pytest.mark.parametrize("slope", [0.25, -0.5, 1.5, 0.0])
def test_frameworks_compute_it(slope):
    def framework(z):
        return F.prelu(z, torch.tensor([slope], dtype=z.dtype))

    check_inference(Activation("prelu", parameters=(slope,)), framework)


def test_its_lines_are_those_of_leaky_relu_unit_by_unit():
    mixed = Activation("prelu", parameters=(0.5, 2.0)).function
    ends = torch.tensor([[-1.0, -1.0]]), torch.tensor([[3.0, 3.0]])
    for unit, slope in enumerate((0.5, 2.0)):
        own = Activation("leaky_relu", slope).function.relax(ends[0][0, :1], ends[1][0, :1])
        assert [float(line[0, unit]) for line in mixed.relax(*ends)] == [float(line) for line in own]


def test_slopes_are_needed():
    with pytest.raises(FairmendError, match="a finite slope for each unit"):
        Activation("prelu")


def test_each_unit_has_its_own_slope():
    mixed = Activation("prelu", parameters=(0.5, -0.5, 2.0)).function
    values = np.array([[-1.0, -1.0, -1.0], [3.0, 3.0, 3.0]])
    mixed.apply(values)
    assert values.tolist() == [[-0.5, 0.5, -2.0], [3.0, 3.0, 3.0]]
    assert not mixed.increasing
