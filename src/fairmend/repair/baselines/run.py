"""Run a baseline and check its result: the repairs that the ProF paper compares with (Section 5.1).

None of them proves anything by itself. Their results go through the same proof as any repair, and only what is proven
is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.prove.proof import Proof
from fairmend.repair.baselines.care import care
from fairmend.repair.baselines.flip import flip
from fairmend.repair.baselines.grft import grft
from fairmend.repair.blind import ignored_features
from fairmend.repair.calibrate import History
from fairmend.repair.recipe import RepairAttempt, covers_everyone, prove_repair_inputs, require_provable_size
from fairmend.repair.task import RepairTask

__all__ = ["BASELINES", "run_baseline"]

BASELINES: dict[str, Callable[..., tuple[Network, History]]] = {"flip": flip, "grft": grft, "care": care}
"""The function of each baseline. `fairmend.repair.options.METHODS` lists the options that it takes."""


def run_baseline(
    method: str, task: RepairTask, options: Mapping[str, Any], progress: Progress | None = None
) -> RepairAttempt:
    """Run a baseline with its options, and prove what holds for the network that it returns."""
    started = time.perf_counter()
    require_provable_size(task)
    network, history = BASELINES[method](task, progress=progress, **options)
    trained = time.perf_counter()
    ignored = ignored_features(network, task.spec)
    if covers_everyone(ignored, task.spec):
        proof = Proof.by_blindness(network.predict(task.X_repair))
    else:
        proof = prove_repair_inputs(network, task)
    ended = time.perf_counter()
    if progress is not None:
        progress("check", len(proof.holds), len(proof.holds))
    seconds = {"train": trained - started, "check": ended - trained, "total": ended - started}
    return RepairAttempt(network, task.spec, proof, ignored, history, None, 0.0, 0, seconds)
