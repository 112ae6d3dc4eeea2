"""Train a copy of a user's module towards given scores: distillation of modules that fairmend does not read.

The module is trained as it is run: in evaluation mode, so that dropout does nothing and the statistics of norms stay.
Only its parameters change, those that are not frozen. As `distil` does for networks: small random batches, a learning
rate that falls to 0, and where the loss is not lower at the end, the module stays as it was.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import first_line
from fairmend.base.threads import few_threads
from fairmend.models import Port, RunModel
from fairmend.models.module import ModuleRunner
from fairmend.repairing.distil import BATCH, MOST_COMPARED
from fairmend.repairing.training import squared_loss

LEARNING_RATE = 0.001
"""A third of that of networks, whose inputs are standardised: a module may hold any inputs and any layers."""

_LEAST = 1e-6  # of a probability of which the logarithm is taken


def distil_module(
    model: RunModel, X: FloatArray, targets: Floats, *, steps: int, seed: int, progress: Progress | None = None
) -> RunModel:
    """Return the model with a trained copy of its module: on rows X towards ``targets (rows, classes or outputs)``.

    The targets are probabilities of the spec's classes, or numbers.
    """
    assert isinstance(model.runner, ModuleRunner)
    assert model.spec is not None
    runner = ModuleRunner(copy.deepcopy(model.runner.module))
    parameters = [each for each in runner.module.parameters() if each.requires_grad and each.is_floating_point()]
    if not parameters:
        raise FairmendError(f"{runner.name} has no parameters to train")
    runner.module.eval()
    lesson = _Lesson(runner, model, X, targets)
    rng = np.random.default_rng(seed)
    compared = rng.permutation(len(X))[:MOST_COMPARED]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE)
    size = sum(each.numel() for each in parameters)
    try:
        with few_threads(BATCH * size):
            before = lesson.loss_without_gradients(compared)
            for step in range(steps):
                for group in optimizer.param_groups:
                    group["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2
                optimizer.zero_grad()
                lesson.loss(rng.integers(len(X), size=BATCH)).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                if progress is not None:
                    progress("distil", step + 1, steps)
            improved = lesson.loss_without_gradients(compared) < before
    except RuntimeError as error:
        raise FairmendError(f"{runner.name} cannot be trained: {first_line(error)}") from error
    if not improved:
        return model
    return RunModel(runner, model.why_only_run, model.kind).bind(model.spec)


class _Lesson:
    """Rows and targets of one module, as tensors."""

    def __init__(self, runner: ModuleRunner, model: RunModel, X: FloatArray, targets: Floats) -> None:
        assert model.spec is not None
        self.runner, self.kind = runner, model.kind
        ports: Sequence[Port] = model.ports
        self.tensors = runner.tensors(model.spec, ports, X.astype(model.dtype))
        device = next(iter(self.tensors.values())).device
        self.targets = torch.tensor(_as_given(model, targets), device=device)
        self.squared = squared_loss(targets) if self.kind == "number" else None

    def loss(self, rows: np.ndarray) -> Tensor:
        """Return the loss on some of the rows."""
        chosen = torch.from_numpy(rows)
        scores = self.runner.scores({name: tensor[chosen] for name, tensor in self.tensors.items()})
        scores = scores.reshape(len(rows), -1)
        targets = self.targets[chosen].to(scores.dtype)
        if self.squared is not None:
            return self.squared(scores, targets)
        if scores.shape[1] == 1:
            positive = targets[:, 1]
            if self.kind == "logit":
                return F.binary_cross_entropy_with_logits(scores[:, 0], positive)
            return F.binary_cross_entropy(scores[:, 0].clamp(_LEAST, 1 - _LEAST), positive)
        logs = F.log_softmax(scores, dim=1) if self.kind == "logit" else scores.clamp(min=_LEAST).log()
        return -(targets * logs).sum(dim=1).mean()

    @torch.no_grad()
    def loss_without_gradients(self, rows: np.ndarray) -> float:
        """Return the loss on some of the rows, in batches."""
        parts = np.array_split(rows, max(1, len(rows) // BATCH))
        return float(np.average([float(self.loss(part)) for part in parts], weights=[len(part) for part in parts]))


def _as_given(model: RunModel, targets: Floats) -> Floats:
    """Return probabilities of the spec's classes in the order of the module's outputs."""
    if model.kind == "number" or not model.reversed:
        return targets if model.order is None else targets[:, np.argsort(model.order)]
    return targets[:, ::-1].copy()
