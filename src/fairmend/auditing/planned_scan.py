"""Scan inputs with the method that was planned, in parts, and within the time limit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairmend.auditing.branch_scan import BranchScan
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan, ScanResult, WorstNeighbours
from fairmend.auditing.plan import AuditPlan
from fairmend.auditing.score_differences import WidestPairs
from fairmend.base.arrays import FloatArray, Ints
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.workers.engine import HERE, Engine

if TYPE_CHECKING:
    from fairmend.auditing.device_search import DeviceSearch


# A block that is enumerated is cut into parts of about so many neighbours, a few seconds' worth, but at least so many
# inputs. Measured times would cut it elsewhere in another run, and round other last bits.
_PART_POINTS, _PART_ROWS = 64_000_000, 64


@dataclass(frozen=True, eq=False)
class ScanTask:
    """All that the scan of a block depends on.

    Attributes
    ----------
    X : (inputs, width)
    done : how many inputs came before them
    seed : for random neighbours
    seconds : how long "branch" may take; None without a limit
    """

    X: FloatArray
    done: int
    seed: int
    seconds: float | None

    def digest(self) -> str:
        """Return a digest of the inputs and the seed."""
        return hashlib.sha256(f"{self.seed} {self.X.shape}\n".encode() + self.X.tobytes()).hexdigest()


@dataclass(frozen=True)
class TimeShare:
    """The seconds that so many inputs may take together, from now on."""

    seconds: float
    rows: int


class PlannedScan:
    """Scans inputs as planned."""

    def __init__(
        self,
        net: Network,
        spec: Spec,
        plan: AuditPlan,
        per_row: int,
        seed: int,
        search: DeviceSearch | None = None,
        device: str = "cpu",
    ) -> None:
        self._plan, self._search = plan, search
        self._scan: ExhaustiveScan | RandomScan | BranchScan
        if plan.method == "enumerate":
            self._scan = ExhaustiveScan(net, spec, search)
        elif plan.method == "branch":
            self._scan = BranchScan(net, spec, per_row, seed, device)
        else:
            self._scan = RandomScan(net, spec, per_row, seed)

    def engine(self) -> AbstractContextManager[Engine]:
        """Return what scans blocks in this process."""
        return nullcontext(HERE) if self._search is None else self._search.engine()

    def parts(self, stream: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """Yield the blocks of inputs, those that take long to enumerate in parts, so that progress shows."""
        step = max(_PART_ROWS, _PART_POINTS // max(1, self._plan.neighbours or 1))
        for block in stream:
            if self._plan.method != "enumerate" or step >= len(block):
                yield block
            else:
                yield from (block[start : start + step] for start in range(0, len(block), step))

    def tasks(
        self, blocks: Iterator[FloatArray], seeds: np.random.Generator, limit: TimeShare | None = None
    ) -> Iterator[ScanTask]:
        """Yield what to do with each of all blocks (inputs, width)."""
        done, started = 0, time.monotonic()
        for X in blocks:
            seconds, after = None, done + len(X)
            if limit is not None:
                until = started + limit.seconds * after / max(limit.rows, after)
                seconds = max(0.01, until - time.monotonic())
            yield ScanTask(X, done, int(seeds.integers(2**32)), seconds)
            done = after

    def scan(self, task: ScanTask, report: Callable[[int], None] | None = None) -> ScanResult:
        """Return which inputs of the task are treated unequally; `report` is called with how many are decided."""
        if isinstance(self._scan, ExhaustiveScan):
            return self._scan.scan(task.X)
        if isinstance(self._scan, RandomScan):
            return self._scan.scan(task.X, task.seed)
        progress = None if report is None else lambda decided: report(task.done + decided)
        return self._scan.scan(task.X, task.seconds, progress, seed=task.seed)

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
