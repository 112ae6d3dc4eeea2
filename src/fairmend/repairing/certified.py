"""Train a network until the neighbourhood of every repair input provably gets one class (certified training).

Step 1 makes neighbourhoods narrow, and step 2 moves the threshold away from them. Where a network relies on a tolerant
feature and neighbourhoods are connected, both lose much: step 1 narrows what need not be narrow, and step 2 knows the
head only. Here all layers learn at once

- to predict one class in each group of connected neighbourhoods (`repairing.connected`), and elsewhere what the
  targets say. The class is the one that loses least, of accuracy and of balanced accuracy;
- to have the worst output over each neighbourhood on the side of its class. The loss is the cross-entropy of that
  output, as interval arithmetic bounds it (Gowal et al., 2018).

After every round, the proof itself tells which neighbourhoods are left, and they count more from then on.

A proof for the repair inputs gives each of their neighbourhoods one prediction. Where two of them overlap, someone is
in both, so both have the same prediction, and so on along a chain (2 ~ 3 ~ 4 prior offences …). In data with few
different people most neighbourhoods are connected to others.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.gpu import CPU, repeatable
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.bounds import Boxes, feature_bounds
from fairmend.bounds.forward import forward
from fairmend.network import Network
from fairmend.repairing.calibrate import Calibration
from fairmend.repairing.measures import balancing_weights
from fairmend.repairing.training import Adam, History, Layers, Parameters, cross_entropy, torch_dtype
from fairmend.spec.neighbourhoods import Regions

_logger = logging.getLogger(__name__)

STEPS = 300
ROUNDS, MOST_ROUNDS = 5, 10
"""The steps make up the first rounds, over which the learning rate falls. The others run while a proof is missing."""
SMALL_STEPS, LARGE_STEPS, LAST_LEARNING_RATE = 0.003, 0.02, 0.001
"""Learning rates: small steps where hardly anyone is in a neighbourhood, so that the network stays as it is elsewhere,
and large ones where all rows are, and much has to change. On synthetic data with most rows in neighbourhoods, 0.01 to
0.03 keep more than 0.003, and leave fewer neighbourhoods without a proof."""
WEIGHT, GROWTH = 0.1, 3.0
"""The weight of the neighbourhoods against the rows, and the factor for those that are not proven after a round. On
synthetic data, weights from 0.03 to 0.3 keep about as much; with 0.03, a proof may be missing at the end."""
BALANCED = 0.5
"""The weight of balanced accuracy in the choice of a group's class; the rest is accuracy's. A group that holds both
classes mostly has more of the frequent one, so with accuracy alone the rare class would lose most groups. On synthetic
data, 0.5 costs hardly any accuracy, and 0.75 gains nothing more."""
SURE = 0.5
"""How far the target of a group goes from the mean of its rows to its class. On synthetic data, targets of 0.5 to 0.6
leave neighbourhoods without a proof."""
BATCH, MOST_PIECES = 512, 512

_ROUNDING = 1e-6
"""The relative distance by which ends that are equal may differ in float32."""


def connected_groups(regions: Regions) -> Ints:
    """Return the number of the group that each input belongs to, ``(inputs,)``: from 0, in the order of the inputs.

    Two inputs belong to one group if their neighbourhoods overlap, or if a chain of others connects them.
    """
    owner = regions.owner
    group = np.arange(regions.count)
    for piece, others in _overlaps(regions, regions.lower, regions.upper):
        joined = np.unique(group[owner[[piece, *others]]])
        group[np.isin(group, joined)] = joined[0]
    return np.asarray(np.unique(group, return_inverse=True)[1])


def groups_of_rows(X: FloatArray, regions: Regions, groups: Ints) -> Ints:
    """Return the group of the neighbourhoods that contain each row, ``(rows,)``; -1 for rows that are in none."""
    found = np.full(len(X), -1)
    for piece, rows in _overlaps(regions, X, X):
        found[rows] = groups[regions.owner[piece]]
    return found


def _overlaps(regions: Regions, lower: FloatArray, upper: FloatArray) -> list[tuple[int, Ints]]:
    """Return for each piece the numbers of the boxes lower..upper that overlap with it, ``[(piece, boxes), …]``."""
    varies = (regions.lower < regions.upper).any(axis=0) | (lower < upper).any(axis=0)
    places = _same_values(np.concatenate([regions.lower[:, ~varies], lower[:, ~varies]]))
    own, theirs = np.split(places, [len(regions.lower)])
    order = np.argsort(theirs, kind="stable")
    ends = np.searchsorted(theirs[order], np.stack([own, own + 1]))
    found = []
    for piece, (first, last) in enumerate(ends.T):
        boxes = order[first:last]
        low, high = regions.lower[piece, varies], regions.upper[piece, varies]
        found.append((piece, boxes[_touch(low, high, lower[boxes][:, varies], upper[boxes][:, varies])]))
    return found


def _same_values(values: FloatArray) -> NDArray[np.intp]:
    """Return a number for each row, which is the same for equal rows: ``(rows,)``."""
    if values.shape[1] == 0:
        return np.zeros(len(values), dtype=np.intp)
    return np.asarray(np.unique(values, axis=0, return_inverse=True)[1]).reshape(-1)


def _touch(low: FloatArray, high: FloatArray, lower: FloatArray, upper: FloatArray) -> Bools:
    """Return which of the boxes lower..upper ``(boxes, columns)`` overlap with the box low..high ``(columns,)``."""
    slack = _ROUNDING * (1 + np.abs(low))
    return np.asarray(((lower <= high + slack) & (upper >= low - slack)).all(axis=1))


def one_target_for_each_group(
    X: FloatArray, targets: Floats, regions: Regions, offset: float = 0.0
) -> tuple[Floats, Ints, float]:
    """Return targets that are equal for all rows in a group of connected neighbourhoods, and the class of each input.

    ``X (rows, inputs)`` has at least one row in each neighbourhood, and ``targets (rows, classes)`` are probabilities.
    The class of a group is the most probable one on average, with rare classes counting more (`BALANCED`). If the
    network has a threshold of its own, an ``offset`` of the last logit, that says instead what a class is worth. The
    target of a group is between this average and its class (`SURE`). The second result is ``(inputs,)``. The third is
    the share of the rows in groups, beside one row for each input.
    """
    groups = connected_groups(regions)
    group = groups_of_rows(X, regions, groups)
    inside = group >= 0
    sums, counts = np.zeros((groups.max() + 1, targets.shape[1])), np.bincount(group[inside])
    np.add.at(sums, group[inside], targets[inside])
    means = sums / counts[:, None]
    classes = (means * _class_weights(targets, offset)).argmax(axis=1)
    means += SURE * (np.eye(targets.shape[1])[classes] - means)
    others = max(1, len(X) - regions.count)
    return np.where(inside[:, None], means[group], targets), classes[groups], (inside.sum() - regions.count) / others


def _class_weights(targets: Floats, offset: float) -> Floats:
    """Return what a right decision for a row of each class is worth, ``(classes,)``."""
    if offset == 0:
        return BALANCED * balancing_weights(targets) + 1 - BALANCED
    weights = np.ones(targets.shape[1])
    weights[-1] = math.exp(-offset)
    return weights


def train_certified(
    network: Network,
    regions: Regions,
    classes: Ints,
    X: FloatArray,
    targets: Floats,
    *,
    is_proven: Callable[[Network], Bools],
    shared: float = 1.0,
    steps: int = STEPS,
    seed: int = 0,
    device: torch.device = CPU,
    progress: Progress | None = None,
) -> Calibration:
    """Train towards ``targets (rows, classes)`` and towards one class for each neighbourhood: ``classes (inputs,)``.

    ``is_proven`` tells for each input ``(inputs,)`` whether the proof of its neighbourhood holds. ``shared`` is the
    share of all people who are in neighbourhoods: the more, the larger the steps. The result need not be proven: after
    the last round, the network is returned as it is.
    """
    started = time.perf_counter()
    learning_rate = SMALL_STEPS + shared * (LARGE_STEPS - SMALL_STEPS)
    training = _Training(network, regions, classes, X, targets, learning_rate, np.random.default_rng(seed), device)
    each = max(1, steps // ROUNDS)
    with repeatable(device), few_threads((BATCH + len(regions.lower)) * training.parameters.flat.numel()):
        for finished in range(MOST_ROUNDS):
            for step in range(finished * each, (finished + 1) * each):
                training.step(step / (ROUNDS * each))
                if progress is not None:
                    progress("calibrate", step + 1, max(ROUNDS, finished + 1) * each)
            trained = network.with_affines(training.parameters.affines())
            proven = is_proven(trained)
            if proven.all() and finished + 1 >= ROUNDS:
                break
            training.weights[~proven] *= GROWTH
    history = History(tuple(training.fair), tuple(training.task))
    _logger.info("certified training: %d steps, %d of %d proven", len(history), proven.sum(), len(proven))
    return Calibration(trained, history, 0, time.perf_counter() - started)


class _Training:
    """The parameters of a network, and what they are trained on."""

    def __init__(
        self,
        network: Network,
        regions: Regions,
        classes: Ints,
        X: FloatArray,
        targets: Floats,
        learning_rate: float,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        dtype = torch_dtype(network)
        self.network, self.learning_rate, self.rng = network, learning_rate, rng
        self.parameters = Parameters(network, dtype, device)
        self.optimizer = Adam(self.parameters.flat, learning_rate)
        self.worst = _WorstOutputs(network, regions, classes, dtype, device)
        self.X, self.targets = (torch.tensor(part, dtype=dtype, device=device) for part in (X, targets))
        self.weights = np.full(regions.count, WEIGHT)
        self.fair: list[float] = []
        self.task: list[float] = []

    def step(self, time_passed: float) -> None:
        """Take one step after this share of the time; the neighbourhoods have their full weight from a half on."""
        layers = self.parameters.layers()
        rows = torch.from_numpy(self.rng.integers(len(self.X), size=BATCH)).to(self.X.device)
        task = cross_entropy(forward(self.network, layers, self.X[rows]), self.targets[rows])
        fair = self.worst.loss(layers, self.weights, self.rng)
        (task + min(1.0, 2 * time_passed) * fair).backward()  # type: ignore[no-untyped-call]
        falling = self.learning_rate * (1 + math.cos(math.pi * time_passed)) / 2
        self.optimizer.learning_rate = falling if time_passed < 1 else LAST_LEARNING_RATE
        self.optimizer.step()
        self.fair.append(float(fair.detach()))
        self.task.append(float(task.detach()))


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
