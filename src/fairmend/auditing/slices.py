"""Audit the inputs of one slice: on a worker that reads them itself, or here, with their blocks scanned by workers.

Blocks are scanned with the method that was planned, in parts, and within the time limit. What a block gives depends on
the block and its task alone, never on the process or on what that has scanned before. So the answer is the same, bit
for bit, wherever slices and blocks are audited, and a folder of finished parts continues an audit that was stopped.

`AuditTally` is what an audit knows so far: of some inputs on a worker, and of all of them once parts are merged. Parts
are merged in the order of the inputs, so that the result depends on how the inputs are cut into parts, and not on where
or when each part was audited.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.auditing.comparisons import ScanResult, ScoreSpread, WidestPairs, WorstNeighbours
from fairmend.auditing.disparity import DisparityCollector, ScoreDisparity, ScoreSummary, disparity_score
from fairmend.auditing.inputs import Reading, SlicedInputs, SliceReader, block_rows, cut_blocks
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan
from fairmend.auditing.plan import AuditPlan, BranchScan
from fairmend.auditing.result import AuditPair, ExaminedInputs
from fairmend.auditing.rows import AuditedRows, RowCollector, RowSample, RowStore
from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.base.threads import read_ahead
from fairmend.network import Model, Network
from fairmend.prove.fit import open_kept_results
from fairmend.prove.result import keep_ignored_features
from fairmend.spec import Claim, Spec
from fairmend.workers.engine import HERE, Engine, run_tasks
from fairmend.workers.kept_results import KeptResults

if TYPE_CHECKING:
    from fairmend.auditing.device_search import DeviceSearch


# What an audit keeps for reports: a random sample of so many inputs, or fewer if they are wide.
_EXAMINED_ROWS, _EXAMINED_NUMBERS = 20_000, 5_000_000


class AuditTally:
    """Counts, the worst inputs, a sample, and a few bytes of every input.

    Attributes
    ----------
    count, total, unknown : how many inputs are treated unequally, how many there are, and how many are not decided
    evaluations : how many scores were computed
    notes : what the reader of the inputs noted beside them
    """

    def __init__(
        self, net: Model, spec: Spec, pairs: int, seed: int, first: int = 0, limit: float = float("inf")
    ) -> None:
        """Start without inputs; `pairs` pairs are to be shown, and `first` rows come before in the data.

        `limit` is the `sample_limit` of a tally that this one will be merged into: it makes this one smaller.
        """
        self.count = self.total = self.evaluations = self.unknown = 0
        self.notes: Any = None
        # Twice as many as asked for: their order is only known up to rounding so far.
        self._largest, self._widest = _LargestGaps(2 * pairs), _WidestSpread()
        self._rows, self._scores = RowCollector(), _ScoreDifferences(net, spec)
        self._sample = RowSample(max(1, min(_EXAMINED_ROWS, _EXAMINED_NUMBERS // spec.width)), seed, first, limit)

    def add(self, spec: Spec, X: FloatArray, found: ScanResult) -> None:
        """Add the next inputs X (k, width), and what the scan found about them."""
        # Scores that differ by less than delta are shown too; the gap of equal predictions is 0.
        self._largest.add(self.total, X, np.flatnonzero(found.unequal | (found.gap > 0)), found.gap)
        self._widest.add(self.total, X, found.spread.difference)
        self._scores.add(spec.claim, found)
        self._rows.add(spec, X, found)
        columns = {"X": X, "unequal": found.unequal}
        self._sample.add(columns | ({"other": found.other} if isinstance(found, WorstNeighbours) else {}))
        self.count += int(found.unequal.sum())
        self.total += len(X)
        self.evaluations += found.points
        self.unknown += 0 if found.unknown is None else int(found.unknown.sum())

    def merge(self, other: AuditTally) -> None:
        """Add the inputs that follow; the other tally is used up."""
        if not other.total:
            return
        self._largest.merge(other._largest, self.total)
        self._widest.merge(other._widest, self.total)
        self._scores.merge(other._scores)
        self._rows.merge(other._rows)
        self._sample.merge(other._sample)
        self.count += other.count
        self.total += other.total
        self.evaluations += other.evaluations
        self.unknown += other.unknown

    @property
    def sample_limit(self) -> float:
        """The number from which on no further input can be in the sample."""
        return self._sample.limit

    def largest(self) -> tuple[list[int], list[FloatArray]]:
        """Return the rows of the inputs with the largest gaps, and those inputs (width,)."""
        return self._largest.kept()

    def widest(self) -> tuple[int, FloatArray]:
        """Return the row of the input whose scores differ most, and that input (1, width)."""
        return self._widest.row, self._widest.X

    def rows(self) -> AuditedRows:
        """Return what is known of every input."""
        return self._rows.rows()

    def examined(self) -> ExaminedInputs:
        """Return the sample of the inputs."""
        kept = self._sample.columns()
        return ExaminedInputs(kept["X"], kept["unequal"], kept["row"], kept.get("other"))

    def disparity(self, claim: Claim, worst: AuditPair | None) -> ScoreDisparity:
        """Return how far scores differ; `worst` are the two similar people whose scores differ most."""
        return self._scores.disparity(claim, worst, self.count)

    def scores(self, claim: Claim, disparity: ScoreDisparity) -> ScoreSummary | None:
        """Return the differences that the claim is about; None for a claim about classes."""
        return self._scores.summary(claim, disparity)


class _ScoreDifferences:
    """Collects how far scores differ: for the disparity, and for a claim about scores in the claim's own unit."""

    def __init__(self, net: Model, spec: Spec) -> None:
        on = disparity_score(spec)
        self._same = spec.claim.on == on
        self._collector = DisparityCollector(on, net.threshold)
        self._claimed = RowStore()

    def add(self, claim: Claim, found: ScanResult) -> None:
        """Add what the scan found about the next inputs."""
        self._collector.add(found.spread, found.gap if self._same else None)
        if claim.is_score and not self._same:
            self._claimed.add(found.gap)

    def merge(self, other: _ScoreDifferences) -> None:
        """Add the inputs that follow."""
        self._collector.merge(other._collector)
        self._claimed.merge(other._claimed)

    def disparity(self, claim: Claim, worst: AuditPair | None, count: int) -> ScoreDisparity:
        """Return the disparity, with `count` unequal inputs at the threshold that decides."""
        found = self._collector.disparity(worst)
        if found.curve is None or claim.is_score:
            return found
        return replace(found, curve=found.curve.with_decided(count))

    def summary(self, claim: Claim, disparity: ScoreDisparity) -> ScoreSummary | None:
        """Return the differences that the claim is about; None for a claim about classes."""
        if not claim.is_score:
            return None
        return ScoreSummary(claim, disparity.differences if self._same else self._claimed.array())


