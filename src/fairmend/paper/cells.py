"""Cells of the tables: each is computed once and written to disk at once."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.auditing.neighbours import find_unequal
from fairmend.base.files import write_atomically
from fairmend.evaluate.utility import utility
from fairmend.network import Network
from fairmend.paper.protocol import Setting

if TYPE_CHECKING:
    from fairmend.repairing.result import RepairResult


_logger = logging.getLogger(__name__)

Cell = dict[str, Any]
_MOST_POINTS = 40_000_000  # inputs that IDI-S may evaluate


@dataclass(frozen=True)
class Store:
    """A folder of finished cells."""

    folder: Path

    def path(self, key: str) -> Path:
        """Return the file of a cell."""
        return self.folder / f"{key}.json"

    def get(self, key: str, compute: Callable[[], Cell]) -> Cell:
        """Return a cell; compute and write it if it does not exist."""
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
        """Return a cell that exists."""
        found: Cell = json.loads(self.path(key).read_text())
        return found


@dataclass(frozen=True)
class RepairedNetwork:
    """The network that a method returns, with the seconds, the objective and the certificate of the repair."""

    network: Network
    seconds: float = 0.0
    objective: float | None = None
    certificate: str = "none"
    """Whom the valid certificate covers: "everyone" or "97 of 100" repair inputs; otherwise "none" or "INVALID"."""


def repair_network(setting: Setting, method: str, seed: int = 0) -> RepairedNetwork:
    """Repair the network of a setting; the method "original" returns it unchanged."""
    if method == "original":
        return RepairedNetwork(setting.network)
    from fairmend.repairing.run import repair

    started = time.perf_counter()
    result = repair(setting.network, setting.spec, setting.X_repair, setting.X_cal, setting.y_cal, method, seed)
    seconds = time.perf_counter() - started
    return RepairedNetwork(result.network, seconds, result.objective, _check_certificate(result))


def _check_certificate(result: RepairResult) -> str:
    if result.certificate is None:
        return "none"
    from fairmend import check

    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        result.network.save(model)
        result.certificate.save(certificate, model)
        if not check(certificate, model, run=False).valid:
            return "INVALID"
    regions = result.certificate.count
    return f"{regions} of {result.regions}" if regions else "everyone"


def repair_cell(setting: Setting, repaired: RepairedNetwork, samples: int) -> Cell:
    """Return all figures of a repaired network; rates in percent."""
    network = repaired.network
    figures = utility(network, setting.dataset.X_test, setting.dataset.y_test)
    size = int(setting.spec.neighbourhood_sizes(setting.X_repair[:1])[0])
    uniform = setting.uniform(min(samples, max(1000, _MOST_POINTS // size)))
    return {
        "CUR": 100 * find_unequal(network, setting.spec, setting.X_repair).rate,
        "IDI-D": 100 * find_unequal(network, setting.spec, setting.everyone).rate,
        "IDI-S": 100 * find_unequal(network, setting.spec, uniform).rate,
        "accuracy": 100 * figures.accuracy,
        "balanced": 100 * figures.balanced_accuracy,
        "AUC": figures.auc,
        "positive": None if figures.positive_rate is None else 100 * figures.positive_rate,
        "seconds": repaired.seconds,
        "objective": repaired.objective,
        "certificate": repaired.certificate,
    }


def tester_cell(setting: Setting, repaired: RepairedNetwork, tester: str, seeds: int, local_steps: int) -> Cell:
    """Return how many IDIs a tester finds on a repaired network."""
    from fairmend.searching.run import search

    result = search(repaired.network, setting.spec, setting.everyone, tester, 0, seeds=seeds, local_steps=local_steps)
    return {"count": result.count, "calls": result.calls, "seconds": result.seconds}


def loss_cell(setting: Setting) -> Cell:
    """Return the two losses of step 1 after each step."""
    from fairmend.repairing.calibrate import calibrate

    regions = setting.spec.regions(setting.X_repair)
    history = calibrate(setting.network, regions, setting.X_cal, setting.y_cal).history
    return {"fair": list(history.fair), "task": list(history.task)}
