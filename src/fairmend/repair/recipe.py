"""Recipes: every repair except the baselines is the same sequence of stages with its own settings.

1. Blind the network, if the recipe says so.
2. Train it on three losses: the width of its features, labels, and the original network's predictions (step 1).
3. Change the head as little as possible, unless blindness alone is a proof (step 2).
4. Prove the result.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np

from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.progress import Progress
from fairmend.prove.proof import HEADROOM, Proof
from fairmend.prove.score_proof import ScoreProof
from fairmend.repair.blind import blind_at_best_reference, fold_columns, is_blind, mean_reference, zero_columns
from fairmend.repair.calibrate import PAPER_LEARNING_RATE, PAPER_STEPS, History, calibrate
from fairmend.repair.demands import demands_of, prove_by_blindness, prove_repair_inputs
from fairmend.repair.head.features import Box, FeatureSet, Linear, Points, require_few_points
from fairmend.repair.head.solve import HeadSolution
from fairmend.repair.regression import regression_targets
from fairmend.repair.task import RepairTask
from fairmend.spec.neighbourhoods import Regions

__all__ = ["Recipe", "RepairAttempt", "require_provable_size", "run_recipe"]

_logger = logging.getLogger(__name__)

_MOST_ATTEMPTS = 40
_LEAST_SOLVER_SECONDS = 0.1
"""What step 2 gets where training used up the time limit: enough for a change that can be proven."""


@dataclass(frozen=True)
class Recipe:
    """One way to repair a network. The defaults are the paper's.

    ``reference`` selects the values of the protected columns that are folded into the first bias: "mean", or "best" on
    the calibration set; None does not blind the network. ``label_weight`` is the share of the task loss that comes from
    labels; the rest comes from the original network's probabilities.
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
class RepairAttempt:
    """A repaired network, its proof, and the time that each stage took.

    ``blind`` tells whether the network provably ignores the protected columns. ``head`` is None if step 2 did not run.
    """

    network: Network
    proof: Proof | ScoreProof
    blind: bool
    history: History
    head: HeadSolution | None
    margin: float
    attempts: int
    seconds: dict[str, float]


