"""Train blind networks towards the original network's predictions (distillation), several of them at once.

`calibrate` is the paper's training: full batches, a fixed number of steps, the inputs as they are. A blind network may
have lost a feature that mattered, and must learn to do without it, from inputs of any scale. So this training

- works in standardised inputs: the mean and deviation of each column are folded into the first layer, and out of it
  afterwards, because Adam's steps have one size for all weights, and raw inputs do not;
- takes small random batches of all rows, with a learning rate that falls to 0. On synthetic data this keeps more of the
  model than stopping early on held-out rows, which are then not trained on: calibration rows are few;
- changes nothing if it fails: where the loss is not lower at the end, the network stays as it was.

Networks of one shape are trained together: small ones cost mostly overhead, so that five take little longer than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.gpu import CPU, repeatable
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.bounds.forward import forward
from fairmend.network import Affine, Network
from fairmend.network.input_columns import fix_columns, in_raw_units, in_units, training_units
from fairmend.repairing.adam import Adam
from fairmend.repairing.derived_biases import DerivedBiases

STEPS = 300
LEARNING_RATE = 0.003
BATCH = 256
MOST_COMPARED = 2000
"""The rows, at most, on which the loss at the end is compared to that at the start."""

Layers = list[tuple[Tensor, Tensor]]
Losses = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Student:
    """A network to train from where it is, on ``X (rows, inputs)`` towards ``targets (rows, classes)``.

    The targets are probabilities, or numbers to predict: ``(rows, outputs)``.
    """

    network: Network
    X: FloatArray
    targets: Floats


def distil(
    students: Sequence[Student],
    columns: Sequence[int],
    *,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
    seed: int = 0,
    squared_error: bool = False,
    device: torch.device = CPU,
    progress: Progress | None = None,
) -> list[Network]:
    """Train networks of one shape. Their weights of the input ``columns`` are 0, and stay 0.

    The loss is the cross-entropy, or with ``squared_error`` the squared error in units of the targets' variance.
    """
    network = students[0].network
    dtype = torch.float32 if network.dtype == np.float32 else torch.float64
    rng = np.random.default_rng(seed)
    lessons = [_Lesson(student, columns, dtype, rng, device) for student in students]
    parameters = _StackedParameters(network, [lesson.affines for lesson in lessons], dtype, device)
    optimizer = Adam(parameters.flat, learning_rate)
    losses = _squared_errors(students[0].targets) if squared_error else _cross_entropies
    comparison = _Comparison(lessons, parameters, network, losses)
    with repeatable(device), few_threads(BATCH * parameters.flat.numel()):
        for step in range(steps):
            optimizer.learning_rate = learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
            batches = [lesson.batch(rng) for lesson in lessons]
            X, targets = (torch.stack(part) for part in zip(*batches, strict=True))
            loss = losses(forward(network, parameters.layers(), X), targets).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if progress is not None:
                progress("distil", step + 1, steps)
        trained = parameters.affines(comparison.improved())
    return [lesson.in_raw_inputs(affines) for lesson, affines in zip(lessons, trained, strict=True)]


class _Lesson:
    """The rows of one student in standardised inputs."""

    def __init__(
        self,
        student: Student,
        columns: Sequence[int],
        dtype: torch.dtype,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self.columns = list(columns)
        X = student.X.astype(np.float64)
        self.mean, self.deviation = training_units(student.network, X)
        self.mean[self.columns] = 0
        self.compared = rng.permutation(len(X))[:MOST_COMPARED]
        standard = (X - self.mean) / self.deviation
        standard[:, self.columns] = 0
        self.X, self.targets = (torch.tensor(part, dtype=dtype, device=device) for part in (standard, student.targets))
        self.network = student.network
        raw = [affine.astype(np.float64) for affine in student.network.affines]
        self.affines = in_units(student.network, raw, self.mean, self.deviation)

    def batch(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return self._rows(rng.integers(len(self.X), size=BATCH))

    def rows_to_compare(self) -> tuple[Tensor, Tensor]:
        return self._rows(self.compared)

    def _rows(self, numbers: Ints) -> tuple[Tensor, Tensor]:
        rows = torch.from_numpy(numbers).to(self.X.device)
        return self.X[rows], self.targets[rows]

    def in_raw_inputs(self, affines: list[Affine]) -> Network:
        """Return the trained network, which ignores the columns as before."""
        found = self.network.with_affines(in_raw_units(self.network, affines, self.mean, self.deviation))
        cut = found.read_columns[self.columns].any()
        return fix_columns(found, self.columns, np.zeros(len(self.columns))) if cut else found


class _StackedParameters:
    """The weights and biases of several networks of one shape, that of ``network``, as one leaf tensor."""

    def __init__(
        self, network: Network, networks: Sequence[Sequence[Affine]], dtype: torch.dtype, device: torch.device
    ) -> None:
        self.derived = DerivedBiases(network, dtype, device)
        arrays = [[array for affine in affines for array in (affine.weight, affine.bias)] for affines in networks]
        self.shapes, self.sizes = [array.shape for array in arrays[0]], [array.size for array in arrays[0]]
        rows = np.stack([np.concatenate([array.reshape(-1) for array in each]) for each in arrays])
        self.count = len(rows)
        self.flat = torch.tensor(rows, dtype=dtype, device=device).reshape(-1).requires_grad_()

    def table(self) -> Tensor:
        """Return the parameters, one row for each network."""
        return self.flat.view(self.count, -1)

    def layers(self, table: Tensor | None = None) -> Layers:
        """Return weights ``(networks, out, in)`` and biases ``(networks, out)``, layer by layer."""
        table = self.table() if table is None else table
        parts = torch.split(table, self.sizes, dim=1)
        shaped = [part.reshape(len(table), *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return self.derived.replace(list(zip(shaped[::2], shaped[1::2], strict=True)))

    def affines(self, table: Tensor) -> list[list[Affine]]:
        """Return the layers of each network."""
        layers = [(weight.double().cpu().numpy(), bias.double().cpu().numpy()) for weight, bias in self.layers(table)]
        return [[Affine(weight[k], bias[k]) for weight, bias in layers] for k in range(self.count)]


class _Comparison:
    """The parameters of each network and its loss at the start, to tell at the end which of them improved."""

    def __init__(
        self, lessons: list[_Lesson], parameters: _StackedParameters, network: Network, losses: Losses
    ) -> None:
        self.lessons, self.parameters, self.network, self.losses = lessons, parameters, network, losses
        self.start = parameters.table().detach().clone()
        self.loss_at_start = self._losses()

    @torch.no_grad()
    def improved(self) -> Tensor:
        """Return the present parameters of the networks with a lower loss, else those of the start.

        A loss of NaN is not lower.
        """
        lower = self._losses() < self.loss_at_start
        return torch.where(lower[:, None], self.parameters.table(), self.start)

    @torch.no_grad()
    def _losses(self) -> Tensor:
        table, found = self.parameters.table(), []
        for k, lesson in enumerate(self.lessons):
            X, targets = lesson.rows_to_compare()
            outputs = forward(self.network, self.parameters.layers(table[k : k + 1]), X[None])
            found.append(self.losses(outputs, targets[None]))
        return torch.cat(found)


def _cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each network, ``(networks,)``: binary for one logit."""
    if logits.shape[2] == 1:
        both = F.binary_cross_entropy_with_logits(logits[..., 0], targets[..., 1], reduction="none")
        return both.mean(dim=1)
    return -(targets * F.log_softmax(logits, dim=2)).sum(dim=2).mean(dim=1)


def _squared_errors(targets: Floats) -> Losses:
    """Return a function that gives each network's mean squared error, in units of the variance of each output."""
    variance = targets.var(axis=0)
    share = torch.tensor(1 / np.where(variance > 0, variance, 1.0))

    def losses(outputs: Tensor, wanted: Tensor) -> Tensor:
        return ((outputs - wanted).square() * share.to(outputs)).mean(dim=(1, 2))

    return losses
