"""Step 1 of ProF: tighten the bounds of the features over each neighbourhood (Alg. 1, Biased Feature Calibration)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.bounds import METHODS, Boxes, apply_activation, feature_bounds
from fairmend.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.progress import Progress
from fairmend.repair.adam import Adam
from fairmend.spec.neighbourhoods import Regions
from fairmend.threads import few_threads

_logger = logging.getLogger(__name__)

PAPER_STEPS = 200
PAPER_LEARNING_RATE = 0.001


@dataclass(frozen=True)
class History:
    """The two losses of Alg. 1 before each step: ``fair`` (mean relative width) and ``task`` (cross-entropy).

    ``fair`` is empty where it had no weight.
    """

    fair: tuple[float, ...] = ()
    task: tuple[float, ...] = ()

    def __len__(self) -> int:
        """How many steps were taken."""
        return len(self.task)


@dataclass(frozen=True)
class Calibration:
    """A calibrated network, and how it got there. ``idle`` counts inputs whose features did not vary at the start."""

    network: Network
    history: History
    idle: int
    seconds: float


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
    progress: Progress | None = None,
) -> Calibration:
    """Minimise mean(width / width at the start) + cross-entropy over all parameters of the network.

    Parameters
    ----------
    regions : the neighbourhoods of the repair inputs.
    X_cal, y_cal : ``(rows, inputs)``, and what to answer there: class numbers ``(rows,)``, as in the paper, or
        probabilities ``(rows, classes)``, for instance those of the original network, to keep what it knows.
    steps, learning_rate : the paper's T and the rate of Adam.
    fairness_weight : factor of the width; 1 is the paper's, 0 leaves it out (and this is plain fine-tuning).
    bounds : "linear" (the paper's) or "interval" (looser, cheaper on deep networks).
    batch_size : calibration rows in a step, drawn with ``seed``; all of them by default, as in the paper.
    patience : stop after so many steps without a better total loss, and keep the best; never by default.
    """
    started = time.perf_counter()
    _check_options(steps, learning_rate, fairness_weight, bounds, batch_size, patience)
    if patience is not None and batch_size is not None:
        raise FairmendError("patience compares losses of the same rows; it needs batch_size=None")
    if not network.activations:  # a linear model: its features are its inputs, and no training moves those
        return Calibration(network, History(), regions.count, time.perf_counter() - started)
    dtype = torch.float32 if network.dtype == np.float32 else torch.float64
    parameters = FlatParameters(network, dtype)
    losses = _Losses(network, parameters, regions, bounds, dtype, fairness_weight)
    X, y = torch.tensor(X_cal, dtype=dtype), torch.tensor(_targets(y_cal, network), dtype=dtype)
    batches = _batches(X, y, batch_size, seed)
    optimizer = Adam(parameters.flat, learning_rate)
    fair: list[float] = []
    task: list[float] = []
    best = _Best(patience)
    with few_threads((len(X) + losses.rows) * parameters.flat.numel()):
        for step in range(steps):
            fair_loss, task_loss = losses(parameters.layers(), *next(batches))
            total_loss = task_loss if fair_loss is None else fairness_weight * fair_loss + task_loss
            total_loss.backward()  # type: ignore[no-untyped-call]
            if fair_loss is not None:
                fair.append(fair_loss.item())
            task.append(task_loss.item())
            total = total_loss.item()
            if not math.isfinite(total):
                raise FairmendError(
                    f"calibration diverged at step {step}: the loss is {total}; try a smaller learning_rate than "
                    f"{learning_rate}, or scaled inputs"
                )
            if best.enough(total, parameters.flat):
                break
            optimizer.step()
            if progress is not None:
                progress("calibrate", step + 1, steps)
        if patience is not None:
            with torch.no_grad():
                fair_loss, task_loss = losses(parameters.layers(), X, y)
                total = float(task_loss if fair_loss is None else fairness_weight * fair_loss + task_loss)
                best.enough(total, parameters.flat)
                best.restore(parameters.flat)
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
    )


def _check_options(
    steps: int,
    learning_rate: float,
    fairness_weight: float,
    bounds: str,
    batch_size: int | None,
    patience: int | None,
) -> None:
    for name, value, least in (("steps", steps, 0), ("batch_size", batch_size, 1), ("patience", patience, 0)):
        if value is not None and not (isinstance(value, int | np.integer) and value >= least):
            raise FairmendError(f"{name} is {value!r}; give a whole number of {least} or more")
    if not (0 < learning_rate < math.inf and 0 <= fairness_weight < math.inf):
        raise FairmendError(
            f"calibration needs a learning_rate > 0 and a fairness_weight >= 0; got {learning_rate}, {fairness_weight}"
        )
    if bounds not in METHODS:
        raise FairmendError(f"unknown bounds {bounds!r}; there are {', '.join(METHODS)}")


class _Losses:
    """L_fair and L_bce of Alg. 1. Inputs whose features did not vary at the start (``idle``) have no share in it."""

    def __init__(
        self,
        network: Network,
        parameters: FlatParameters,
        regions: Regions,
        bounds: str,
        dtype: torch.dtype,
        fairness_weight: float,
    ) -> None:
        self.network, self.bounds, self.wanted = network, bounds, fairness_weight > 0
        self.boxes = Boxes.from_arrays(regions.lower, regions.upper, dtype)
        self.rows = self.boxes.rows.shape[0] * self.boxes.rows.shape[1]
        self.widths = _Widths(regions)
        with torch.no_grad():
            initial = self._current_widths(parameters.layers())
        # A saturated unit has a width of 1e-30, say; what that shrinks to in proportion is noise, and overflows.
        varies = initial > math.sqrt(torch.finfo(dtype).tiny)
        self.idle = int((~varies).sum())
        self.share = torch.where(varies, 1 / initial, torch.zeros_like(initial)) / varies.sum().clamp(min=1)

    def __call__(self, layers: list[tuple[Tensor, Tensor]], X: Tensor, y: Tensor) -> tuple[Tensor | None, Tensor]:
        fair = self.share @ self._current_widths(layers) if self.wanted else None
        return fair, _task_loss(layers, self.network, X, y)

    def _current_widths(self, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
        return self.widths(*feature_bounds(layers[:-1], self.network.activations, self.boxes, self.bounds))


class _Best:
    """Remembers the best parameters; without ``patience`` it remembers nothing and is never impatient."""

    def __init__(self, patience: int | None) -> None:
        self.patience, self.loss, self.waited = patience, math.inf, 0
        self.flat: Tensor | None = None

    def enough(self, loss: float, flat: Tensor) -> bool:
        """Take note of a loss; whether it has not become better for too long."""
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


class FlatParameters:
    """All weights and biases as one leaf, because an optimiser step costs by the tensor."""

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        arrays = [array for affine in network.affines for array in (affine.weight, affine.bias)]
        self.shapes = [array.shape for array in arrays]
        self.sizes = [array.size for array in arrays]
        self.flat = torch.cat([torch.tensor(array, dtype=dtype).reshape(-1) for array in arrays])
        self.flat.requires_grad_()

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Views of weight and bias, layer by layer."""
        parts = [part.view(shape) for part, shape in zip(torch.split(self.flat, self.sizes), self.shapes, strict=True)]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def affines(self) -> list[Affine]:
        """Copies of the layers as they are now."""
        return [Affine(weight.detach().numpy().copy(), bias.detach().numpy().copy()) for weight, bias in self.layers()]


class _Widths:
    """The l1 width of each input's features: the sum over units of the hull of its pieces."""

    def __init__(self, regions: Regions) -> None:
        self.owner = None if regions.single else torch.from_numpy(regions.owner)
        self.count = regions.count

    def __call__(self, lower: Tensor, upper: Tensor) -> Tensor:
        if self.owner is not None:
            index = self.owner.unsqueeze(-1).expand_as(lower)
            empty = lower.new_zeros(self.count, lower.shape[1])
            lower = empty.scatter_reduce(0, index, lower, "amin", include_self=False)
            upper = empty.scatter_reduce(0, index, upper, "amax", include_self=False)
        return (upper - lower).sum(1)


def _batches(X: Tensor, y: Tensor, size: int | None, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    if size is None or size >= len(X):
        while True:
            yield X, y
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.split(torch.randperm(len(X), generator=generator), size):
            yield X[rows], y[rows]


def _task_loss(layers: list[tuple[Tensor, Tensor]], network: Network, X: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the whole network: binary for one logit."""
    h = X
    for (weight, bias), activation in zip(layers, network.activations, strict=False):
        h = apply_activation(activation, torch.addmm(bias, h, weight.T))
    weight, bias = layers[-1]
    logits = torch.addmm(bias, h, weight.T)
    if network.outputs == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], y[:, 1])
    return F.cross_entropy(logits, y)


def _targets(y_cal: np.ndarray, network: Network) -> np.ndarray:
    """Probabilities of each class, ``(rows, classes)``."""
    targets = np.asarray(y_cal)
    classes = 2 if network.outputs == 1 else network.outputs
    if targets.ndim == 1:
        return np.eye(classes)[targets.astype(np.int64)]
    if targets.shape[1:] != (classes,):
        raise FairmendError(f"targets have shape {targets.shape}; they must be (rows, {classes}), one for each class")
    return targets
