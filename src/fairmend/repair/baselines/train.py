"""The repairs the ProF paper is measured against (Section 5.1), none of which proves anything by itself.

What they leave behind is put to the same re-check as a proven repair, and only what passes is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.prove.proof import Proof
from fairmend.repair.baselines.care import care
from fairmend.repair.baselines.flip import flip
from fairmend.repair.baselines.grft import Pairs, grft
from fairmend.repair.blind import is_blind
from fairmend.repair.calibrate import History
from fairmend.repair.recipe import Dish, prove
from fairmend.repair.task import Task

BASELINES = {
    "flip": "fine-tuning on copies with other protected values; proves nothing",
    "grft": "fine-tuning on the difference within unequal pairs (Quan et al. 2025); proves nothing",
    "care": "the neurons that cause unfairness, changed by a swarm (Sun et al. 2022); proves nothing",
}

_FUNCTIONS: dict[str, tuple[Callable[..., tuple[Network, History]], tuple[str, ...]]] = {
    "flip": (flip, ("steps", "learning_rate", "batch_size")),
    "grft": (grft, ("steps", "learning_rate", "fairness_weight", "batch_size", "pairs")),
    "care": (care, ("steps", "fairness_weight")),
}


@dataclass(frozen=True)
class Training:
    """What a baseline may be told; None is the baseline's own default."""

    steps: int | None = None
    learning_rate: float | None = None
    fairness_weight: float | None = None
    batch_size: int | None = None
    pairs: Pairs | None = None


def train(method: str, task: Task, training: Training, progress: Progress | None = None) -> Dish:
    """Run a baseline, and find out what happens to be proven of what it gives."""
    started = time.perf_counter()
    network, history = _run(method, task, training, progress)
    trained = time.perf_counter()
    blind = is_blind(network, task.protected_columns)
    proof = Proof.by_blindness(network.predict(task.X_repair)) if blind and task.strict else prove(network, task)
    ended = time.perf_counter()
    if progress is not None:
        progress("check", len(proof.holds), len(proof.holds))
    seconds = {"train": trained - started, "check": ended - trained, "total": ended - started}
    return Dish(network, proof, blind, history, None, 0.0, 0, seconds)


def _run(method: str, task: Task, training: Training, progress: Progress | None) -> tuple[Network, History]:
    function, known = _FUNCTIONS[method]
    options = {name: getattr(training, name) for name in known}
    return function(task, progress=progress, **{name: value for name, value in options.items() if value is not None})
