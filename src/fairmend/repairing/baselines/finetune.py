"""The baselines that fine-tune all weights with Adam: `flip` and `grft`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.bounds.forward import forward
from fairmend.network import Network
from fairmend.repairing.baselines.neighbours import find_different_pairs, flip_protected
from fairmend.repairing.measures import as_columns
from fairmend.repairing.options import Pairs, check_values
from fairmend.repairing.task import RepairTask
from fairmend.repairing.training import (
    Adam,
    History,
    Layers,
    Parameters,
    cross_entropy,
    iterate_batches,
    squared_loss,
    take_rows,
    torch_dtype,
)

STEPS = 200
LEARNING_RATE = 0.001

COPIES = 2  # of `flip`
WEIGHT, SEARCH_EVERY, PER_ROW = 1.0, 10, 16  # of `grft`

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
    parameters = Parameters(network, torch_dtype(network))
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


def flip(
    task: RepairTask,
    *,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
    copies: int = COPIES,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> tuple[Network, History]:
    """FLIP: fine-tune on the calibration rows and ``copies`` copies of each with other protected values, same labels.

    This is the first baseline of the ProF paper (Section 5.1): the network learns to ignore the protected features. No
    loss compares the predictions of two copies, and tolerances play no part. A step uses ``batch_size`` rows, drawn
    with the task's seed; all of them by default.
    """
    check_values(batch_size=batch_size)
    rng = np.random.default_rng(task.seed)
    rows = np.concatenate([task.X_cal, *(flip_protected(task.spec, task.X_cal, rng) for _ in range(copies))])
    X = torch.tensor(rows, dtype=torch_dtype(task.network))
    labels = as_columns(task.y_cal) if task.spec.regression else task.y_cal
    y = torch.tensor(np.concatenate([labels] * (copies + 1)))
    task_loss = squared_loss(labels) if task.spec.regression else cross_entropy
    chosen = iterate_batches(len(X), batch_size, task.seed)

    def losses(layers: Layers, step: int) -> tuple[None, Tensor]:
        some = next(chosen)
        return None, task_loss(forward(task.network, layers, take_rows(X, some)), take_rows(y, some))

    return fine_tune(
        task.network, losses, batch_size or len(X), steps=steps, learning_rate=learning_rate, progress=progress
    )


def grft(
    task: RepairTask,
    *,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
    fairness_weight: float = WEIGHT,
    batch_size: int | None = None,
    pairs: Pairs | None = None,
    progress: Progress | None = None,
) -> tuple[Network, History]:
    """Fine-tune on cross-entropy plus ``fairness_weight`` times the mean squared difference of the logits within pairs.

    This is GRFT's repair (Quan et al. 2025, "Dissecting Global Search: A Simple Yet Effective Method to Boost
    Individual Discrimination Testing and Repair"). ``pairs`` are two arrays ``(pairs, width)`` of similar people, row
    by row, for instance from `fairmend.search`. By default they are searched for in the neighbourhoods of the repair
    inputs, again every few steps, because training closes some and may open others.
    """
    check_values(fairness_weight=fairness_weight, batch_size=batch_size)
    dtype = torch_dtype(task.network)
    X, y = torch.tensor(task.X_cal, dtype=dtype), torch.tensor(task.y_cal)
    given = None if pairs is None else _check_pairs(task, pairs)
    chosen = iterate_batches(len(X), batch_size, task.seed)
    now: list[Tensor] = [] if given is None else [torch.tensor(side, dtype=dtype) for side in given]

    def find(step: int, network: Network) -> None:
        if given is not None or step % SEARCH_EVERY:
            return
        # Sampled neighbours are the same each time, so that losses stay comparable.
        rows, others, _ = find_different_pairs(
            network, task.spec, task.X_repair, np.random.default_rng(task.seed), PER_ROW
        )
        now[:] = [torch.tensor(side, dtype=dtype) for side in (task.X_repair[rows], others)]

    def losses(layers: Layers, step: int) -> tuple[Tensor, Tensor]:
        some = next(chosen)
        first, second = now
        count = len(first)
        scores = forward(task.network, layers, torch.cat([first, second, take_rows(X, some)]))
        apart = (scores[:count] - scores[count : 2 * count]).square().sum() / max(1, count)
        return fairness_weight * apart, cross_entropy(scores[2 * count :], take_rows(y, some))

    return fine_tune(
        task.network,
        losses,
        len(X) + 2 * PER_ROW * len(task.X_repair),
        steps=steps,
        learning_rate=learning_rate,
        at_step=find,
        progress=progress,
    )


def _check_pairs(task: RepairTask, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
    if len(pairs) != 2:
        raise FairmendError("pairs must be two arrays of one shape, whose rows are pairs of similar people")
    first, second = (task.spec.as_inputs(side, task.network.dtype) for side in pairs)
    if first.shape != second.shape:
        raise FairmendError(f"pairs must be two arrays of one shape, got {first.shape} and {second.shape}")
    return first, second
