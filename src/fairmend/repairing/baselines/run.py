"""Run a baseline and check its result: the repairs that the ProF paper compares with (Section 5.1).

None of them proves anything by itself. Their results go through the same proof as any repair, and only what is proven
is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.repairing.baselines.care import care
from fairmend.repairing.baselines.finetune import flip, grft
from fairmend.repairing.blind import ignored_features
from fairmend.repairing.demands import prove_by_blindness, prove_repair_inputs, require_provable_size
from fairmend.repairing.recipe import RepairAttempt, covers_everyone
from fairmend.repairing.task import RepairTask
from fairmend.repairing.training import History

BASELINES: dict[str, Callable[..., tuple[Network, History]]] = {"flip": flip, "grft": grft, "care": care}
"""The function of each baseline. `fairmend.repairing.options.METHODS` lists the options that it takes."""


def run_baseline(
    method: str, task: RepairTask, options: Mapping[str, Any], progress: Progress | None = None
) -> RepairAttempt:
    """Run a baseline with its options, and prove what holds for the network that it returns."""
    started = time.perf_counter()
    _require_claim(method, task)
    require_provable_size(task)
    network, history = BASELINES[method](task, progress=progress, **options)
    trained = time.perf_counter()
    ignored = ignored_features(network, task.spec)
    everyone = covers_everyone(ignored, task.spec)
    proof = prove_by_blindness(network, task) if everyone else prove_repair_inputs(network, task)
    ended = time.perf_counter()
    if progress is not None:
        progress("check", len(proof.holds), len(proof.holds))
    seconds = {"train": trained - started, "check": ended - trained, "total": ended - started}
    return RepairAttempt(network, task.spec, proof, ignored, history, None, 0.0, 0, seconds)


def _require_claim(method: str, task: RepairTask) -> None:
    """Raise an error for a baseline that counts or compares predictions, where the claim is not about classes."""
    if method == "care":
        task.spec.claim.require_classes("method care counts unequal predictions", "Use prof or blind.")
    if method == "grft" and task.spec.regression:
        raise FairmendError("method grft needs classes, but the spec has a number to predict; use prof or blind")
