"""A fused step of backward substitution is the plain one."""

import numpy as np
import pytest
import torch

from fairmend.bounds.fused import through_lines
from fairmend.bounds.linear import _through_activation
from fairmend.bounds.relaxation import Lines


@pytest.mark.parametrize("pieces", [1, 3])
def test_it_has_the_values_and_gradients_of_the_plain_operations(pieces):
    generator = torch.Generator().manual_seed(pieces)
    A = torch.randn(pieces, 4, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    lines = Lines(*(torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(4)))
    found, plain = through_lines(A, *lines), _through_activation(A, lines)
    gradients = []
    for coefficients, constants in (found, plain):
        total = coefficients.square().sum() + constants.sin().sum()
        gradients.append(torch.autograd.grad(total, (A, *lines)))
    for mine, theirs in zip((*found, *gradients[0]), (*plain, *gradients[1]), strict=True):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), rtol=1e-12, atol=1e-12)
