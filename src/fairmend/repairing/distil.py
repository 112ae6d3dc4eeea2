"""Train blind networks towards the original network's predictions (distillation), several of them at once; or a module.

`calibrate` is the paper's training: full batches, a fixed number of steps, the inputs as they are. A blind network may
have lost a feature that mattered, and must learn to do without it, from inputs of any scale. So this training

- works in standardised inputs: the mean and deviation of each column are folded into the first layer, and out of it
  afterwards, because Adam's steps have one size for all weights, and raw inputs do not;
- takes small random batches of all rows, with a learning rate that falls to 0. On synthetic data this keeps more of the
  model than stopping early on held-out rows, which are then not trained on: calibration rows are few;
- changes nothing if it fails: where the loss is not lower at the end, the network stays as it was.

Networks of one shape are trained together: small ones cost mostly overhead, so that five take little longer than one.

The rows that a repair trains on, and their targets: labels, the original network's outputs, or both.

`training_rows` gives the original's output for each row as it is. `expected_training_rows` is for networks that ignore
features, which the original does not. The best that such a network can give is the original's *expected* output: the
mean over people who differ in the ignored features only. One row shows one of them, by chance. So the target of a row
is a mean over the ignored values of the rows that are nearest to it in all other columns.

A user's module that fairmend does not read is trained as it is run: in evaluation mode, so that dropout does nothing,
and the statistics of norms stay. Only its parameters change, those that are not frozen. Batches, learning rate and the
comparison at the end are those of networks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU, repeatable
from fairmend.base.progress import Progress
from fairmend.base.text import first_line
from fairmend.base.threads import few_threads
from fairmend.bounds.forward import forward
from fairmend.models import Port, RunModel
from fairmend.models.module import ModuleRunner
from fairmend.network import Affine, Network
from fairmend.network.input_columns import fix_columns, in_raw_units, in_units, training_units
from fairmend.repairing.task import RepairTask
from fairmend.repairing.training import Adam, Parameters, TaskLoss, squared_loss, torch_dtype

STEPS = 300
LEARNING_RATE = 0.003
BATCH = 256
MOST_COMPARED = 2000
"""The rows, at most, on which the loss at the end is compared to that at the start."""

FEW_ROWS = 2000
"""With more rows than this, training itself averages over people who are alike: on synthetic data, means over near rows
gain 0.2 to 0.5 points of accuracy with 300 to 1,100 rows, and nothing with 5,000."""

NEAREST = 20
"""The rows whose ignored values are used. On synthetic data 5 to 40 are about equally good."""


def training_rows(task: RepairTask, label_weight: float) -> tuple[FloatArray, Floats]:
    """Return rows and their targets: probabilities ``(rows, classes)``, or numbers ``(rows, outputs)`` of a regression.

    A label counts with ``label_weight``, the original network's output with the rest. Rows without labels have the
    original's output as their target, and are of no use where only labels count.
    """
    rows = len(task.X_cal) if label_weight == 1 else len(task.data.X)
    targets = task.measure.output_targets(task.network, task.data.logits[:rows])
    return task.data.X[:rows], with_labels(targets, task, label_weight)


def expected_training_rows(task: RepairTask, columns: list[int], label_weight: float) -> tuple[FloatArray, Floats]:
    """Return rows, and the targets of a network that ignores these columns: those of `training_rows` if there are many.

    A label counts with ``label_weight``, the expected output of the original network with the rest. The repair inputs
    are rows to learn from too, but lend no values to others: they need not be like the data.
    """
    data = task.data.X
    if len(data) > FEW_ROWS:
        return training_rows(task, label_weight)
    X = np.concatenate([data, task.X_repair])
    return X, with_labels(_expected_outputs(task, X, data, columns), task, label_weight)


def _expected_outputs(task: RepairTask, X: FloatArray, data: FloatArray, columns: list[int]) -> Floats:
    """Return the mean of the original's outputs over the values that the nearest rows of the data have in columns."""
    outputs = []
    for near in _nearest(X, data, columns).T:
        replaced = X.copy()
        replaced[:, columns] = data[np.ix_(near, columns)]
        outputs.append(task.measure.output_targets(task.network, task.network.logits(replaced)))
    return np.asarray(np.mean(outputs, axis=0))


