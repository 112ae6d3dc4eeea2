"""Fine-tuning of all weights with Adam, for the baselines `flip` and `grft`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.network import Network
from fairmend.repairing.adam import Adam
from fairmend.repairing.calibrate import FlatParameters, History
from fairmend.repairing.options import check_values

Layers = list[tuple[Tensor, Tensor]]
Losses = Callable[[Layers, int], tuple[Tensor | None, Tensor]]
"""Returns the weighted fairness loss and the task loss, from the layers and the number of the step."""


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
    """Minimise the sum of the two losses; ``rows`` is about the number of rows in a step.

    ``at_step`` is called before each step with its number and the present network.
    """
    check_values(steps=steps, learning_rate=learning_rate)
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
                    f"fine-tuning diverged at step {step}: the loss is {total.item()}; use a smaller learning_rate "
                    f"than {learning_rate}, or scale the inputs"
                )
            total.backward()  # type: ignore[no-untyped-call]
            if fair_loss is not None:
                fair.append(fair_loss.item())
            task.append(task_loss.item())
            optimizer.step()
            if progress is not None:
                progress("retrain", step + 1, steps)
    return network.with_affines(parameters.affines()), History(tuple(fair), tuple(task))


def torch_dtype(network: Network) -> torch.dtype:
    """Return the network's precision as a PyTorch dtype."""
    return torch.float32 if network.dtype == np.float32 else torch.float64


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Return the task loss for class numbers ``y (rows,)``: binary for one logit."""
    if scores.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(scores[:, 0], y.to(scores.dtype))
    return F.cross_entropy(scores, y)


def iterate_batches(rows: int, size: int | None, seed: int) -> Iterator[Tensor | slice]:
    """Yield the rows of each step: all, or mini-batches in a new order for every pass."""
    check_values(batch_size=size)
    if size is None or size >= rows:
        while True:
            yield slice(None)
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.split(torch.randperm(rows, generator=generator), int(size))
