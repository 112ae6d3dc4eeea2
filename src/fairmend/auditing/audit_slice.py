"""Audit the inputs of one slice: on a worker that reads them itself, or here, with their blocks scanned by workers.

What a block gives depends on the block and its task alone, never on the process or on what that has scanned before. So
the answer is the same, bit for bit, wherever slices and blocks are audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from fairmend.auditing.input_blocks import block_rows, cut_blocks
from fairmend.auditing.neighbours import ScanResult, WorstNeighbours
from fairmend.auditing.planned_scan import PlannedScan, ScanTask, TimeShare
from fairmend.auditing.score_spread import ScoreSpread
from fairmend.auditing.sliced_inputs import Reading, SliceReader
from fairmend.auditing.tally import AuditTally
from fairmend.base.arrays import FloatArray
from fairmend.base.threads import read_ahead
from fairmend.network import Network
from fairmend.prove.witness import keep_ignored_features
from fairmend.spec import Spec
from fairmend.workers.engine import HERE, Engine, run_tasks
from fairmend.workers.kept_results import KeptResults

SCAN_CLASSES = (ScanResult, WorstNeighbours, ScoreSpread)
"""The classes of what the scan of a block finds."""


@dataclass(frozen=True, eq=False)
class AuditJob:
    """What the audit of every slice needs.

    Attributes
    ----------
    net, spec, scanner : the network, the spec, and the scan as planned
    inputs : the slices
    pairs : how many pairs are to be shown
    seed : random seed
    limit : seconds that all inputs may take, on one worker; None without a limit
    report : called with the number of inputs done in a slice; None on a worker, which cannot report progress
    """

    net: Network
    spec: Spec
    scanner: PlannedScan
    inputs: SliceReader
    pairs: int
    seed: int
    limit: float | None
    report: Callable[[int], None] | None

    def for_workers(self, inputs: SliceReader, slots: int) -> AuditJob:
        """Return the job without what only this process has; so many workers share the time."""
        limit = None if self.limit is None else self.limit * slots
        return replace(self, inputs=inputs, limit=limit, report=None)


@dataclass(frozen=True)
class SliceTask:
    """The number of a slice, whose content the job knows, and the limit of the sample so far."""

    number: int
    limit: float

    def digest(self) -> str:
        """Return the number: the data of all slices is compared at once."""
        return str(self.number)


def audit_slice(job: AuditJob, task: SliceTask) -> AuditTally:
    """Read the inputs of a slice, and return what is known of them."""
    reading = job.inputs.read(task.number)
    seeds = np.random.default_rng([job.seed, 2, task.number])  # no other slice draws from it
    blocks = read_blocks(job.spec, job.inputs, reading, ahead=job.report is not None)
    tally = AuditTally(job.net, job.spec, job.pairs, job.seed, reading.first, task.limit)
    audit_reading(job, reading, blocks, seeds, tally)
    tally.notes = reading.notes()
    return tally


def read_blocks(spec: Spec, inputs: SliceReader, reading: Reading, *, ahead: bool) -> Iterator[FloatArray]:
    """Yield the inputs of a slice in blocks of one size; `ahead` reads the next ones while the last are scanned."""
    return cut_blocks(read_ahead(reading) if ahead and inputs.from_files else reading, block_rows(spec))


def audit_reading(
    job: AuditJob,
    reading: Reading,
    blocks: Iterator[FloatArray],
    seeds: np.random.Generator,
    tally: AuditTally,
    engine: Engine = HERE,
    kept: KeptResults | None = None,
) -> None:
    """Add inputs that come in blocks to the tally; the engine scans the blocks, unless there is only one."""
    parts = job.scanner.parts(blocks)
    start = list(islice(parts, 2))
    if len(start) < 2:
        _scan_blocks(job, reading, iter(start), seeds, tally, HERE, kept)
        return
    with job.scanner.engine() if engine.is_here else nullcontext(engine) as chosen:
        _scan_blocks(job, reading, chain(start, parts), seeds, tally, chosen, kept)


def _scan_blocks(
    job: AuditJob,
    reading: Reading,
    blocks: Iterator[FloatArray],
    seeds: np.random.Generator,
    tally: AuditTally,
    engine: Engine,
    kept: KeptResults | None,
) -> None:
    limit = None if job.limit is None else TimeShare(job.limit * engine.slots * _share(job, reading), reading.rows)
    call = _ScanCall(job.scanner, job.report if engine.is_here else None)
    for task, found in run_tasks(engine, _scan, call, job.scanner.tasks(blocks, seeds, limit), kept, SCAN_CLASSES):
        if job.inputs.wants_pairs and found.unequal.any():
            owner, first, other = job.scanner.witnesses(task.X, found)
            reading.add_pairs(tally.total + owner, first, keep_ignored_features(job.net, job.spec, first, other))
        tally.add(job.spec, task.X, found)
        if job.report is not None:
            job.report(tally.total)


def _share(job: AuditJob, reading: Reading) -> float:
    """Return which share of all inputs a slice has."""
    return reading.rows / job.inputs.total if job.inputs.total else 1.0


@dataclass(frozen=True, eq=False)
class _ScanCall:
    scanner: PlannedScan
    report: Callable[[int], None] | None


def _scan(call: _ScanCall, task: ScanTask) -> ScanResult:
    return call.scanner.scan(task, call.report)
