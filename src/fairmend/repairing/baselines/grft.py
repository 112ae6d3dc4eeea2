"""GRFT's repair (Quan et al. 2025, "Dissecting Global Search: A Simple Yet Effective Method to Boost Individual
Discrimination Testing and Repair"): fine-tuning on the task loss plus the difference of outputs within IDI pairs.

The pairs come from the neighbourhoods of the repair inputs. They are searched for again every few steps, because
training closes some and may open others. You can also give them, for instance from `fairmend.search`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.bounds.forward import forward
from fairmend.network import Network
from fairmend.repairing.baselines.finetune import cross_entropy, fine_tune, iterate_batches, torch_dtype
from fairmend.repairing.baselines.neighbours import find_different_pairs
from fairmend.repairing.calibrate import History
from fairmend.repairing.options import check_values
from fairmend.repairing.task import RepairTask

STEPS = 200
LEARNING_RATE = 0.001
WEIGHT = 1.0
SEARCH_EVERY = 10
PER_ROW = 16

Pairs = tuple[ArrayLike, ArrayLike]


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

    ``pairs`` are two arrays ``(pairs, width)`` of similar people, row by row; by default they are searched for.
    """
    check_values(fairness_weight=fairness_weight)
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

    def losses(layers: list[tuple[Tensor, Tensor]], step: int) -> tuple[Tensor, Tensor]:
        some = next(chosen)
        first, second = now
        count = len(first)
        scores = forward(task.network, layers, torch.cat([first, second, X[some]]))
        apart = (scores[:count] - scores[count : 2 * count]).square().sum() / max(1, count)
        return fairness_weight * apart, cross_entropy(scores[2 * count :], y[some])

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
