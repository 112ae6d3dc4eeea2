"""`certify`: decide for each input whether it is treated equally.

Chunks of inputs, certified one by one: here, or on the workers of an engine.

How inputs are cut depends on the network, the spec, the inputs and the engine of `certify`, and never on the number of
workers. What a chunk gives depends on the chunk alone, so verdicts and witnesses are the same wherever it is certified.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import FloatArray
from fairmend.base.device import choose_wide_device
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import suggest
from fairmend.models import ModelSource, RunModel
from fairmend.network import Network
from fairmend.prove.engines.branch import boxes_per_batch, certify_by_branching
from fairmend.prove.engines.enumerate import certify_by_enumeration, certify_by_running
from fairmend.prove.engines.findings import ClassFindings, findings_of
from fairmend.prove.fit import model_condition, model_of_spec, open_kept_results, require_stable
from fairmend.prove.kernel_bounds import require_scores
from fairmend.prove.result import CertifyResult, Verdict, Witness, keep_ignored_features
from fairmend.spec import Spec
from fairmend.workers.engine import HERE, Engine, check_workers, run_tasks, use_engine
from fairmend.workers.kept_results import KeptResults

if TYPE_CHECKING:
    import pandas as pd


_logger = logging.getLogger(__name__)

_ENGINES = ("auto", "enumerate", "branch", "milp")

# The largest neighbourhood, in points, for which enumeration is the fastest proof.
_SMALL = 50_000


@shows_progress
def certify(
    net: ModelSource,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    engine: str = "auto",
    *,
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | Engine | None = None,
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Decide for each input whether every similar person gets the same prediction.

    If the spec claims scores, decide whether the scores of any two people in the neighbourhood differ by at most delta.
    FAIR is then proven for inference as well, in the network's own precision, and a witness is a pair whose scores
    differ by more than delta, in inference and in real arithmetic. The engine "milp" does not support these claims.

    FAIR means proven, in real arithmetic and for the weights as stored: every point of the neighbourhood gets the
    class that the network predicts for the input, here; where a score is within rounding of a tie, inference in another
    batch may predict another one. UNFAIR comes with a witness: a counterfactual with a different class,
    in inference and in real arithmetic. If a score of the pair is within the rounding error of inference, the witness
    is a `tie`. Every other input is UNKNOWN, with the reason; "a tie" if two classes differ by rounding only.

    A model that is only run is run on every counterfactual, and `runtime` names what ran it. FAIR then means that they
    all got one class there, in batches; nothing is proven about another program, version or precision. Inputs with
    infinitely many counterfactuals, or more than a million, are UNKNOWN.

    Parameters
    ----------
    net : the model, or anything that `load_model` takes
    spec : the features; they define which people are similar
    X : the inputs, encoded or as a DataFrame
    engine : "enumerate" (finite neighbourhoods, point by point), "branch" (any network: branch and bound on the
        kernel's bounds), "milp" (piecewise linear networks: a MILP solver searches for a witness, and "branch"
        proves), or "auto": "enumerate" if every neighbourhood is finite and small, else "branch"
    time_limit : seconds for the whole call; undecided inputs are UNKNOWN
    jobs : how many processes certify chunks of the inputs; the answer is the same, but for what a time limit leaves
        open. With more than one, call this under ``if __name__ == "__main__":`` in a script.
    device : "cpu", "auto" or "cuda", as for other commands; proofs are always computed on the CPU
    cluster : the address of an engine that certifies the chunks instead: "tcp://host:port" of a Dask scheduler,
        "ray://host:port" of Ray, or "ray://local" for a Ray of this call
    resume : a folder that keeps finished chunks; the same call with the same folder continues from them
    seed : random seed of the MILP solver; the other engines make no random choices
    progress : called with "certify", the number of inputs done and the number of inputs
    """
    network = model_of_spec(net, spec, X)
    if engine not in _ENGINES:
        raise FairmendError(f"unknown engine {engine!r}{suggest(str(engine), _ENGINES)}; use {', '.join(_ENGINES)}")
    if time_limit is not None and not time_limit > 0:
        raise FairmendError(f"time_limit is {time_limit}; give seconds above 0, or None for no limit")
    device = check_workers(cluster, jobs, device)
    if isinstance(network, RunModel) and engine not in ("auto", "enumerate"):
        raise FairmendError(
            f"engine {engine} needs a network, and {network.runner.name} is only run; use engine enumerate"
        )
    if device.startswith("cuda"):
        widths = network.widths if isinstance(network, Network) else ()
        choose_wide_device(device, widths, "computing bounds")  # refuses a GPU that is not there
        _logger.warning("the GPU is not used: proofs are computed on the CPU")
    require_scores(network, spec.claim)
    if engine == "milp":
        spec.require_class_claim("engine milp", "engine branch")
    with use_engine(cluster, jobs) as workers:
        inputs = spec.as_inputs(X, network.dtype)
        chosen = _choose_engine(network, spec, inputs) if engine == "auto" else engine
        _logger.info("certify %d inputs with engine %s", len(inputs), chosen)
        job = ChunkJob(network, spec, chosen, seed)
        options = {"command": "certify", "engine": chosen, "seed": seed, "time_limit": time_limit}
        kept = None if resume is None else open_kept_results(resume, network, spec, options, _CLASSES)
        result = certify_chunks(job, inputs, time_limit, progress, workers, kept)
    require_stable(network)
    witnesses = [
        w and replace(w, other=keep_ignored_features(network, spec, w.x[None], w.other[None])[0])
        for w in result.witnesses
    ]
    reasons = _name_undefined(network, spec, inputs, result)
    result = replace(result, witnesses=tuple(witnesses), reasons=reasons, condition=model_condition(network))
    _logger.info("engine %s: %s in %.2f s", chosen, result.counts, result.seconds)
    for reason in dict.fromkeys(filter(None, result.reasons)):
        _logger.debug("unknown for %d: %s", result.reasons.count(reason), reason)
    return result


def _name_undefined(net: Network | RunModel, spec: Spec, X: FloatArray, result: CertifyResult) -> tuple[str, ...]:
    """Return the reasons; of an UNKNOWN input, the function that may read what it is not defined for, if any does."""
    reasons = list(result.reasons)
    if isinstance(net, RunModel) or not any(activation.function.domain for activation in net.activations):
        return tuple(reasons)
    import torch

    from fairmend.bounds.linear import Boxes, feature_bounds

    layers = [(torch.tensor(a.weight).double(), torch.tensor(a.bias).double()) for a in net.affines[:-1]]
    for row in (row for row, reason in enumerate(reasons) if reason):
        boxes = Boxes.from_arrays(*spec.hull(X[row : row + 1], net.dtype), torch.float64)
        try:
            feature_bounds(net, layers, boxes, "interval")
        except FairmendError as error:
            reasons[row] = str(error)
    return tuple(reasons)


def _choose_engine(net: Network | RunModel, spec: Spec, X: FloatArray) -> str:
    if isinstance(net, RunModel):
        return "enumerate"
    small = spec.finite and int(np.max(spec.neighbourhood_sizes(X, X.dtype))) <= _SMALL
    return "enumerate" if small else "branch"


_CLASSES = (CertifyResult, Verdict, Witness)  # that results are made of
_FEWEST, _FEW_INPUTS, _MOST = 16, 128, 1024  # inputs of a chunk: of much work, and of little
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


def _rows_of_a_chunk(job: ChunkJob, X: FloatArray) -> int:
    """Return how many inputs make up a chunk: few enough to share them out, and many enough to be worth it."""
    most = min(max(len(X) // _CHUNKS, _FEW_INPUTS), _MOST)
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
