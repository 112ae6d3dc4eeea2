"""Fine-tuning of all weights with Adam, for the baselines that train: `flip` and `grft`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.bounds import apply_activation
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.repair.adam import Adam
from fairmend.repair.calibrate import FlatParameters, History
from fairmend.threads import few_threads

Layers = list[tuple[Tensor, Tensor]]
Losses = Callable[[Layers, int], tuple[Tensor | None, Tensor]]
"""From the layers and the number of the step: the fairness loss, already weighted, and the task loss."""


def fine_tune(
    network: Network,
    losses: Losses,
    rows: int,
    *,
    steps: int,
    learning_rate: float,
    at_step: Callable[[int, Network], None] | None = None,
    progress: Progress | None = None,
) -> tuple[Network, History]:
    """Minimise the sum of the two losses; ``rows`` is about how many rows a step looks at.

    ``at_step`` is called before each step with its number and the network as it is then.
    """
    check_training(steps, learning_rate)
    parameters = FlatParameters(network, torch_dtype(network))
    optimizer = Adam(parameters.flat, learning_rate)
    fair: list[float] = []
    task: list[float] = []
    with few_threads(rows * parameters.flat.numel()):
        for step in range(steps):
            if at_step is not None:
                at_step(step, network.with_affines(parameters.affines()))
            fair_loss, task_loss = losses(parameters.layers(), step)
            total = task_loss if fair_loss is None else fair_loss + task_loss
            if not math.isfinite(total.item()):
                raise FairmendError(
                    f"fine-tuning diverged at step {step}: the loss is {total.item()}; try a smaller learning_rate "
                    f"than {learning_rate}, or scaled inputs"
                )
            total.backward()  # type: ignore[no-untyped-call]
            if fair_loss is not None:
                fair.append(fair_loss.item())
            task.append(task_loss.item())
            optimizer.step()
            if progress is not None:
                progress("retrain", step + 1, steps)
    return network.with_affines(parameters.affines()), History(tuple(fair), tuple(task))


def check_training(steps: int, learning_rate: float) -> None:
    """Refuse numbers that no training can be run with."""
    if not (isinstance(steps, int | np.integer) and steps >= 0):
        raise FairmendError(f"steps is {steps!r}; give a whole number of 0 or more")
    if not 0 < learning_rate < math.inf:
        raise FairmendError(f"learning_rate is {learning_rate}; give a positive number")


def torch_dtype(network: Network) -> torch.dtype:
    """The network's own precision, in PyTorch's words."""
    return torch.float32 if network.dtype == np.float32 else torch.float64


def logits(layers: Layers, network: Network, X: Tensor) -> Tensor:
    """The network's outputs with these layers, ``(rows, outputs)``."""
    h = X
    for number, (weight, bias) in enumerate(layers):
        h = torch.addmm(bias, h, weight.T)
        if number < len(network.activations):
            h = apply_activation(network.activations[number], h)
    return h


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """The task loss of class numbers ``y (rows,)``: binary for one logit."""
    if scores.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(scores[:, 0], y.to(scores.dtype))
    return F.cross_entropy(scores, y)


def batches(rows: int, size: int | None, seed: int) -> Iterator[Tensor | slice]:
    """Which rows each step looks at: all, or mini-batches of a new order in every pass."""
    if size is not None and not (isinstance(size, int | np.integer) and size >= 1):
        raise FairmendError(f"batch_size is {size!r}; give a whole number of 1 or more")
    if size is None or size >= rows:
        while True:
            yield slice(None)
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.split(torch.randperm(rows, generator=generator), size)
