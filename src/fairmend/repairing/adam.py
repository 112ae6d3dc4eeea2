"""Adam (Kingma and Ba, 2015) on one flat tensor, with PyTorch's defaults.

`torch.optim` does the same, but its first use imports PyTorch's compiler, which takes a second: longer than the repair
of a small network. A test compares the two.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Adam:
    """Moves ``parameters`` against their ``.grad``, in place."""

    def __init__(
        self, parameters: Tensor, learning_rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self.parameters, self.learning_rate, self.betas, self.epsilon = parameters, learning_rate, betas, epsilon
        self.mean = torch.zeros_like(parameters, requires_grad=False)
        self.square = torch.zeros_like(parameters, requires_grad=False)
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Take one step and clear the gradient."""
        gradient = self.parameters.grad
        if gradient is None:
            raise RuntimeError("Adam needs a gradient: call backward() first")
        self.steps += 1
        first, second = self.betas
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        scale = math.sqrt(1 - second**self.steps)
        denominator = self.square.sqrt().div_(scale).add_(self.epsilon)
        self.parameters.addcdiv_(self.mean, denominator, value=-self.learning_rate / (1 - first**self.steps))
        self.parameters.grad = None