def run_recipe(recipe: Recipe, task: RepairTask, progress: Progress | None = None) -> RepairAttempt:
    """Repair with a recipe and prove the result. Raise FairmendError if it cannot be proven."""
    started = time.perf_counter()
    _logger.debug("%r with %d repair inputs and %d calibration rows", recipe, len(task.X_repair), len(task.X_cal))
    if recipe.reference is None or not task.strict:
        require_provable_size(task)
    if recipe.reference is None:
        network, regions, X = task.network, task.regions, task.X_cal
    else:
        # Zeros in these columns keep their weights, and the widths that come from them, at zero.
        network, regions = _blind(recipe, task), _blind_regions(task)
        X = zero_columns(task.X_cal, task.protected_columns)
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
        squared_error=task.spec.regression,
        progress=progress,
    )
    calibrated = time.perf_counter()
    blind = is_blind(trained.network, task.protected_columns)
    if blind and task.strict:
        done = _ProvenHead(trained.network, None, prove_by_blindness(trained.network, task), 0.0, 0, 0.0)
    else:
        done = _repair_until_proven(trained.network, task, progress, blind=blind)
    ended = time.perf_counter()
    return RepairAttempt(
        network=done.network,
        proof=done.proof,
        blind=is_blind(done.network, task.protected_columns),
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


def _blind(recipe: Recipe, task: RepairTask) -> Network:
    if recipe.reference == "best":
        return blind_at_best_reference(task.network, task.spec, task.X_cal, task.y_cal)
    return fold_columns(task.network, task.protected_columns, mean_reference(task.spec, task.X_cal))


def _blind_regions(task: RepairTask) -> Regions:
    """Return the neighbourhoods with zeros in the protected columns: one box each, as only these are one-hot."""
    lower, upper = task.spec.hull(task.X_repair, task.network.dtype)
    owner = np.arange(len(lower), dtype=np.int64)
    return Regions(
        zero_columns(lower, task.protected_columns), zero_columns(upper, task.protected_columns), owner, len(lower)
    )


def _targets(recipe: Recipe, task: RepairTask) -> np.ndarray:
    """Return class numbers if only labels count, else probabilities ``(rows, classes)``; numbers for a regression."""
    if task.spec.regression:
        return regression_targets(task.network, task.X_cal, task.y_cal, recipe.label_weight)
    if recipe.label_weight == 1:
        return task.y_cal
    original = task.network.probabilities(task.X_cal)
    if original.ndim == 1:
        original = np.column_stack([1 - original, original])
    labels = np.eye(original.shape[1])[task.y_cal]
    return np.asarray(recipe.label_weight * labels + (1 - recipe.label_weight) * original)


@dataclass(frozen=True)
class _ProvenHead:
    """A network after step 2 whose proof holds for every repair input."""

    network: Network
    head: HeadSolution | None
    proof: Proof | ScoreProof
    margin: float
    attempts: int
    check_seconds: float


def _feature_set(network: Network, task: RepairTask) -> FeatureSet:
    """Return the features of the head: the inputs if it is the only layer."""
    if task.head_options.features == "points":
        return Points.from_network(network, task.spec, task.X_repair)
    return (Linear if task.head_options.features == "linear" else Box).from_network(network, task.regions)


def require_provable_size(task: RepairTask) -> None:
    """Raise an error, before any training, if neighbourhoods have too many pieces or points for a proof."""
    if task.head_options.features == "points":
        require_few_points(task.network, task.spec, task.X_repair)
    else:
        _logger.debug("%r", task.regions)


def _without_columns(network: Network, columns: list[int]) -> Network:
    """Return the network after a layer that passes on all inputs but these columns, which become 0."""
    kept = np.eye(network.inputs, dtype=network.dtype)
    kept[columns, columns] = 0
    first = Affine(kept, np.zeros(network.inputs, network.dtype))
    return Network([first, *network.affines], [Activation("identity"), *network.activations])


def _repair_until_proven(network: Network, task: RepairTask, progress: Progress | None, *, blind: bool) -> _ProvenHead:
    """Run step 2 and prove its result after casting; where the proof fails, demand more and repeat."""
    settings = task.head_options
    # A head that is the only layer reads the protected columns itself; a blind one must not use them again.
    unused = task.protected_columns if blind and network.depth == 1 else []
    features = _feature_set(_without_columns(network, unused) if unused else network, task)
    demands = demands_of(network, task, features.count)
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    checking = 0.0
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        seconds_left = task.deadline.seconds_left()
        seconds = None if seconds_left is None else max(_LEAST_SOLVER_SECONDS, seconds_left)
        head = demands.solve(weight, bias, features, seconds, progress)
        change = head.weight.copy()
        change[:, unused] = 0  # a solver may leave traces where nothing depends on a weight
        new_head = Affine((weight + change).astype(network.dtype), (bias + head.bias).astype(network.dtype))
        candidate = network.with_affines([*network.affines[:-1], new_head])
        check_started = time.perf_counter()
        proof = prove_repair_inputs(candidate, task)
        checking += time.perf_counter() - check_started
        wanted = HEADROOM * proof.error if settings.cover_inference else np.zeros_like(proof.error)
        failed = ~(proof.covers_inference if settings.cover_inference else proof.holds)
        proven = int((~failed).sum())
        if progress is not None:
            progress("check", proven, len(failed))
        _logger.info("proof, attempt %d: %d of %d proven", attempt, proven, len(failed))
        if not failed.any():
            return _ProvenHead(candidate, head, proof, demands.margin, attempt, checking)
        if not demands.grow(failed, wanted - proof.margin):
            break
    raise FairmendError(
        f"{int(failed.sum())} of {features.count} neighbourhoods could not be proven after {attempt} attempts with "
        "growing margins: the rounding errors of this network are too large. The usual cause is inputs or weights of "
        "very different sizes; scale the inputs, or pass cover_inference=False for a proof in real arithmetic"
    )
