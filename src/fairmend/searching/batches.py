"""Batches of seeds, searched one by one: here, or on the workers of an engine.

How seeds are cut depends on the network and on the number of steps, and never on the number of workers. A batch has a
random generator of its own, so that what it finds depends on the batch alone. Of people whom several batches find, the
first in the order of the batches is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.progress import Progress
from fairmend.prove.model_digests import digest_network, digest_spec
from fairmend.searching import adf, eidig, grft, neuronfair
from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.local_phase import run_local_phase
from fairmend.searching.oracle import Oracle
from fairmend.searching.value_space import Values
from fairmend.workers.engine import HERE, Engine, run_tasks
from fairmend.workers.kept_results import KeptResults

METHODS: dict[str, ModuleType] = {"adf": adf, "eidig": eidig, "neuronfair": neuronfair, "grft": grft}

_FEWEST, _MOST = 64, 1000  # seeds of a batch: fewer make products of small matrices, which are slow
_WORK = 20_000_000_000  # weights times steps times seeds of a batch: some seconds for small networks, and for wide ones


@dataclass(frozen=True, eq=False)
class SearchJob:
    """What all batches share."""

    oracle: Oracle
    method: str
    seed: int
    global_steps: int
    local_steps: int


@dataclass(frozen=True, eq=False)
class _Batch:
    """Seeds (n, features), their random generator, and where progress is reported, which does not travel."""

    seeds: Values
    rng: np.random.Generator
    progress: Progress | None = None

    def digest(self) -> str:
        """Return a text that changes with the seeds."""
        return hashlib.sha256(f"{self.seeds.shape}".encode() + self.seeds.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class BatchResult:
    """What was found from some seeds.

    Attributes
    ----------
    idis, others : (count, width), the confirmed IDIs, and a neighbour of each with another prediction
    keys : (count,), equal for IDIs that are equal in all unprotected features
    starts : how many seeds led to an IDI
    calls : how often the network was evaluated
    """

    idis: FloatArray
    others: FloatArray
    keys: npt.NDArray[np.uint64]
    starts: int
    calls: int


def search_batches(
    job: SearchJob,
    seeds: Values,
    rng: np.random.Generator,
    progress: Progress | None,
    workers: Engine = HERE,
    kept: KeptResults | None = None,
) -> BatchResult:
    """Search from the seeds (n, features), batch by batch; the first batch continues with `rng`."""
    rows = _seeds_of_a_batch(job)
    workers = workers if len(seeds) > rows else HERE
    tasks = _cut(job, seeds, rows, rng, progress, workers)
    done, merged = 0, _Merged()
    for batch, result in run_tasks(workers, _search_batch, job, tasks, kept, (BatchResult,)):
        merged.add(result)
        done += len(batch.seeds)
        if progress is not None and len(seeds) > rows:
            progress("search", done, len(seeds))
    return merged.result()


class _Merged:
    """What the batches so far found together, each IDI once."""

    def __init__(self) -> None:
        self._parts: list[BatchResult] = []
        self._known = np.zeros(0, np.uint64)

    def add(self, found: BatchResult) -> None:
        """Add what the next batch found."""
        new = ~np.isin(found.keys, self._known)
        self._known = np.union1d(self._known, found.keys)
        kept = found if new.all() else replace(found, idis=found.idis[new], others=found.others[new])
        self._parts.append(kept)

    def result(self) -> BatchResult:
        """Return all of it."""
        return BatchResult(
            idis=np.concatenate([part.idis for part in self._parts]),
            others=np.concatenate([part.others for part in self._parts]),
            keys=self._known,
            starts=sum(part.starts for part in self._parts),
            calls=sum(part.calls for part in self._parts),
        )


def open_kept_batches(folder: Path, job: SearchJob, seeds: int) -> KeptResults:
    """Open the folder of finished batches, or refuse it by name if they are of another model, spec or options."""
    steps = {"global_steps": job.global_steps, "local_steps": job.local_steps}
    options: dict[str, Any] = {"command": "search", "method": job.method, "seed": job.seed, "seeds": seeds, **steps}
    about = {"model": digest_network(job.oracle.net), "spec": digest_spec(job.oracle.spec)}
    return KeptResults(folder, {**about, "options": json.dumps(options)}, (BatchResult,))


def _seeds_of_a_batch(job: SearchJob) -> int:
    weights = sum(affine.weight.size for affine in job.oracle.net.affines)
    enough = _WORK // max(1, weights * (job.global_steps + job.local_steps))
    return max(_FEWEST, min(_MOST, enough))


def _cut(
    job: SearchJob, seeds: Values, rows: int, rng: np.random.Generator, progress: Progress | None, workers: Engine
) -> Iterator[_Batch]:
    for number, start in enumerate(range(0, len(seeds), rows)):
        # The first batch is the whole search, if there are few seeds; others have a stream of their own.
        own = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(number,))) if number else rng
        part = seeds[start : start + rows]
        shown = progress if len(part) == len(seeds) else _share_of(progress, start, len(part), len(seeds))
        yield _Batch(part, own, shown if workers.is_here else None)


def _share_of(progress: Progress | None, start: int, rows: int, total: int) -> Progress | None:
    """Return a callback that counts seeds; the local phase takes nearly all of the time."""
    if progress is None:
        return None

    def report(stage: str, done: int, steps: int) -> None:
        if stage == "local":
            progress("search", start + rows * done // steps, total)

    return report


def _search_batch(job: SearchJob, batch: _Batch) -> BatchResult:
    oracle, tester, rng = copy(job.oracle), METHODS[job.method], batch.rng
    oracle.calls = 0
    discovered = DiscoveredInstances(oracle)

    def stage(name: str) -> Callable[[int, int], None] | None:
        progress = batch.progress
        return None if progress is None else lambda done, total: progress(name, done, total)

    starts, partners = tester.find_starts(oracle, batch.seeds, job.global_steps, discovered, rng, stage("global"))
    run_local_phase(oracle, starts, partners, job.local_steps, tester.RULE, discovered, rng, stage("local"))
    calls = oracle.calls
    idis, others, keys = discovered.confirmed(stage("confirm"))
    return BatchResult(idis, others, keys, len(starts), calls)
