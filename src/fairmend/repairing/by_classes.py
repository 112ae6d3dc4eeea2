"""Repairs by classes of similar people: the model reads the representative of a class, or averages over its members.

The canonical map of a spec goes in front of the model, so the output depends on a person only through their class,
whatever the model is. There is nothing to search, to solve or to bound. Three ways to keep what the model knows:

- *average*: the mean of the original's scores over the members of the class, weighted by the population;
- *distilled*, for networks and PyTorch modules: a copy that is trained towards these means, which runs once for each
  person;
- *representative*: the original reads the representative alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.models import RunModel
from fairmend.models.averaging import MOST_MEMBERS, Average, fit_average
from fairmend.models.canonical import CanonicalMap, choose_map
from fairmend.models.repaired import RepairedModel
from fairmend.network import Network
from fairmend.prove.proof import Proof
from fairmend.repairing.blind import even_shift, match_rate
from fairmend.repairing.distil import Student, distil, distil_module, with_labels
from fairmend.repairing.recipe import Recipe, RepairAttempt
from fairmend.repairing.task import RepairTask
from fairmend.repairing.training import History

AVERAGE, DISTILLED, REPRESENTATIVE = "average", "distilled", "representative"


def run_class_recipe(
    recipe: Recipe, tasks: Sequence[RepairTask], progress: Progress | None = None
) -> list[RepairAttempt]:
    """Repair by classes, on tasks that differ in their rows only."""
    started = time.perf_counter()
    require_classes(tasks[0])
    if recipe.by_classes == AVERAGE:
        _require_open_batches(tasks[0])
    parts = [_averaged(recipe, task) for task in tasks]
    if recipe.by_classes == DISTILLED:
        models = _distilled(recipe, tasks, parts, progress)
    else:
        models = [
            RepairedModel(task.model, canonical, average if recipe.by_classes == AVERAGE else None).bind(task.spec)
            for task, (canonical, average) in zip(tasks, parts, strict=True)
        ]
    seconds = (time.perf_counter() - started) / len(tasks)
    return [_attempt(task, model, seconds) for task, model in zip(tasks, models, strict=True)]


def require_classes(task: RepairTask) -> None:
    """Raise an error if nothing of a person is left that a model could read."""
    from fairmend.spec.classes import similarity_classes

    classes = similarity_classes(task.spec)
    if all(feature.name in classes.free for feature in task.spec.features):
        raise FairmendError("no feature counts for the class of a person, so every model is constant: protect fewer")


def _require_open_batches(task: RepairTask) -> None:
    """Raise an error if the file of a model takes batches of one size only: its members cannot be run together."""
    from fairmend.models.onnx_file import OnnxRunner

    runner = task.model.runner if isinstance(task.model, RunModel) else None
    if isinstance(runner, OnnxRunner) and runner.batch_size is not None:
        raise FairmendError(
            f"{runner.name} takes batches of {runner.batch_size} rows only, and averaging runs it on several rows for "
            "each person. Export it with an open batch dimension, or use method auto: it can read representatives"
        )


def _averaged(recipe: Recipe, task: RepairTask) -> tuple[CanonicalMap, Average]:
    """Return the canonical map, and the average that keeps the original's share of positive predictions."""
    X = task.data.X
    canonical = choose_map(task.spec, X)
    members = 1 if recipe.by_classes == REPRESENTATIVE else MOST_MEMBERS
    average = fit_average(canonical, X, task.seed, members)
    if task.spec.regression or recipe.by_classes == REPRESENTATIVE or task.model.outputs > 2:
        return canonical, average
    model = RepairedModel(task.model, canonical, average).bind(task.spec)
    return canonical, replace(average, shift=-_shift(model, task, X))


def _shift(model: RepairedModel, task: RepairTask, X: FloatArray) -> float:
    """Return what to take from all log-odds so that the original's share of rows stays positive."""
    logits = model.logits(X)
    leads = (logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]) - model.offset
    positive = int(np.count_nonzero(task.original_predictions == 1))
    return even_shift(leads.astype(np.float64), positive) if 0 < positive < len(leads) else 0.0


def _distilled(
    recipe: Recipe,
    tasks: Sequence[RepairTask],
    parts: Sequence[tuple[CanonicalMap, Average]],
    progress: Progress | None,
) -> list[RepairedModel]:
    """Return networks that are trained towards the averages, and read canonical rows."""
    if isinstance(tasks[0].model, RunModel):
        return [_distilled_module(recipe, task, *part, progress) for task, part in zip(tasks, parts, strict=True)]
    students = [
        Student(task.network, canonical.apply(X), targets)
        for task, (canonical, average) in zip(tasks, parts, strict=True)
        for X, targets in [_lesson(recipe, task, canonical, average)]
    ]
    task = tasks[0]
    networks = distil(
        students,
        [],
        steps=recipe.distil_steps,
        seed=task.seed,
        squared_error=task.spec.regression,
        device=task.device,
        progress=progress,
    )
    return [
        RepairedModel(_with_rate(network, task, canonical), canonical).bind(task.spec)
        for network, task, (canonical, _) in zip(networks, tasks, parts, strict=True)
    ]


def _lesson(recipe: Recipe, task: RepairTask, canonical: CanonicalMap, average: Average) -> tuple[FloatArray, Floats]:
    """Return rows to learn from, and their averaged scores."""
    X = np.concatenate([task.data.X, task.X_repair])
    mean = RepairedModel(task.model, canonical, replace(average, shift=0.0)).bind(task.spec).logits(X)
    return X, with_labels(task.measure.output_targets(task.model, mean), task, recipe.label_weight)


def _distilled_module(
    recipe: Recipe, task: RepairTask, canonical: CanonicalMap, average: Average, progress: Progress | None
) -> RepairedModel:
    """Return a trained copy of a module, shifted to the original's share of positive predictions."""
    assert isinstance(task.model, RunModel)
    X, targets = _lesson(recipe, task, canonical, average)
    trained = distil_module(
        task.model, canonical.apply(X), targets, steps=recipe.distil_steps, seed=task.seed, progress=progress
    )
    alone = fit_average(canonical, task.data.X, task.seed, 1)
    model = RepairedModel(trained, canonical, alone).bind(task.spec)
    if task.spec.regression or task.model.outputs > 2:
        return model
    return RepairedModel(trained, canonical, replace(alone, shift=-_shift(model, task, task.data.X))).bind(task.spec)


def _with_rate(network: Network, task: RepairTask, canonical: CanonicalMap) -> Network:
    if task.spec.regression:
        return network
    return match_rate(network, canonical.apply(task.data.X), float(np.mean(task.original_predictions == 1)))


def _attempt(task: RepairTask, model: RepairedModel, seconds: float) -> RepairAttempt:
    return RepairAttempt(
        network=model,
        spec=task.spec,
        proof=Proof.by_blindness(model, task.spec.claim, task.X_repair),
        blind_features=model.canonical.classes.free,
        history=History(),
        head=None,
        margin=0.0,
        attempts=0,
        seconds={"calibrate": seconds, "solve": 0.0, "check": 0.0, "total": seconds},
        by_classes=True,
    )
