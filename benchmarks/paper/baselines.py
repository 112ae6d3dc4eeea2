"""Vary the unpublished configuration of each baseline, one choice at a time.

    python benchmarks/paper/baselines.py [flip|grft|care ...]

On the paper's 9 settings with one protected attribute: the mean relative drop of IDI-D (one minus the mean after over
the mean before, as in the paper's Table 1) and the mean change of accuracy. The first line of each method is its
default. Exits with 1 if a default is more than 20 points from the paper's drop. `fairmend bench table1` shows every
setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Network
from fairmend.paper.protocol import paper_numbers, setting_names
from fairmend.repairing.baselines.care import care
from fairmend.repairing.baselines.finetune import flip, grft
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.task import prepare_task

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

FARTHEST = 20.0
FUNCTIONS: dict[str, Callable[..., tuple[Network, Any]]] = {"flip": flip, "grft": grft, "care": care}
VARIANTS: dict[str, list[dict[str, float]]] = {
    "flip": [{}, {"copies": 1}, {"copies": 8}, {"steps": 100}, {"steps": 500}, {"learning_rate": 0.003}],
    "grft": [{}, {"fairness_weight": 0.01}, {"fairness_weight": 0.1}, {"fairness_weight": 10.0}, {"steps": 100}],
    "care": [{}, *({"seed": seed} for seed in (1, 2, 3, 4)), {"fairness_weight": 0.3}, {"fairness_weight": 0.7}],
}


def drop_and_loss(
    tasks: list[tuple[settings.Setting, Any]], method: str, options: dict[str, Any]
) -> tuple[float, float]:
    """Return the mean relative drop of IDI-D in percent, and the mean change of accuracy in points."""
    seed = options.pop("seed", 0)
    before, after, change = [], [], []
    for s, task in tasks:
        network, _ = FUNCTIONS[method](replace(task, seed=seed), **options)
        before.append(s.original["orig_idi_d"])
        after.append(100 * find_unequal(network, s.spec, s.everyone).rate)
        X, y = s.dataset.X_test, s.dataset.y_test
        change.append(100 * float(np.mean(network.predict(X) == y) - np.mean(s.network.predict(X) == y)))
    return 100 * float(1 - np.mean(after) / np.mean(before)), float(np.mean(change))


def paper_drop(method: str) -> float:
    means = [
        np.mean([paper_numbers()["repair"][name][which]["IDI-D"] for name in setting_names("single")])
        for which in (method.upper(), "Original")
    ]
    return 100 * float(1 - means[0] / means[1])


def main() -> int:
    chosen = settings.parse_arguments(__doc__, positional="baseline").names or list(VARIANTS)
    unknown = set(chosen) - set(VARIANTS)
    if unknown:
        sys.exit(f"unknown baseline: {', '.join(sorted(unknown))}; use {', '.join(VARIANTS)}")
    all_settings = [settings.setting(name) for name in setting_names("single")]
    tasks = [(s, prepare_task(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, HeadOptions(), 0)) for s in all_settings]
    table = Table(title="mean over the 9 settings with one protected attribute")
    for heading in ("method", "choice", "drop of IDI-D %", "paper's", "accuracy"):
        table.add_column(heading, justify="left" if heading in ("method", "choice") else "right")
    good = True
    work = [(method, options) for method in chosen for options in VARIANTS[method]]
    for method, options in track(work, "variants", console=Console(stderr=True)):
        drop, change = drop_and_loss(tasks, method, dict(options))
        choice = ", ".join(f"{name} {value:g}" for name, value in options.items()) or "default"
        theirs = f"{paper_drop(method):.1f}" if not options else ""
        last = options == VARIANTS[method][-1]
        table.add_row(method, choice, f"{drop:.1f}", theirs, f"{change:+.2f}", end_section=last)
        good &= bool(options) or abs(drop - paper_drop(method)) <= FARTHEST
    Console().print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
