"""Cells of the tables: each is computed once, and on disk as soon as it is."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.atomic import write_atomically
from fairmend.audit.neighbours import find_unequal
from fairmend.bench.protocol import Setting
from fairmend.evaluate.utility import utility
from fairmend.network import Network

_logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from fairmend.repair.result import RepairResult

Cell = dict[str, Any]
MOST_POINTS = 40_000_000


@dataclass(frozen=True)
class Store:
    """A folder of finished cells."""

    folder: Path

    def path(self, key: str) -> Path:
        """Where the cell of that name is, or will be."""
        return self.folder / f"{key}.json"

    def get(self, key: str, compute: Callable[[], Cell]) -> Cell:
        """The cell of that name, computed if it is not there yet."""
        path = self.path(key)
        if path.is_file():
            return self.read(key)
        started = time.perf_counter()
        cell = compute()
        _logger.info("cell %s in %.2f s", key, time.perf_counter() - started)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(cell, allow_nan=False).encode())
        return cell

    def read(self, key: str) -> Cell:
        """A cell that is there."""
        found: Cell = json.loads(self.path(key).read_text())
        return found


@dataclass(frozen=True)
class Made:
    """The network a method made, what its repair says of itself, and the seconds it took."""

    network: Network
    seconds: float = 0.0
    objective: float | None = None
    certificate: str = "none"
    """For whom the checker finds it valid: "everyone", "97 of 100"; else "none" or "INVALID"."""


def make(setting: Setting, method: str, seed: int = 0) -> Made:
    """Repair with a method; "original" leaves the network as it is."""
    if method == "original":
        return Made(setting.network)
    from fairmend.repair.run import repair

    started = time.perf_counter()
    result = repair(setting.network, setting.spec, setting.X_repair, setting.X_cal, setting.y_cal, method, seed)
    seconds = time.perf_counter() - started
    return Made(result.network, seconds, result.objective, _checked(result))


def _checked(result: RepairResult) -> str:
    if result.certificate is None:
        return "none"
    from fairmend import check

    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        result.network.save(model)
        result.certificate.save(certificate, model)
        if not check(certificate, model).valid:
            return "INVALID"
    regions = len(result.certificate.content["regions"])
    return f"{regions} of {result.regions}" if regions else "everyone"


def repair_cell(setting: Setting, made: Made, samples: int) -> Cell:
    """Everything the tables show of a repaired network; rates in percent."""
    network = made.network
    figures = utility(network, setting.dataset.X_test, setting.dataset.y_test)
    size = int(setting.spec.neighbourhood_sizes(setting.X_repair[:1])[0])
    uniform = setting.uniform(min(samples, max(1000, MOST_POINTS // size)))
    return {
        "CUR": 100 * find_unequal(network, setting.spec, setting.X_repair).rate,
        "IDI-D": 100 * find_unequal(network, setting.spec, setting.everyone).rate,
        "IDI-S": 100 * find_unequal(network, setting.spec, uniform).rate,
        "accuracy": 100 * figures.accuracy,
        "balanced": 100 * figures.balanced_accuracy,
        "AUC": figures.auc,
        "positive": None if figures.positive_rate is None else 100 * figures.positive_rate,
        "seconds": made.seconds,
        "objective": made.objective,
        "certificate": made.certificate,
    }


def tester_cell(setting: Setting, made: Made, tester: str, seeds: int, local_steps: int) -> Cell:
    """How many IDIs a tester finds on the network that a method made."""
    from fairmend.search.run import search

    report = search(made.network, setting.spec, setting.everyone, tester, 0, seeds=seeds, local_steps=local_steps)
    return {"count": report.count, "calls": report.calls, "seconds": report.seconds}


def loss_cell(setting: Setting) -> Cell:
    """The two losses of step 1, step by step."""
    from fairmend.repair.calibrate import calibrate

    regions = setting.spec.regions(setting.X_repair)
    history = calibrate(setting.network, regions, setting.X_cal, setting.y_cal).history
    return {"fair": list(history.fair), "task": list(history.task)}
