"""Our Adam takes the steps of PyTorch's."""

import pytest
import torch

from fairmend.repairing.adam import Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_is_torchs_adam(dtype):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(30, generator=generator, dtype=dtype)
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    mine, other = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(20):
        scale = torch.randn(30, generator=generator, dtype=dtype)
        for parameters in (ours, theirs):
            ((parameters * scale) ** 2).sum().add((parameters**3).sum() * (step % 3)).backward()
        mine.step()
        other.step()
        other.zero_grad()
        assert ours.grad is None
        torch.testing.assert_close(ours, theirs, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=0)
    assert not torch.equal(ours, start)


def test_adam_without_a_gradient_says_so():
    with pytest.raises(RuntimeError, match="backward"):
        Adam(torch.zeros(2, requires_grad=True), 0.1).step()
