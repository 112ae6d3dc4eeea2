"""ProF end to end: calibrate the extractor, change the head as little as possible, prove the result as it is saved.

Provable Fairness Repair for Deep Neural Networks (Ma, Wang, Xuan, Wang): Alg. 1, Eq. (milp) and the two theorems.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fairmend.certify.certificate import certificate_of_regions
from fairmend.errors import FairmendError
from fairmend.milp import get_solver
from fairmend.network import Affine, Array, Network
from fairmend.repair.calibrate import PAPER_LEARNING_RATE, PAPER_STEPS, calibrate
from fairmend.repair.features import Box, FeatureSet, Linear, Points
from fairmend.repair.head import HeadRepair, repair_head
from fairmend.repair.progress import Progress
from fairmend.repair.proof import HEADROOM, Proof, prove_points, prove_regions
from fairmend.repair.result import RepairResult
from fairmend.repair.warn import calibration_warnings, outcome_warnings
from fairmend.spec import Spec

METHODS = {"prof": "linear", "prof-concrete": "box"}
"""The methods, and the feature sets they use in step 2."""

FEATURES = ("linear", "box", "points")
MOST_ATTEMPTS = 40


@dataclass(frozen=True)
class Step2:
    """How step 2 is run; see `repair_head`."""

    margin: float = 1e-6
    delta_limit: float = math.inf
    solver: str = "highs"
    search: str | None = None
    time_limit: float | None = None
    gap: float = 0.0
    cover_inference: bool = True


def repair(
    net: Network,
    spec: Spec,
    X_repair: pd.DataFrame | ArrayLike,
    X_cal: pd.DataFrame | ArrayLike,
    y_cal: ArrayLike,
    method: str = "prof",
    seed: int = 0,
    *,
    features: str | None = None,
    steps: int = PAPER_STEPS,
    learning_rate: float = PAPER_LEARNING_RATE,
    fairness_weight: float = 1.0,
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
    progress: Progress | None = None,
) -> RepairResult:
    """Repair a network so that every neighbourhood of the repair inputs provably gets one answer.

    Parameters
    ----------
    net, spec : the network, and which people count as similar. The network is not modified.
    X_repair : the repair inputs, encoded or as a DataFrame.
    X_cal, y_cal : the calibration set, to keep what the network knows; class numbers.
    method : "prof" (symbolic bounds) or "prof-concrete" (the paper's naive variant).
    features : the feature set of step 2, "linear", "box" or "points" (exact, finite neighbourhoods only); the
        method's own by default.
    steps, learning_rate, fairness_weight, bounds, batch_size, patience, seed : step 1, see `calibrate`.
    margin, delta_limit, solver, search, time_limit, gap : step 2, see `repair_head`. The margin grows where the
        re-check after casting asks for it.
    cover_inference : make the margins exceed the rounding error of inference in the network's own precision, so that
        the proof covers the deployed network and not only real arithmetic.
    progress : called with the stage ("calibrate", "solve", "check"), the steps done and the steps in all.
    """
    started = time.perf_counter()
    if method not in METHODS:
        raise FairmendError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    chosen = features or METHODS[method]
    if chosen not in FEATURES:
        raise FairmendError(f"unknown features {chosen!r}; there are {', '.join(FEATURES)}")
    get_solver(solver)
    if not margin > 0:
        raise FairmendError(f"margin is {margin}; it must be positive, or ties would count as fair")
    if spec.width != net.inputs:
        raise FairmendError(
            f"the spec describes {spec.width} inputs ({', '.join(spec.column_names[:8])}…) and the network takes "
            f"{net.inputs}; the spec must list exactly the network's inputs, in their order"
        )
    repair_inputs = spec.as_inputs(X_repair, net.dtype)
    calibration = spec.as_inputs(X_cal, net.dtype)
    labels = _labels(y_cal, len(calibration), net)
    warnings = calibration_warnings(calibration, labels)

    regions = spec.regions(repair_inputs, net.dtype)
    calibrated = calibrate(
        net,
        regions,
        calibration,
        labels,
        steps=steps,
        learning_rate=learning_rate,
        fairness_weight=fairness_weight,
        bounds=bounds,
        batch_size=batch_size,
        patience=patience,
        seed=seed,
        progress=progress,
    )
    settings = Step2(margin, delta_limit, solver, search, time_limit, gap, cover_inference)

    feature_set: FeatureSet
    solve_started = time.perf_counter()
    if chosen == "points":
        feature_set = Points.from_network(calibrated.network, spec, repair_inputs)
    else:
        feature_set = (Linear if chosen == "linear" else Box).from_network(calibrated.network, regions)

    def prove(network: Network) -> Proof:
        return prove_points(network, spec, repair_inputs) if chosen == "points" else prove_regions(network, regions)

    done = _repair_until_proven(calibrated.network, feature_set, prove, settings, seed, progress)
    checked = done.check_seconds
    solved = time.perf_counter() - solve_started - checked
    warnings += outcome_warnings(net, done.network, calibration, labels, done.head.gap, done.proof)
    return RepairResult(
        network=done.network,
        certificate=certificate_of_regions(
            done.network,
            spec,
            repair_inputs,
            done.proof,
            method=method,
            regions=None if chosen == "points" else regions,
        ),
        method=method,
        proof=done.proof,
        objective=done.head.objective,
        gap=done.head.gap,
        margin=done.margin,
        history=calibrated.history,
        seconds={
            "calibrate": calibrated.seconds,
            "solve": solved,
            "check": checked,
            "total": time.perf_counter() - started,
        },
        changed_weights=_changed(net, done.network),
        total_weights=sum(affine.weight.size + affine.bias.size for affine in net.affines),
        attempts=done.attempts,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True)
class _Proven:
    network: Network
    head: HeadRepair
    proof: Proof
    margin: float
    attempts: int
    check_seconds: float


def _repair_until_proven(
    network: Network,
    features: FeatureSet,
    prove: Callable[[Network], Proof],
    settings: Step2,
    seed: int,
    progress: Progress | None,
) -> _Proven:
    """Step 2 and the re-check of what it gives after casting; where the re-check fails, with a larger margin."""
    deadline = math.inf if settings.time_limit is None else time.perf_counter() + settings.time_limit
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
            seed=seed,
            progress=progress,
        )
        new_head = Affine((weight + head.weight).astype(network.dtype), (bias + head.bias).astype(network.dtype))
        candidate = network.with_affines([*network.affines[:-1], new_head])
        check_started = time.perf_counter()
        proof = prove(candidate)
        checking += time.perf_counter() - check_started
        wanted = HEADROOM * proof.error if settings.cover_inference else np.zeros_like(proof.error)
        missing = wanted - proof.margin
        if progress is not None:
            progress("check", int((missing < 0).sum()), len(missing))
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


def _labels(y_cal: ArrayLike, rows: int, net: Network) -> np.ndarray:
    labels = np.asarray(y_cal)
    classes = 2 if net.outputs == 1 else net.outputs
    if labels.shape != (rows,):
        raise FairmendError(f"y_cal has shape {labels.shape}; it must be ({rows},), one class for each row of X_cal")
    known = np.isin(labels, np.arange(classes))
    if not known.all():
        row = int(np.argmin(known))
        raise FairmendError(f"y_cal, row {row}: {labels[row]!r} is no class; there are 0 to {classes - 1}")
    return labels.astype(np.int64)


def _changed(before: Network, after: Network) -> int:
    """How many weights and biases differ, bit for bit."""
    pairs: list[tuple[Array, Array]] = [
        (getattr(old, part), getattr(new, part))
        for old, new in zip(before.affines, after.affines, strict=True)
        for part in ("weight", "bias")
    ]
    return sum(int((old != new).sum()) for old, new in pairs)