def _nearest(X: FloatArray, data: FloatArray, columns: list[int]) -> Ints:
    """Return for each row the numbers of the rows of the data that are nearest in all other columns.

    Distances are in units of the deviation of each column.
    """
    if len(data) <= NEAREST:
        return np.tile(np.arange(len(data)), (len(X), 1))
    others = np.setdiff1d(np.arange(X.shape[1]), columns)
    centre, deviation = (part(data[:, others], axis=0, dtype=np.float64) for part in (np.mean, np.std))
    units = np.where(deviation > 0, deviation, 1.0)
    rows, points = (((part[:, others] - centre) / units).astype(np.float32) for part in (X, data))
    distances = np.square(points).sum(axis=1) - 2 * rows @ points.T  # without what is equal for all points of a row
    return np.asarray(np.argpartition(distances, NEAREST, axis=1)[:, :NEAREST])


def with_labels(targets: Floats, task: RepairTask, label_weight: float) -> Floats:
    """Return targets of rows, the first of which are the calibration rows, with the labels of those mixed in.

    The loss towards the mixture is, up to a constant, the mean of the losses towards labels and towards outputs.
    """
    labels = task.measure.label_targets(task.y_cal, targets.shape[1])
    targets[: len(labels)] *= 1 - label_weight
    targets[: len(labels)] += label_weight * labels
    return targets


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
    dtype = torch_dtype(network)
    rng = np.random.default_rng(seed)
    lessons = [_Lesson(student, columns, dtype, rng, device) for student in students]
    parameters = Parameters(network, dtype, device, [lesson.affines for lesson in lessons])
    optimizer = Adam(parameters.flat, learning_rate)
    losses = squared_loss(students[0].targets, dim=(1, 2)) if squared_error else _cross_entropies
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
        trained = parameters.layers(comparison.improved())
    layers = [(weight.double().cpu().numpy(), bias.double().cpu().numpy()) for weight, bias in trained]
    return [
        lesson.in_raw_inputs([Affine(weight[number], bias[number]) for weight, bias in layers])
        for number, lesson in enumerate(lessons)
    ]


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


class _Comparison:
    """The parameters of each network and its loss at the start, to tell at the end which of them improved."""

    def __init__(self, lessons: list[_Lesson], parameters: Parameters, network: Network, losses: TaskLoss) -> None:
        self.lessons, self.parameters, self.network, self.losses = lessons, parameters, network, losses
        self.start = parameters.values.detach().clone()
        self.loss_at_start = self._losses()

    @torch.no_grad()
    def improved(self) -> Tensor:
        """Return the present parameters of the networks with a lower loss, else those of the start.

        A loss of NaN is not lower.
        """
        lower = self._losses() < self.loss_at_start
        return torch.where(lower[:, None], self.parameters.values, self.start)

    @torch.no_grad()
    def _losses(self) -> Tensor:
        table, found = self.parameters.values, []
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


# A copy of a user's module, for modules that fairmend does not read


MODULE_LEARNING_RATE = 0.001
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
    lesson = _ModuleLesson(runner, model, X, targets)
    rng = np.random.default_rng(seed)
    compared = rng.permutation(len(X))[:MOST_COMPARED]
    optimizer = torch.optim.Adam(parameters, MODULE_LEARNING_RATE)
    size = sum(each.numel() for each in parameters)
    try:
        with few_threads(BATCH * size):
            before = lesson.loss_without_gradients(compared)
            for step in range(steps):
                for group in optimizer.param_groups:
                    group["lr"] = MODULE_LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2
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


class _ModuleLesson:
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