class _WidestSpread:
    """The input with the largest difference of scores in its neighbourhood."""

    def __init__(self) -> None:
        self.row, self.difference, self.X = 0, float("-inf"), np.zeros((0, 0), np.float32)

    def add(self, first_row: int, X: FloatArray, difference: Floats) -> None:
        """Add the next inputs X (k, width), from row `first_row` on, with their differences (k,)."""
        widest = int(difference.argmax())
        self._take(first_row + widest, float(difference[widest]), X[widest : widest + 1])

    def merge(self, other: _WidestSpread, first_row: int) -> None:
        """Add the inputs that follow, from row `first_row` on."""
        self._take(first_row + other.row, other.difference, other.X)

    def _take(self, row: int, difference: float, X: FloatArray) -> None:
        if difference > self.difference:
            self.row, self.difference, self.X = row, difference, X.copy()


class _LargestGaps:
    """The inputs with the largest gaps so far, equal inputs once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[float, int, FloatArray]] = {}
        self._least = float("-inf")

    def add(self, first_row: int, X: FloatArray, shown: Ints, gap: Floats) -> None:
        """Add some of the inputs X (k, width), from row `first_row` on, with the gaps (k,) of all of them."""
        chosen = shown[gap[shown] >= self._least]
        if len(chosen) == 0 or self._most == 0:
            return
        # Of equal inputs, keep the first row.
        _, first = np.unique(X[chosen], axis=0, return_index=True)
        different = chosen[np.sort(first)]
        for i in different[np.argsort(-gap[different], kind="stable")[: self._most]].tolist():
            self._kept.setdefault(X[i].tobytes(), (float(gap[i]), first_row + i, X[i].copy()))
        self._shrink()

    def merge(self, other: _LargestGaps, first_row: int) -> None:
        """Add the inputs that follow, from row `first_row` on."""
        for key, (gap, row, x) in other._kept.items():
            self._kept.setdefault(key, (gap, first_row + row, x))
        self._shrink()

    def _shrink(self) -> None:
        best = sorted(self._kept.items(), key=lambda item: (-item[1][0], item[1][1]))[: self._most]
        self._kept = dict(best)
        if len(best) == self._most and best:
            self._least = best[-1][1][0]

    def kept(self) -> tuple[list[int], list[FloatArray]]:
        """Return the rows and the inputs (width,)."""
        return [row for _, row, _ in self._kept.values()], [x for _, _, x in self._kept.values()]


TALLY_CLASSES = (
    AuditTally,
    DisparityCollector,
    RowCollector,
    RowSample,
    RowStore,
    _LargestGaps,
    _ScoreDifferences,
    _WidestSpread,
)
"""The classes that a tally is made of."""


# A block that is enumerated is cut into parts of about so many neighbours, a few seconds' worth, but at least so many
# inputs. Measured times would cut it elsewhere in another run, and round other last bits.
_PART_POINTS, _PART_ROWS = 64_000_000, 64
_PART_POINTS_RUN = 1_000_000  # by a model that is only run, which takes longer


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
        net: Model,
        spec: Spec,
        plan: AuditPlan,
        per_row: int,
        seed: int,
        search: DeviceSearch | None = None,
        device: str = "cpu",
    ) -> None:
        self._plan, self._search, self._run_only = plan, search, not isinstance(net, Network)
        self._scan: ExhaustiveScan | RandomScan | BranchScan
        if plan.method == "enumerate":
            self._scan = ExhaustiveScan(net, spec, search)
        elif plan.method == "branch":
            assert isinstance(net, Network)
            self._scan = BranchScan(net, spec, per_row, seed, device)
        else:
            self._scan = RandomScan(net, spec, per_row, seed)

    def engine(self) -> AbstractContextManager[Engine]:
        """Return what scans blocks in this process."""
        return nullcontext(HERE) if self._search is None else self._search.engine()

    def parts(self, stream: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """Yield the blocks of inputs, those that take long to enumerate in parts, so that progress shows."""
        points = _PART_POINTS_RUN if self._run_only else _PART_POINTS
        step = max(_PART_ROWS, points // max(1, self._plan.neighbours or 1))
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
        # Proofs are not made twice, and a model that is only run has computed every neighbour.
        known = isinstance(self._scan, BranchScan) or (self._run_only and isinstance(self._scan, ExhaustiveScan))
        if known and isinstance(found, WorstNeighbours):
            return rows, found.first[rows], found.other[rows]
        worst = self._scan.worst(X[rows])
        # A score that is 0, or a difference that is delta, up to its last bits may be another in another batch.
        sure = worst.unequal
        return rows[sure], worst.first[sure], worst.other[sure]


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

    net: Model
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
        reading.finish(tally.total)
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


def open_kept_audit(
    folder: str | os.PathLike[str], net: Model, spec: Spec, inputs: SlicedInputs, options: Mapping[str, Any]
) -> KeptResults:
    """Open the folder, or refuse it by name if its parts are of another model, spec, data or options."""
    classes = SCAN_CLASSES if inputs.count == 1 else (*TALLY_CLASSES, *inputs.note_classes)
    return open_kept_results(folder, net, spec, options, classes, inputs.describe())


def keep_plan(kept: KeptResults, plan: AuditPlan) -> AuditPlan:
    """Return the plan of the first run: the choice of a method depends on measured times."""
    return AuditPlan(**kept.settle("plan", asdict(plan)))
