"""Scan inputs with the method that was planned, in parts, and within the time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairmend.arrays import FloatArray, Ints
from fairmend.audit.branch_scan import BranchScan
from fairmend.audit.neighbours import ExhaustiveScan, RandomScan, ScanResult, WorstNeighbours
from fairmend.audit.plan import UNKNOWN_ROWS, AuditPlan
from fairmend.audit.score_differences import WidestPairs
from fairmend.network import Network
from fairmend.progress import Progress
from fairmend.spec import Spec

if TYPE_CHECKING:
    from fairmend.audit.device_search import DeviceSearch

__all__ = ["PlannedScan", "ScanTask"]

# A block that is enumerated is cut into parts that take about so long, but have at least so many inputs.
_PART_SECONDS, _PART_ROWS = 2.0, 64


@dataclass(frozen=True, eq=False)
class ScanTask:
    """All that the scan of a block depends on.

    Attributes
    ----------
    X : (inputs, width)
    done : how many inputs came before them
    seed : for random neighbours
    until : the time, in seconds since 1970, at which "branch" stops; None without a limit
    """

    X: FloatArray
    done: int
    seed: int
    until: float | None


class PlannedScan:
    """Scans inputs as planned, and reports progress within long blocks."""

    def __init__(
        self,
        net: Network,
        spec: Spec,
        plan: AuditPlan,
        per_row: int,
        seed: int,
        limit: float | None,
        progress: Progress | None,
        search: DeviceSearch | None = None,
        device: str = "cpu",
    ) -> None:
        self._plan, self._limit, self._progress = plan, limit, progress
        self._scan: ExhaustiveScan | RandomScan | BranchScan
        if plan.method == "enumerate":
            self._scan = ExhaustiveScan(net, spec, search)
        elif plan.method == "branch":
            self._scan = BranchScan(net, spec, per_row, seed, device)
        else:
            self._scan = RandomScan(net, spec, per_row, seed)
        self._seeds = np.random.default_rng(seed)
        self._started = time.time()

    def parts(self, stream: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """Yield the blocks of inputs, those that take long to enumerate in parts, so that progress shows."""
        rows = self._plan.rows or UNKNOWN_ROWS
        step = max(_PART_ROWS, int(_PART_SECONDS * rows / max(self._plan.seconds, 1e-9)))
        for block in stream:
            if self._plan.method != "enumerate" or step >= len(block):
                yield block
            else:
                yield from (block[start : start + step] for start in range(0, len(block), step))

    def tasks(self, blocks: Iterator[FloatArray]) -> Iterator[ScanTask]:
        """Yield what to do with each of all blocks (inputs, width)."""
        done = 0
        for X in blocks:
            until, after = None, done + len(X)
            if self._limit is not None:
                until = self._started + self._limit * after / max(self._plan.rows or UNKNOWN_ROWS, after)
            yield ScanTask(X, done, int(self._seeds.integers(2**32)), until)
            done = after

    def scan(self, task: ScanTask) -> ScanResult:
        """Return which inputs of the task are treated unequally."""
        if isinstance(self._scan, ExhaustiveScan):
            return self._scan.scan(task.X)
        if isinstance(self._scan, RandomScan):
            return self._scan.scan(task.X, task.seed)
        expected, progress = self._plan.rows, self._progress
        seconds = None if task.until is None else max(0.01, task.until - time.time())
        report = None if progress is None else lambda decided: progress("audit", task.done + decided, expected)
        return self._scan.scan(task.X, seconds, report, seed=task.seed)

    def without_progress(self) -> PlannedScan:
        """Return the same scan for another process, which cannot report progress here."""
        other = copy(self)
        other._progress = None
        return other

    def worst(self, X: FloatArray) -> WorstNeighbours:
        """Return the worst pair for each of X (inputs, width)."""
        return self._scan.worst(X)

    def widest(self, X: FloatArray, on: str) -> WidestPairs:
        """Return the two neighbours of each of X (inputs, width) whose scores differ most; `on` names the score."""
        return self._scan.widest(X, on)

    def witnesses(self, X: FloatArray, found: ScanResult) -> tuple[Ints, FloatArray, FloatArray]:
        """Return the rows (k,) of X that are unequal, and their worst pairs: two arrays (k, width)."""
        rows = np.flatnonzero(found.unequal)
        if isinstance(self._scan, BranchScan) and isinstance(found, WorstNeighbours):  # proofs are not made twice
            return rows, found.first[rows], found.other[rows]
        worst = self._scan.worst(X[rows])
        # A score that is 0, or a difference that is delta, up to its last bits may be another in another batch.
        sure = worst.unequal
        return rows[sure], worst.first[sure], worst.other[sure]
