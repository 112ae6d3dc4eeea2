"""Linear forms over boxes."""

import numpy as np
import torch

from fairmend.bounds.forms import Boxes, Forms, least_of_line
from fairmend.network.functions import Lines


def test_only_the_columns_that_vary_have_coefficients():
    boxes = Boxes.from_arrays(np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 3.0, 2.0]]), torch.float64)
    assert boxes.columns.tolist() == [1]
    assert boxes.rows.tolist() == [[[0, 2, 2]], [[0, 1, 0]]]
    lower, upper = Forms(boxes.rows, boxes.rows).concretise()
    assert (lower.tolist(), upper.tolist()) == ([[0, 1, 2]], [[0, 3, 2]])


def test_a_line_that_falls_takes_the_other_end():
    slope, lower, upper = torch.tensor([2.0, -2.0]), torch.tensor([1.0, 1.0]), torch.tensor([3.0, 3.0])
    assert least_of_line(slope, lower, upper).tolist() == [2, -6]
    first = torch.tensor([1.0, 0.0])[:, None, None]
    forms = Forms(torch.tensor([[[1.0, 1.0]], [[0.5, 0.5]]]), torch.tensor([[[3.0, 3.0]], [[0.25, 0.25]]]))
    found = forms.through(Lines(slope[None], slope[None] * 0, slope[None], slope[None] * 0), first, increasing=False)
    assert found.lower.tolist() == [[[2, -6]], [[1, -0.5]]]
    assert found.upper.tolist() == [[[6, -2]], [[0.5, -1]]]
