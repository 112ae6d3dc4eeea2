"""FLIP, flipping-based fine-tuning: the first baseline of the ProF paper (Section 5.1, "Baselines").

The network is trained further on the calibration rows and on copies of them with other values of the protected features
and the same labels, so that it learns to ignore these features. No loss compares the predictions of two copies, and
tolerances play no part.
"""

from __future__ import annotations

import numpy as np
import torch

from fairmend.base.progress import Progress
from fairmend.bounds.forward import forward
from fairmend.network import Network
from fairmend.repairing.baselines.finetune import cross_entropy, fine_tune, iterate_batches, torch_dtype
from fairmend.repairing.baselines.neighbours import flip_protected
from fairmend.repairing.calibrate import History, squared_loss
from fairmend.repairing.regression import as_columns
from fairmend.repairing.task import RepairTask

COPIES = 2
STEPS = 200
LEARNING_RATE = 0.001


def flip(
    task: RepairTask,
    *,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
    copies: int = COPIES,
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> tuple[Network, History]:
    """Fine-tune on the calibration rows and ``copies`` flipped copies of each.

    A step uses ``batch_size`` rows, drawn with the task's seed; all of them by default.
    """
    rng = np.random.default_rng(task.seed)
    rows = np.concatenate([task.X_cal, *(flip_protected(task.spec, task.X_cal, rng) for _ in range(copies))])
    X = torch.tensor(rows, dtype=torch_dtype(task.network))
    labels = as_columns(task.y_cal) if task.spec.regression else task.y_cal
    y = torch.tensor(np.concatenate([labels] * (copies + 1)))
    task_loss = squared_loss(labels) if task.spec.regression else cross_entropy
    chosen = iterate_batches(len(X), batch_size, task.seed)

    def losses(layers: list[tuple[torch.Tensor, torch.Tensor]], step: int) -> tuple[None, torch.Tensor]:
        some = next(chosen)
        return None, task_loss(forward(task.network, layers, X[some]), y[some])

    return fine_tune(
        task.network, losses, batch_size or len(X), steps=steps, learning_rate=learning_rate, progress=progress
    )
