"""Recipes: every repair of this package as one way through the same kitchen.

Perhaps blind the network first; train it with some weight on the width of its features, on labels and on what it said
before; then, where blindness alone proves nothing, change the head as little as possible; and prove what came out.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

import numpy as np

from fairmend.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.progress import Progress
from fairmend.prove.proof import HEADROOM, Proof, prove_points, prove_regions
from fairmend.repair.blind import blind, fold, hide, is_blind, references
from fairmend.repair.calibrate import PAPER_LEARNING_RATE, PAPER_STEPS, History, calibrate
from fairmend.repair.head.features import Box, FeatureSet, Linear, Points
from fairmend.repair.head.solve import HeadRepair, repair_head
from fairmend.repair.task import Task
from fairmend.spec.neighbourhoods import Regions

_logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 40


@dataclass(frozen=True)
class Recipe:
    """How to repair. The defaults are the paper's.

    ``reference`` is the value of the protected columns that is folded in: "mean" or "best" on the calibration set, or
    None to leave the network its sight. ``label_weight`` parts of the task loss are labels, the rest the original
    network's own probabilities.
    """

    name: str = "prof"
    reference: str | None = None
    fairness_weight: float = 1.0
    label_weight: float = 1.0
    steps: int = PAPER_STEPS
    learning_rate: float = PAPER_LEARNING_RATE
    bounds: str = "linear"
    batch_size: int | None = None
    patience: int | None = None


@dataclass(frozen=True)
class Dish:
    """What a recipe made of a task: the network, its proof, and where the time went.

    ``blind`` tells whether the network provably ignores the protected columns; ``head`` is None where the head was
    not touched.
    """

    network: Network
    proof: Proof
    blind: bool
    history: History
    head: HeadRepair | None
    margin: float
    attempts: int
    seconds: dict[str, float]


def cook(recipe: Recipe, task: Task, progress: Progress | None = None) -> Dish:
    """Follow the recipe. What comes out is proven, or an error says why it could not be."""
    started = time.perf_counter()
    _logger.debug("%r with %d repair inputs and %d calibration rows", recipe, task.regions.count, len(task.X_cal))
    network, regions, X = task.network, task.regions, task.X_cal
    if recipe.reference is not None:
        network = _blinded(recipe, task)
        # Zeros in these columns keep their weights, and the widths that come from them, at zero.
        X, regions = hide(X, task.protected_columns), _hidden(regions, task.protected_columns)
    trained = calibrate(
        network,
        regions,
        X,
        _targets(recipe, task),
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        fairness_weight=recipe.fairness_weight,
        bounds=recipe.bounds,
        batch_size=recipe.batch_size,
        patience=recipe.patience,
        seed=task.seed,
        progress=progress,
    )
    calibrated = time.perf_counter()
    sees_nothing = is_blind(trained.network, task.protected_columns)
    if sees_nothing and task.strict:
        proof = Proof.by_blindness(trained.network.predict(task.X_repair))
        done = _Proven(trained.network, None, proof, 0.0, 0, 0.0)
    else:
        done = _repair_until_proven(trained.network, task, progress)
    ended = time.perf_counter()
    return Dish(
        network=done.network,
        proof=done.proof,
        blind=sees_nothing,
        history=trained.history,
        head=done.head,
        margin=done.margin,
        attempts=done.attempts,
        seconds={
            "calibrate": calibrated - started,
            "solve": ended - calibrated - done.check_seconds,
            "check": done.check_seconds,
            "total": ended - started,
        },
    )


def _blinded(recipe: Recipe, task: Task) -> Network:
    if recipe.reference == "best":
        return blind(task.network, task.spec, task.X_cal, task.y_cal)
    return fold(task.network, task.protected_columns, references(task.spec, task.X_cal)[0])


def _hidden(regions: Regions, columns: list[int]) -> Regions:
    return Regions(hide(regions.lower, columns), hide(regions.upper, columns), regions.owner, regions.count)


def _targets(recipe: Recipe, task: Task) -> np.ndarray:
    """Class numbers where only labels count, else probabilities ``(rows, classes)``."""
    if recipe.label_weight == 1:
        return task.y_cal
    taught = task.network.probabilities(task.X_cal)
    if taught.ndim == 1:
        taught = np.column_stack([1 - taught, taught])
    labels = np.eye(taught.shape[1])[task.y_cal]
    return np.asarray(recipe.label_weight * labels + (1 - recipe.label_weight) * taught)


@dataclass(frozen=True)
class _Proven:
    network: Network
    head: HeadRepair | None
    proof: Proof
    margin: float
    attempts: int
    check_seconds: float


def _feature_set(network: Network, task: Task) -> FeatureSet:
    if task.step2.features == "points":
        return Points.from_network(network, task.spec, task.X_repair)
    return (Linear if task.step2.features == "linear" else Box).from_network(network, task.regions)


def prove(network: Network, task: Task) -> Proof:
    """The re-check, over boxes or, where step 2 works on points, point by point."""
    if task.step2.features == "points":
        return prove_points(network, task.spec, task.X_repair)
    return prove_regions(network, task.regions)


def _repair_until_proven(network: Network, task: Task, progress: Progress | None) -> _Proven:
    """Step 2 and the re-check of what it gives after casting; where the re-check fails, with a larger margin."""
    settings = task.step2
    deadline = math.inf if settings.time_limit is None else time.perf_counter() + settings.time_limit
    features = _feature_set(network, task)
    margins = np.full(features.count, settings.margin)
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    checking = 0.0
    for attempt in range(1, MOST_ATTEMPTS + 1):
        head = repair_head(
            weight,
            bias,
            features,
            margin=margins,
            delta_limit=settings.delta_limit,
            solver=settings.solver,
            search=settings.search,
            time_limit=None if deadline == math.inf else max(0.1, deadline - time.perf_counter()),
            gap=settings.gap,
            seed=task.seed,
            progress=progress,
        )
        new_head = Affine((weight + head.weight).astype(network.dtype), (bias + head.bias).astype(network.dtype))
        candidate = network.with_affines([*network.affines[:-1], new_head])
        check_started = time.perf_counter()
        proof = prove(candidate, task)
        checking += time.perf_counter() - check_started
        wanted = HEADROOM * proof.error if settings.cover_inference else np.zeros_like(proof.error)
        missing = wanted - proof.margin
        if progress is not None:
            progress("check", int((missing < 0).sum()), len(missing))
        _logger.info("re-check, attempt %d: %d of %d proven", attempt, int((missing < 0).sum()), len(missing))
        if (missing < 0).all():
            return _Proven(candidate, head, proof, float(margins.max()), attempt, checking)
        failed = missing >= 0
        margins[failed] = np.maximum(2 * margins[failed], margins[failed] + 1.5 * missing[failed])
        if not np.isfinite(margins).all():
            break
    raise FairmendError(
        f"{int(failed.sum())} of {features.count} neighbourhoods could not be proven after {attempt} attempts with "
        f"growing margins: rounding errors of this network are too large (inputs or weights of very different "
        "sizes are the usual cause); scale the inputs, or pass cover_inference=False for a proof in real arithmetic"
    )
