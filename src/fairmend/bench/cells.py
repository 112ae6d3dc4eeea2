"""Cells of the tables: each is computed once, and on disk as soon as it is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.atomic import write_atomically
from fairmend.bench.protocol import Setting
from fairmend.certify.enumerate import find_unequal
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.utility import utility

_logger = logging.getLogger(__name__)

Cell = dict[str, Any]
MOST_POINTS = 40_000_000


class Store:
    """A folder of finished cells: ``get`` computes what is not there yet."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.folder = folder / "cells"
        if self.folder.exists() and any(self.folder.rglob("*.json")) and not resume:
            raise FairmendError(
                f"{self.folder} holds cells of an earlier run; go on with --resume, or choose another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str, compute: Callable[[], Cell]) -> Cell:
        """The cell of that name."""
        path = self.folder / f"{key}.json"
        if path.is_file():
            _logger.debug("cell %s is there", key)
            found: Cell = json.loads(path.read_text())
            return found
        started = time.perf_counter()
        cell = compute()
        _logger.info("cell %s in %.2f s", key, time.perf_counter() - started)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(cell, allow_nan=False).encode())
        return cell


def repair_cell(setting: Setting, method: str, samples: int, seed: int = 0) -> Cell:
    """Repair with a method ("original": not at all) and measure everything the tables show, in percent."""
    network, extra, seconds = repaired_by(setting, method, seed)
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
        "seconds": seconds,
        **extra,
    }


def repaired_by(setting: Setting, method: str, seed: int = 0) -> tuple[Network, Cell, float]:
    """The repaired network, what its repair says of itself, and the seconds it took."""
    if method == "original":
        return setting.network, {"certificate": None, "objective": None}, 0.0
    from fairmend.repair.methods import repair

    started = time.perf_counter()
    result = repair(setting.network, setting.spec, setting.X_repair, setting.X_cal, setting.y_cal, method, seed)
    seconds = time.perf_counter() - started
    certificate = None if result.certificate is None else result.certificate.claim
    return result.network, {"certificate": certificate, "objective": result.objective}, seconds


def tester_cell(setting: Setting, method: str, tester: str, *, seeds: int, local_steps: int) -> Cell:
    """How many IDIs a tester finds on the network that a method made."""
    from fairmend.search.run import search

    network, _, _ = repaired_by(setting, method)
    report = search(network, setting.spec, setting.dataset.X_train, tester, 0, seeds=seeds, local_steps=local_steps)
    return {"count": report.count, "calls": report.calls, "seconds": report.seconds}


def loss_cell(setting: Setting) -> Cell:
    """The two losses of step 1, step by step."""
    from fairmend.repair.calibrate import calibrate

    regions = setting.spec.regions(setting.X_repair)
    history = calibrate(setting.network, regions, setting.X_cal, setting.y_cal).history
    return {"fair": list(history.fair), "task": list(history.task)}


def naive_cell(setting: Setting) -> Cell:
    """The naive method beside the symbolic one: accuracy of the repaired network, and the optimum of step 2."""
    cell: Cell = {}
    for method in ("prof", "prof-concrete"):
        network, extra, _ = repaired_by(setting, method)
        right = network.predict(setting.dataset.X_test) == setting.dataset.y_test
        cell[method] = {"accuracy": 100 * float(np.mean(right)), "objective": extra["objective"]}
    return cell
