"""Chunks of inputs, certified one by one: here, or on the workers of an engine.

How inputs are cut depends on the network, the spec, the inputs and the engine of `certify`, and never on the number of
workers. What a chunk gives depends on the chunk alone, so verdicts and witnesses are the same wherever it is certified.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.progress import Progress
from fairmend.models import RunModel
from fairmend.network import Network
from fairmend.prove.engines.branch import boxes_per_batch, certify_by_branching
from fairmend.prove.engines.enumerate import certify_by_enumeration
from fairmend.prove.engines.findings import ClassFindings, findings_of
from fairmend.prove.engines.running import certify_by_running
from fairmend.prove.model_digests import digest_network, digest_spec
from fairmend.prove.result import CertifyResult, Verdict, Witness
from fairmend.spec import Spec
from fairmend.workers.engine import HERE, Engine, run_tasks
from fairmend.workers.kept_results import KeptResults

_CLASSES = (CertifyResult, Verdict, Witness)  # that results are made of
_FEWEST, _SMALL, _MOST = 16, 128, 1024  # inputs of a chunk: of much work, and of little
_CHUNKS = 8  # that few inputs make up, so that small problems are not cut into many parts, which cost more together
_POINTS = 1_000_000  # of a chunk that is enumerated: about a second
_ROUNDS = 8  # batches of boxes that a chunk fills at first: less than a few, and the last small ones cost most


@dataclass(frozen=True, eq=False)
class ChunkJob:
    """What all chunks share: the model, the spec, the engine of `certify`, and the seed of the MILP solver."""

    net: Network | RunModel
    spec: Spec
    engine: str
    seed: int


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Inputs (n, width), the seconds that they may take, and where progress is reported, which does not travel."""

    X: FloatArray
    seconds: float | None
    progress: Progress | None = None

    def digest(self) -> str:
        """Return a text that changes with the inputs."""
        return hashlib.sha256(f"{self.X.dtype.str}{self.X.shape}".encode() + self.X.tobytes()).hexdigest()


def certify_chunks(
    job: ChunkJob,
    X: FloatArray,
    time_limit: float | None,
    progress: Progress | None,
    workers: Engine = HERE,
    kept: KeptResults | None = None,
) -> CertifyResult:
    """Certify inputs (n, width) chunk by chunk, and return all verdicts in order."""
    started = time.perf_counter()
    rows = _rows_of_a_chunk(job, X)
    workers = workers if len(X) > rows else HERE
    chunks = _cut(X, rows, time_limit, progress, workers)
    parts = []
    for _, part in run_tasks(workers, _certify_chunk, job, chunks, kept, _CLASSES):
        parts.append(part)
        if progress is not None and not workers.is_here:
            progress("certify", sum(map(len, parts)), len(X))
    return CertifyResult(
        tuple(verdict for part in parts for verdict in part.verdicts),
        tuple(witness for part in parts for witness in part.witnesses),
        tuple(reason for part in parts for reason in part.reasons),
        job.engine,
        time.perf_counter() - started,
        runtime=job.net.runtime if isinstance(job.net, RunModel) else "",
    )


def open_kept_chunks(folder: Path, job: ChunkJob, time_limit: float | None) -> KeptResults:
    """Open the folder of finished chunks, or refuse it by name if they are of another model, spec or options."""
    options: dict[str, Any] = {"command": "certify", "engine": job.engine, "seed": job.seed, "time_limit": time_limit}
    about = {"model": digest_network(job.net), "spec": digest_spec(job.spec), "options": json.dumps(options)}
    return KeptResults(folder, about, _CLASSES)


def _rows_of_a_chunk(job: ChunkJob, X: FloatArray) -> int:
    """Return how many inputs make up a chunk: few enough to share them out, and many enough to be worth it."""
    most = min(max(len(X) // _CHUNKS, _SMALL), _MOST)
    return max(_FEWEST, min(most, _rows_of_enough_work(job, X)))


def _rows_of_enough_work(job: ChunkJob, X: FloatArray) -> int:
    if job.engine == "milp":
        return _FEWEST
    if job.engine == "enumerate":
        return _POINTS // int(np.max(job.spec.neighbourhood_sizes(X, X.dtype))) if job.spec.finite else _MOST
    assert isinstance(job.net, Network)
    return _ROUNDS * boxes_per_batch(job.net) // job.spec.most_pieces


def _cut(
    X: FloatArray, rows: int, time_limit: float | None, progress: Progress | None, workers: Engine
) -> Iterator[_Chunk]:
    """Yield the chunks, each with its share of the time; here, a chunk also gets what those before it left."""
    started = time.perf_counter()
    for start in range(0, len(X), rows):
        part = X[start : start + rows]
        seconds = time_limit
        if time_limit is not None and workers.is_here:
            seconds = (time_limit - (time.perf_counter() - started)) * len(part) / (len(X) - start)
        elif time_limit is not None:
            seconds = time_limit * workers.slots * len(part) / len(X)
        yield _Chunk(part, seconds, _shifted(progress, start, len(X)) if workers.is_here else None)


def _shifted(progress: Progress | None, start: int, total: int) -> Progress | None:
    return None if progress is None else lambda stage, done, _: progress(stage, start + done, total)


def _certify_chunk(job: ChunkJob, chunk: _Chunk) -> CertifyResult:
    if isinstance(job.net, RunModel):
        return certify_by_running(job.net, job.spec, chunk.X, chunk.seconds, chunk.progress)
    findings = findings_of(job.net, job.spec.claim, chunk.X, chunk.seconds, chunk.progress)
    if job.engine == "enumerate":
        certify_by_enumeration(job.spec, findings)
    elif job.engine == "branch":
        certify_by_branching(job.spec, findings)
    else:
        from fairmend.prove.engines.milp import certify_by_milp

        assert isinstance(findings, ClassFindings)
        certify_by_milp(job.spec, findings, job.seed)
    return findings.result(job.engine)
