"""The public repair: one call, one method, one result."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network import Network, NetworkSource, load_network
from fairmend.progress import Progress
from fairmend.prove.certificate import Certificate, certificate_of_blindness, certificate_of_regions
from fairmend.repair.baselines.grft import Pairs
from fairmend.repair.baselines.train import BASELINES, Training, train
from fairmend.repair.calibrate import PAPER_LEARNING_RATE, PAPER_STEPS
from fairmend.repair.recipe import Dish, Recipe, cook
from fairmend.repair.result import RepairResult
from fairmend.repair.selection import Candidate, choose
from fairmend.repair.task import Step2, Task, make_task
from fairmend.repair.warnings import calibration_warnings, outcome_warnings
from fairmend.spec import Spec

METHODS = {
    "auto": "tries recipes and takes the proven one that keeps most of the model",
    "prof": "the paper's: calibrated features, symbolic bounds, the smallest change of the head",
    "prof-concrete": "the paper's naive variant, on concrete bounds",
    "blind": "protected columns folded into the first bias, then taught by the original network",
    **BASELINES,
}


def repair(
    net: NetworkSource,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    method: str = "auto",
    seed: int = 0,
    *,
    features: str | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    fairness_weight: float | None = None,
    label_weight: float | None = None,
    reference: str = "mean",
    bounds: str = "linear",
    batch_size: int | None = None,
    patience: int | None = None,
    margin: float = 1e-6,
    delta_limit: float = math.inf,
    solver: str = "highs",
    search: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    cover_inference: bool = True,
    pairs: Pairs | None = None,
    progress: Progress | None = None,
) -> RepairResult:
    """Repair a network so that every neighbourhood of the repair inputs provably gets one answer.

    The baselines "flip", "grft" and "care" prove nothing by themselves: `RepairResult.proven` says of how many repair
    inputs it happens to be proven, and the certificate, if there is one, claims only those.

    Parameters
    ----------
    net, spec : the network, and which people count as similar. The network is not modified.
    X_repair : the repair inputs, encoded or as a DataFrame.
    X_cal, y_cal : the calibration set, to keep what the network knows; class numbers.
    method : one of `METHODS`. "blind" and most candidates of "auto" hold for every input there is, not only for the
        repair inputs, where the spec has no tolerances.
    features : the feature set of step 2, "linear", "box" or "points" (exact, finite neighbourhoods only); the
        method's own by default.
    steps, learning_rate, fairness_weight, bounds, batch_size, patience, seed : training, see `calibrate`; the
        method's own by default, which for the paper's are 200, 0.001 and 1. "auto" chooses steps and weight itself.
    label_weight : how much of the task loss is labels, the rest being the original network's own answers; 1 for the
        paper's methods and 0 for "blind" by default.
    reference : for "blind", the value that is folded in: "mean" or "best" on the calibration set.
    margin, delta_limit, solver, search, time_limit, gap : step 2, see `repair_head`. The margin grows where the
        re-check after casting asks for it.
    cover_inference : make the margins exceed the rounding error of inference in the network's own precision, so that
        the proof covers the deployed network and not only real arithmetic.
    pairs : for "grft", two arrays (pairs, width) of people to be treated alike; found by default.
    progress : called with the stage ("try", "retrain", "calibrate", "solve", "check"), the steps done and
        the steps in all.
    """
    network = load_network(net)
    if method not in METHODS:
        raise FairmendError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    if pairs is not None and method != "grft":
        raise FairmendError(f"pairs are for method 'grft'; {method!r} finds its own neighbourhoods")
    default = "box" if method == "prof-concrete" else "linear"
    step2 = Step2(features or default, margin, delta_limit, solver, search, time_limit, gap, cover_inference)
    task = make_task(network, spec, X_repair, X_cal, y_cal, step2, seed)
    candidates: tuple[Candidate, ...] = ()
    if method == "auto":
        started = time.perf_counter()
        dish, candidates = choose(task, progress)
        total = time.perf_counter() - started
        dish = replace(dish, seconds={**dish.seconds, "choose": total - dish.seconds["total"], "total": total})
    elif method in BASELINES:
        dish = train(method, task, Training(steps, learning_rate, fairness_weight, batch_size, pairs), progress)
    else:
        weight = 1.0 if fairness_weight is None else fairness_weight
        recipe = Recipe(
            method,
            fairness_weight=weight,
            label_weight=1.0 if label_weight is None else label_weight,
            steps=PAPER_STEPS if steps is None else steps,
            learning_rate=PAPER_LEARNING_RATE if learning_rate is None else learning_rate,
            bounds=bounds,
            batch_size=batch_size,
            patience=patience,
        )
        if method == "blind":
            recipe = replace(
                recipe,
                reference=reference,
                label_weight=label_weight or 0.0,
                # With protected columns the only ones that vary, a blind network's features have no width to tighten.
                fairness_weight=0.0 if task.strict else weight,
            )
        dish = cook(recipe, task, progress)
    return _result(task, method, dish, candidates)


def _result(task: Task, method: str, dish: Dish, candidates: tuple[Candidate, ...]) -> RepairResult:
    gap = 0.0 if dish.head is None else dish.head.gap
    return RepairResult(
        network=dish.network,
        certificate=_certificate(task, method, dish),
        method=method,
        proof=dish.proof,
        blind=dish.blind,
        objective=0.0 if dish.head is None else dish.head.objective,
        gap=gap,
        margin=dish.margin,
        history=dish.history,
        seconds=dish.seconds,
        changed_weights=_changed(task.network, dish.network),
        total_weights=sum(affine.weight.size + affine.bias.size for affine in task.network.affines),
        attempts=dish.attempts,
        candidates=candidates,
        warnings=(
            *calibration_warnings(task.X_cal, task.y_cal),
            *outcome_warnings(task.network, dish.network, task.X_cal, task.y_cal, gap, dish.proof),
        ),
    )


def _certificate(task: Task, method: str, dish: Dish) -> Certificate | None:
    """A claim of what is proven; None where nothing is."""
    columns = task.protected_columns if dish.blind else []
    if dish.blind and task.strict:
        return certificate_of_blindness(dish.network, task.spec, columns, method=method)
    proven = np.flatnonzero(dish.proof.holds)
    if not len(proven) and not dish.blind:
        return None
    return certificate_of_regions(
        dish.network,
        task.spec,
        task.X_repair[proven],
        dish.proof.subset(proven),
        method=method,
        regions=None if task.step2.features == "points" else task.regions.subset(proven),
        blind_columns=columns,
    )


def _changed(before: Network, after: Network) -> int:
    """How many weights and biases differ, bit for bit."""
    pairs: list[tuple[FloatArray, FloatArray]] = [
        (getattr(old, part), getattr(new, part))
        for old, new in zip(before.affines, after.affines, strict=True)
        for part in ("weight", "bias")
    ]
    return sum(int((old != new).sum()) for old, new in pairs)
