"""Lines of least area: they enclose the function, no other pair has less area, and their gradients are exact."""

import numpy as np
import pytest
import torch

from support.function_checks import kernel_function
from support.functions import CLIPPED, CURVED, FUNCTIONS, INTERVALS, KINKED, S_SHAPED, WHOLE

EVERY = (*FUNCTIONS, *WHOLE)
OPTIMAL = [a for a in EVERY if a not in S_SHAPED and a.name not in ("sin", "cos")]  # flat over more than a turn


def intervals(count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    low = rng.uniform(-6, 4, (count, 1))
    return low, low + 10.0 ** rng.uniform(-3, 1, (count, 1))


def lines_of(activation, low, high, dtype=torch.float64) -> list[np.ndarray]:
    ends = [torch.tensor(end, dtype=dtype) for end in (low, high)]
    return [line.double().numpy() for line in activation.function.relax(*ends)]


@pytest.mark.parametrize("activation", EVERY, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_lines_enclose_the_function(activation, dtype):
    low, high = intervals()
    if dtype == torch.float32:
        low, high = low.astype(np.float32).astype(float), high.astype(np.float32).astype(float)
    special = np.array(INTERVALS, float)
    low, high = np.concatenate([low, special[:, :1]]), np.concatenate([high, special[:, 1:]])
    lower_slope, lower, upper_slope, upper = lines_of(activation, low, high, dtype)
    z = low + (high - low) * np.linspace(0, 1, 301)
    y = activation.function.value(z)
    slack = (1e-10 if dtype == torch.float64 else 4e-6) * (1 + np.maximum(np.abs(low), np.abs(high)))
    if activation.name in ("exp", "square"):
        slack = slack * (1 + np.abs(y).max(axis=1, keepdims=True))
    if activation.name == "exp":  # which float32 does not have at the far end of one interval
        usable = np.isfinite([lower_slope, lower, upper_slope, upper]).all(axis=0)[:, 0]
        assert usable.sum() >= len(usable) - 1
        lower_slope, lower, upper_slope, upper, z, y, slack = (
            part[usable] for part in (lower_slope, lower, upper_slope, upper, z, y, slack)
        )
    assert (lower_slope * z + lower <= y + slack).all()
    assert (y <= upper_slope * z + upper + slack).all()
    if activation.increasing:
        assert (np.minimum(lower_slope, upper_slope) >= 0).all()


@pytest.mark.parametrize("activation", EVERY, ids=str)
def test_gradients_are_finite_at_special_intervals(activation):
    ends = torch.tensor(INTERVALS, dtype=torch.float64, requires_grad=True)
    total = sum(line.sum() for line in activation.function.relax(ends[:, :1], ends[:, 1:]))
    if total.requires_grad:  # the lines of the identity are constants
        total.backward()
        assert torch.isfinite(ends.grad).all()


@pytest.mark.parametrize("activation", [*KINKED, *CLIPPED, *CURVED], ids=str)
def test_gradients_agree_with_finite_differences(activation):
    rng = np.random.default_rng(3)
    low = torch.tensor(rng.uniform(-3, 1, (7, 1)), requires_grad=True)
    width = torch.tensor(rng.uniform(0.05, 4, (7, 1)), requires_grad=True)

    def lines(low, width):
        return [line for line in activation.function.relax(low, low + width) if line.requires_grad]

    if lines(low, width):
        assert torch.autograd.gradcheck(lines, (low, width), eps=1e-5, atol=1e-4)


@pytest.mark.parametrize("activation", OPTIMAL, ids=str)
def test_no_other_lines_have_less_area(activation):
    """The best slopes of a fine scan, with the best intercepts on a fine grid, are no better by more than its gaps."""
    low, high = intervals(100)
    lower_slope, lower, upper_slope, upper = lines_of(activation, low, high)
    middle, width = (low + high) / 2, high - low
    bends = (*getattr(activation.function, "breaks", ()), *getattr(activation.function, "knots", ()), 0.0)
    z = np.concatenate([low + width * np.linspace(0, 1, 401), *(np.clip(b, low, high) for b in bends)], axis=1)
    y = activation.function.value(z)
    flat, steep = kernel_function(activation).slope_range(low, high)
    best_lower, best_upper = np.full_like(low, -np.inf), np.full_like(low, np.inf)
    for share in np.linspace(0, 1, 101):
        slope = flat + share * (steep - flat)
        difference = y - slope * z
        best_lower = np.maximum(best_lower, difference.min(axis=1, keepdims=True) + slope * middle)
        best_upper = np.minimum(best_upper, difference.max(axis=1, keepdims=True) + slope * middle)
    height = (upper_slope - lower_slope) * middle + upper - lower
    assert (height <= (best_upper - best_lower) + 1e-4 * width).all()
