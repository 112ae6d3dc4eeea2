"""Train a network until the neighbourhood of every repair input provably gets one class (certified training).

Step 1 makes neighbourhoods narrow, and step 2 moves the threshold away from them. Where a network relies on a tolerant
feature and neighbourhoods are connected, both lose much: step 1 narrows what need not be narrow, and step 2 knows the
head only. Here all layers learn at once

- to predict one class in each group of connected neighbourhoods (`fairmend.repair.connected`), and elsewhere what the
  targets say: the targets of the rows in a group are their mean, and its class is that of this mean;
- to have the worst output over each neighbourhood on the side of its class. The loss is the cross-entropy of that
  output, as interval arithmetic bounds it (Gowal et al., 2018).

After every round, the proof itself tells which neighbourhoods are left, and they count more from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds import Boxes, feature_bounds
from fairmend.bounds.forward import forward
from fairmend.device.choice import CPU, repeatable
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.repair.adam import Adam
from fairmend.repair.calibrate import Calibration, FlatParameters, History
from fairmend.repair.connected import connected_groups, groups_of_rows
from fairmend.spec.neighbourhoods import Regions
from fairmend.threads import few_threads

__all__ = ["one_target_for_each_group", "train_certified"]

ROUNDS, MOST_ROUNDS, ROUND_STEPS = 5, 10, 60
"""The learning rate falls over the first rounds; the others run only as long as a proof is missing."""
LEARNING_RATE, LAST_LEARNING_RATE = 0.003, 0.001
WEIGHT, GROWTH = 0.1, 3.0
"""The weight of the neighbourhoods against the rows, and the factor of those that are not proven after a round."""
BATCH, MOST_PIECES = 512, 512

Layers = list[tuple[Tensor, Tensor]]


def one_target_for_each_group(X: FloatArray, targets: Floats, regions: Regions) -> tuple[Floats, Floats]:
    """Return targets that are equal for all rows in a group of connected neighbourhoods, and those of each input.

    ``X (rows, inputs)`` has at least one row in each neighbourhood, and ``targets (rows, classes)`` are probabilities.
    A group gets the mean of its rows. The second result is ``(inputs, classes)``.
    """
    groups = connected_groups(regions)
    group = groups_of_rows(X, regions, groups)
    inside = group >= 0
    sums, counts = np.zeros((groups.max() + 1, targets.shape[1])), np.bincount(group[inside])
    np.add.at(sums, group[inside], targets[inside])
    means = sums / counts[:, None]
    return np.where(inside[:, None], means[group], targets), means[groups]


def train_certified(
    network: Network,
    regions: Regions,
    classes: Ints,
    X: FloatArray,
    targets: Floats,
    *,
    is_proven: Callable[[Network], Bools],
    seed: int = 0,
    device: torch.device = CPU,
    progress: Progress | None = None,
) -> Calibration:
    """Train towards ``targets (rows, classes)`` and towards one class for each neighbourhood: ``classes (inputs,)``.

    ``is_proven`` tells for each input ``(inputs,)`` whether the proof of its neighbourhood holds. The result need not
    be proven: after the last round, the network is returned as it is.
    """
    dtype = torch.float32 if network.dtype == np.float32 else torch.float64
    parameters = FlatParameters(network, dtype, device)
    optimizer = Adam(parameters.flat, LEARNING_RATE)
    worst = _WorstOutputs(network, regions, classes, dtype, device)
    rows, wanted = (torch.tensor(part, dtype=dtype, device=device) for part in (X, targets))
    rng = np.random.default_rng(seed)
    weights = np.full(regions.count, WEIGHT)
    fair: list[float] = []
    task: list[float] = []
    total = ROUNDS * ROUND_STEPS
    with repeatable(device), few_threads((BATCH + len(regions.lower)) * parameters.flat.numel()):
        for round_number in range(MOST_ROUNDS):
            for step in range(round_number * ROUND_STEPS, (round_number + 1) * ROUND_STEPS):
                optimizer.learning_rate = _learning_rate(step, total)
                layers = parameters.layers()
                batch = torch.from_numpy(rng.integers(len(X), size=BATCH)).to(device)
                task_loss = _cross_entropy(forward(network, layers, rows[batch]), wanted[batch])
                fair_loss = worst.loss(layers, weights, rng)
                share = min(1.0, 2 * step / total)
                (task_loss + share * fair_loss).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                fair.append(float(fair_loss.detach()))
                task.append(float(task_loss.detach()))
                if progress is not None:
                    progress("calibrate", step + 1, max(total, (round_number + 1) * ROUND_STEPS))
            trained = network.with_affines(parameters.affines())
            proven = is_proven(trained)
            if proven.all() and round_number >= ROUNDS - 1:
                break
            weights = np.where(proven, weights, GROWTH * weights)
    return Calibration(trained, History(tuple(fair), tuple(task)), 0, 0.0)


def _learning_rate(step: int, total: int) -> float:
    if step >= total:
        return LAST_LEARNING_RATE
    return LEARNING_RATE * (1 + math.cos(math.pi * step / total)) / 2


class _WorstOutputs:
    """The least leads of each neighbourhood's class over the others, as interval arithmetic bounds them."""

    def __init__(
        self, network: Network, regions: Regions, classes: Ints, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.network, self.regions, self.dtype, self.device = network, regions, dtype, device
        self.classes = classes[regions.owner]
        self._all = self._boxes(np.arange(len(regions.owner))) if len(regions.owner) <= MOST_PIECES else None

    def loss(self, layers: Layers, weights: Floats, rng: np.random.Generator) -> Tensor:
        """Return the weighted mean of the cross-entropies over the pieces, or over some of them if there are many."""
        pieces = np.arange(len(self.regions.owner))
        if self._all is None:
            pieces = rng.integers(len(pieces), size=MOST_PIECES)
        boxes = self._boxes(pieces) if self._all is None else self._all
        counts = torch.tensor(weights[self.regions.owner[pieces]], dtype=self.dtype, device=self.device)
        leads = self._leads(layers, boxes, torch.from_numpy(self.classes[pieces]).to(self.device))
        return (counts * torch.logsumexp(-leads, dim=1)).mean()

    def _boxes(self, pieces: Ints) -> Boxes:
        return Boxes.from_arrays(self.regions.lower[pieces], self.regions.upper[pieces], self.dtype).to(self.device)

    def _leads(self, layers: Layers, boxes: Boxes, classes: Tensor) -> Tensor:
        """Return lower bounds of the class's output minus each class's, ``(pieces, classes)``: 0 for its own."""
        lower, upper = feature_bounds(self.network, layers[:-1], boxes, "interval")
        weight, bias = layers[-1]
        if len(weight) == 1:  # the logit of class 1; that of class 0 is 0
            weight, bias = (torch.cat([torch.zeros_like(part), part]) for part in (weight, bias))
        bias = torch.cat([bias[:-1], bias[-1:] - self.network.offset])  # class 1 is predicted from the offset on
        differences = weight[classes][:, None] - weight
        least = torch.einsum("pcu,pu->pc", differences.clamp(min=0), lower)
        least = least + torch.einsum("pcu,pu->pc", differences.clamp(max=0), upper)
        return least + bias[classes][:, None] - bias


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], targets[:, 1])
    return F.cross_entropy(outputs, targets)
