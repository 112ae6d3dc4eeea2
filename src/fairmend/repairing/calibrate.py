"""Step 1 of ProF: tighten the bounds of the features over each neighbourhood (Alg. 1, Biased Feature Calibration)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU, memory_of, repeatable
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.bounds import Boxes, feature_bounds
from fairmend.bounds.forward import forward
from fairmend.bounds.linear import takes_symbols
from fairmend.network import Network
from fairmend.repairing.measures import as_columns
from fairmend.repairing.options import check_values
from fairmend.repairing.training import (
    Adam,
    History,
    Parameters,
    StepGraph,
    T,
    TaskLoss,
    chunks_of_inputs,
    cross_entropy,
    iterate_batches,
    record_step,
    squared_loss,
    step_entries,
    take_rows,
    torch_dtype,
)
from fairmend.spec.neighbourhoods import Regions

_logger = logging.getLogger(__name__)

_Parts = list[tuple[Tensor, Tensor, Tensor]]
"""L_fair, the total and the task loss of each chunk."""

_SHARE = 20  # the part of the regions with which the time of a step is measured, as a divisor
_MEASURED = 12  # steps that measure it: steps get quicker as widths shrink, by a factor of 3 to 10 in deep networks
_TO_MEASURE = 0.02  # the most that this may take of the time that is left

PAPER_STEPS = 200
PAPER_LEARNING_RATE = 0.001


@dataclass(frozen=True)
class Calibration:
    """A calibrated network and its losses. ``idle`` counts the inputs whose features did not vary at the start.

    ``cut_short`` says whether the time was over before the last step.
    """

    network: Network
    history: History
    idle: int
    seconds: float
    cut_short: bool = False


def calibrate(
    network: Network,
    regions: Regions,
    X_cal: np.ndarray,
    y_cal: np.ndarray,
    *,
    steps: int = PAPER_STEPS,
    learning_rate: float = PAPER_LEARNING_RATE,
    fairness_weight: float = 1.0,
    bounds: str = "linear",
    batch_size: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    squared_error: bool = False,
    device: torch.device = CPU,
    tf32: bool = False,
    parts: int = 1,
    is_over: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Calibration:
    """Minimise mean(width / width at the start) + cross-entropy over all parameters of the network.

    Parameters
    ----------
    regions : the neighbourhoods of the repair inputs.
    X_cal, y_cal : ``(rows, inputs)``, and the targets: class numbers ``(rows,)``, as in the paper, or probabilities
        ``(rows, classes)``, for instance those of the original network.
    steps, learning_rate : the paper's T and the learning rate of Adam.
    fairness_weight : factor of the width; 1 is the paper's, 0 leaves it out, which is plain fine-tuning.
    bounds : "linear" (the paper's) or "interval" (looser, cheaper on deep networks).
    batch_size : calibration rows in a step, drawn with ``seed``; all of them by default, as in the paper.
    patience : stop after so many steps without a lower total loss, and keep the best; never by default.
    squared_error : the network predicts numbers. The targets are numbers ``(rows,)`` or ``(rows, outputs)``, and the
        task loss is the mean squared error in units of the targets' variance, instead of cross-entropy.
    device : where to train. Regions are taken in chunks that fit its memory.
    tf32 : on a GPU, whether products keep three digits of their factors instead of seven, which is faster.
    parts : divide the regions into so many parts, of which each step takes the next one: quicker steps, whose widths
        stand for all. Not with ``patience``, which compares losses on the same regions.
    is_over : asked after each step whether to stop there, because the time is over.
    """
    started = time.perf_counter()
    check_values(
        steps=steps,
        learning_rate=learning_rate,
        fairness_weight=fairness_weight,
        bounds=bounds,
        batch_size=batch_size,
        patience=patience,
    )
    if patience is not None and batch_size is not None:
        raise FairmendError("patience compares losses on the same rows; use it without batch_size")
    if patience is not None and parts > 1:
        raise FairmendError("patience compares losses on the same regions; use it without parts")
    if network.depth == 1:  # a linear model: training does not move the features
        return Calibration(network, History(), regions.count, time.perf_counter() - started)
    dtype = torch_dtype(network)
    targets = as_columns(np.asarray(y_cal)) if squared_error else _targets(y_cal, network)
    task_loss_of = squared_loss(targets) if squared_error else cross_entropy
    fair: list[float] = []
    task: list[float] = []
    stopping, cut_short = _EarlyStopping(patience), False
    with repeatable(device, tf32=tf32):
        parameters = Parameters(network, dtype, device)
        same_rows = parts == 1 and (batch_size is None or batch_size >= len(X_cal))
        records = same_rows and (bounds != "linear" or not takes_symbols(network, len(regions.lower), device))
        losses = _Losses(network, parameters, regions, bounds, fairness_weight, task_loss_of, records, parts)
        X, y = (torch.tensor(array, dtype=dtype, device=device) for array in (X_cal, targets))
        batches = iterate_batches(len(X), batch_size, seed)
        optimizer = Adam(parameters.flat, learning_rate)
        with few_threads((len(X) + losses.rows) * parameters.flat.numel()):
            for step in range(steps):
                rows = next(batches)
                fair_loss, task_loss, total = losses.backward(take_rows(X, rows), take_rows(y, rows))
                if fair_loss is not None:
                    fair.append(fair_loss)
                task.append(task_loss)
                if not math.isfinite(total):
                    raise FairmendError(
                        f"calibration diverged at step {step}: the loss is {total}; use a smaller learning_rate than "
                        f"{learning_rate}, or scale the inputs"
                    )
                if stopping.record(total, parameters.flat):
                    break
                optimizer.step()
                if progress is not None:
                    progress("calibrate", step + 1, steps)
                if step + 1 < steps and is_over():
                    cut_short = True
                    break
            if patience is not None:
                with torch.no_grad():
                    stopping.record(losses.total(X, y), parameters.flat)
                    stopping.restore(parameters.flat)
    if task:
        _logger.info(
            "step 1: %d steps in %.2f s, task loss %.4g to %.4g%s",
            len(task),
            time.perf_counter() - started,
            task[0],
            task[-1],
            f", fairness loss {fair[0]:.4g} to {fair[-1]:.4g}" if fair else "",
        )
    return Calibration(
        network.with_affines(parameters.affines()),
        History(tuple(fair), tuple(task)),
        losses.idle,
        time.perf_counter() - started,
        cut_short,
    )


def expected_seconds(
    network: Network,
    regions: Regions,
    X_cal: np.ndarray,
    y_cal: np.ndarray,
    *,
    steps: int,
    bounds: str,
    squared_error: bool = False,
    device: torch.device = CPU,
    left: float | None = None,
) -> float:
    """Return about how long `calibrate` takes at most, from its first steps with a twentieth of regions and rows.

    Steps get quicker as widths shrink, and batches are cheaper than their parts, so it often takes less.
    ``left`` is the time in which all must end, in seconds, of which this may take a small part.
    """
    inputs, rows = np.arange(-(-regions.count // _SHARE)), slice(0, -(-len(X_cal) // _SHARE))
    ends: list[float] = []
    most = math.inf if left is None else time.perf_counter() + _TO_MEASURE * left
    calibrate(
        network,
        regions.subset(inputs),
        X_cal[rows],
        y_cal[rows],
        steps=_MEASURED,
        bounds=bounds,
        squared_error=squared_error,
        device=device,
        is_over=lambda: len(ends) > 1 and ends[-1] > most,
        progress=lambda stage, done, total: ends.append(time.perf_counter()),
    )
    return float(np.median(np.diff(ends)[-3:])) * regions.count / len(inputs) * steps


class _Losses:
    """L_fair and L_bce of Alg. 1. L_fair leaves out the ``idle`` inputs, whose features did not vary at the start.

    L_fair is a sum over regions. They are taken in chunks, each with its own backward pass, so that memory does not
    grow with their number.
    """

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        regions: Regions,
        bounds: str,
        fairness_weight: float,
        task_loss: TaskLoss,
        records: bool,
        parts: int = 1,
    ) -> None:
        self._in_turn, self._next = parts > 1, 0
        self.network, self.parameters, self.regions, self.bounds = network, parameters, regions, bounds
        self.fairness_weight, self.task_loss = fairness_weight, task_loss
        flat = parameters.flat
        self._records = records and flat.is_cuda and network.is_chain
        self._rows: Tensor | None = None
        self._graph: StepGraph[_Parts] | None = None
        self.rows = len(regions.lower) * (1 + int((regions.lower != regions.upper).any(axis=0).sum()))
        piece_bytes = step_entries(network, bounds) * flat.element_size()
        self._divide(max(1, min(memory_of(flat.device) // piece_bytes, len(regions.lower) // parts)))
        with torch.no_grad():
            initial = self._with_less_memory(lambda: torch.cat([self._widths(chunk) for chunk in self.chunks]))
        # The width of a saturated unit may be 1e-30; a ratio to that is noise, and overflows.
        varies = initial > math.sqrt(torch.finfo(flat.dtype).tiny)
        self.idle = int((~varies).sum())
        self.share = torch.where(varies, 1 / initial, torch.zeros_like(initial)) / varies.sum().clamp(min=1)

    def backward(self, X: Tensor, y: Tensor) -> tuple[float | None, float, float]:
        """Set the gradient of the parameters to that of the total loss. Return L_fair, the task loss and the total."""
        return self._with_less_memory(lambda: self._backward(X, y))

    def _backward(self, X: Tensor, y: Tensor) -> tuple[float | None, float, float]:
        self.parameters.flat.grad = None
        graph = self._recorded(X, y)
        parts = self._parts(X, y) if graph is None else graph.replay()
        # All at once, after the last kernel was started: each number that is read waits for the GPU.
        rows = torch.stack([torch.stack(part) for part in parts]).tolist()
        fair, total, task = (sum(row[column] for row in rows) for column in range(3))
        return fair if self.fairness_weight > 0 else None, task, total

    def _recorded(self, X: Tensor, y: Tensor) -> StepGraph[_Parts] | None:
        """Return the recorded step for these rows, which it records first; None if steps are not recorded."""
        if not self._records:
            return None
        if self._rows is not X:
            self._rows, self._graph = X, record_step(lambda: self._parts(X, y), self.parameters.flat)
            self._records = self._graph is not None
        return self._graph

    def _parts(self, X: Tensor, y: Tensor) -> _Parts:
        """Set the sum of all gradients. Return each chunk's part of L_fair, of the total and of the task loss."""
        parts: _Parts = []
        nothing = self.share.new_zeros(())
        gradient: Tensor | None = None
        for chunk in self._chunks_of_step():
            # A new leaf: the gradient node of an old one belongs to the stream of its first use, which is not the one
            # that records.
            leaf = self.parameters.flat.detach().requires_grad_()
            layers = self.parameters.layers(leaf)
            losses: list[Tensor] = []
            fair = task = nothing
            if chunk is not None:
                fair = self.share[chunk.inputs] @ self._widths(chunk, layers)
                if self._in_turn:  # it stands for all
                    fair = fair / self.share[chunk.inputs].count_nonzero().clamp(min=1) * self.share.count_nonzero()
                losses.append(fair if self.fairness_weight == 1 else self.fairness_weight * fair)
            if chunk is None or self._in_turn or chunk.inputs.start == 0:
                task = self.task_loss(forward(self.network, layers, X), y)
                losses.append(task)
            loss = losses[0] + losses[1] if len(losses) == 2 else losses[0]
            (own,) = torch.autograd.grad(loss, leaf)
            gradient = own if gradient is None else gradient.add_(own)
            parts.append((fair.detach(), loss.detach(), task.detach()))
        self.parameters.flat.grad = gradient
        return parts

    def _chunks_of_step(self) -> Sequence[_Chunk | None]:
        """Return the chunks that a step takes: all, the next one, or none."""
        if self.fairness_weight == 0:
            return (None,)
        if not self._in_turn:
            return self.chunks
        self._next += 1
        return (self.chunks[(self._next - 1) % len(self.chunks)],)

    def total(self, X: Tensor, y: Tensor) -> float:
        """Return the total loss."""
        task = self.task_loss(forward(self.network, self.parameters.layers(), X), y)
        if self.fairness_weight == 0:
            return float(task)
        fair = sum(self.share[chunk.inputs] @ self._widths(chunk) for chunk in self.chunks)
        return float(self.fairness_weight * fair + task)

    def _widths(self, chunk: _Chunk, layers: list[tuple[Tensor, Tensor]] | None = None) -> Tensor:
        layers = self.parameters.layers() if layers is None else layers
        return chunk.widths(*feature_bounds(self.network, layers[:-1], chunk.boxes, self.bounds))

    def _divide(self, pieces: int) -> None:
        """Divide the regions into chunks of about so many pieces, at least one region each."""
        flat = self.parameters.flat
        self.chunks = [_Chunk(self.regions, part, flat) for part in chunks_of_inputs(self.regions, pieces)]

    def _with_less_memory(self, work: Callable[[], T]) -> T:
        """Return the result of some work; if the memory of the GPU is full, take smaller chunks and repeat it."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                largest = max(len(chunk.boxes.rows[0]) for chunk in self.chunks)
                if all(chunk.single for chunk in self.chunks):
                    raise FairmendError(
                        "the GPU has too little memory for one neighbourhood of this network: use device cpu"
                    ) from None
            self._records, self._graph = False, None  # recorded steps hold memory
            torch.cuda.empty_cache()
            self._divide(max(1, largest // 2))
            _logger.warning("the memory of the GPU is full: going on with %d chunks of the regions", len(self.chunks))


class _Chunk:
    """Some of the inputs, ``inputs`` in the order of the regions, with the boxes of their neighbourhoods."""

    def __init__(self, regions: Regions, inputs: slice, like: Tensor) -> None:
        whole = inputs == slice(0, regions.count)
        part = regions if whole else regions.subset(np.arange(inputs.start, inputs.stop))
        self.inputs, self.single = inputs, part.count == 1
        self.boxes = Boxes.from_arrays(part.lower, part.upper, like.dtype).to(like.device)
        self.widths = _Widths(part, like.device)


class _EarlyStopping:
    """Keeps the best parameters, and tells when to stop; without ``patience`` it does neither."""

    def __init__(self, patience: int | None) -> None:
        self.patience, self.loss, self.waited = patience, math.inf, 0
        self.flat: Tensor | None = None

    def record(self, loss: float, flat: Tensor) -> bool:
        """Record a loss. Return whether it has not improved for more than ``patience`` steps."""
        if self.patience is None:
            return False
        if loss < self.loss:
            self.loss, self.waited, self.flat = loss, 0, flat.detach().clone()
        else:
            self.waited += 1
        return self.waited > self.patience

    def restore(self, flat: Tensor) -> None:
        """Put the best parameters back."""
        if self.flat is not None:
            flat.copy_(self.flat)


class _Widths:
    """The l1 width of each input's features: the sum over units of the hull of its pieces."""

    def __init__(self, regions: Regions, device: torch.device) -> None:
        self.owner = None if regions.single else torch.from_numpy(regions.owner).to(device)
        self.count = regions.count

    def __call__(self, lower: Tensor, upper: Tensor) -> Tensor:
        if self.owner is not None:
            index = self.owner.unsqueeze(-1).expand_as(lower)
            empty = lower.new_zeros(self.count, lower.shape[1])
            lower = empty.scatter_reduce(0, index, lower, "amin", include_self=False)
            upper = empty.scatter_reduce(0, index, upper, "amax", include_self=False)
        return (upper - lower).sum(1)


def _targets(y_cal: np.ndarray, network: Network) -> np.ndarray:
    """Return probabilities of each class, ``(rows, classes)``."""
    targets = np.asarray(y_cal)
    classes = 2 if network.outputs == 1 else network.outputs
    if targets.ndim == 1:
        return np.eye(classes)[targets.astype(np.int64)]
    if targets.shape[1:] != (classes,):
        raise FairmendError(f"targets have shape {targets.shape}; they must be (rows, {classes}), one for each class")
    return targets
