"""`fairmend.search`: search for individual discriminatory instances with a fairness tester, in two phases.

Seeds are searched in batches: here, or on the workers of an engine. How they are cut depends on the network and on the
number of steps, and never on the number of workers. A batch has a random generator of its own, so that what it finds
depends on the batch alone. Of people whom several batches find, the first in the order of the batches is kept.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.auditing.neighbours import can_enumerate
from fairmend.base.arrays import FloatArray
from fairmend.base.device import choose_wide_device, compute_on
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import listed, suggest
from fairmend.models import ModelSource, RunModel
from fairmend.network import Network
from fairmend.prove.fit import model_of_spec, open_kept_results, require_stable
from fairmend.searching.oracle import Oracle, Values
from fairmend.searching.result import DiscoveredInstances, SearchResult
from fairmend.searching.testers import METHODS, run_local_phase
from fairmend.spec import Spec
from fairmend.workers.engine import HERE, Engine, check_workers, run_tasks, use_engine
from fairmend.workers.kept_results import KeptResults

if TYPE_CHECKING:
    import pandas as pd

_logger = logging.getLogger(__name__)

CLUSTERS = 4
# More rows than this do not improve the clusters.
_MOST_ROWS = 100_000
_FEWEST, _MOST = 64, 1000  # seeds of a batch: fewer make products of small matrices, which are slow
_WORK = 20_000_000_000  # weights times steps times seeds of a batch: some seconds for small networks, and for wide ones


@shows_progress
def search(
    net: ModelSource,
    spec: Spec,
    X: pd.DataFrame | npt.ArrayLike,
    method: str = "adf",
    seed: int = 0,
    *,
    seeds: int = 1000,
    local_steps: int = 1000,
    global_steps: int = 10,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | Engine | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Search the input space for people who are treated unequally.

    Parameters
    ----------
    net, spec : the model, and the spec that defines which people are similar. A model that is only run has no
        gradients: pass method="grft", which needs none.
    X : inputs to start from, encoded or as a DataFrame.
    method : "adf", "eidig", "neuronfair" or "grft".
    seed : the random seed.
    seeds : the number of rows of X to start from, drawn in turn from 4 clusters.
    local_steps : the number of steps of the local phase from each seed that led to an IDI.
    global_steps : the largest number of steps (for grft, generations) of the global phase from each seed.
    jobs : how many processes search from batches of the seeds: of 1000 seeds each, or fewer if the network is wide.
        What is found is the same with any number. With more than one, call this under ``if __name__ == "__main__":``
        in a script.
    device : where the gradients of wide layers are computed: "cpu", "cuda" (a GPU; "cuda:1" is the second), or "auto":
        a GPU, if there is one, for networks with a layer of more than 128 units. Predictions are always those of
        `net.predict`, on the CPU. Workers (`jobs`, `cluster`) compute on the CPU.
    cluster : the address of an engine that searches from the batches instead: "tcp://host:port" of a Dask scheduler,
        "ray://host:port" of Ray, or "ray://local" for a Ray of this call
    resume : a folder that keeps finished batches; the same call with the same folder continues from them
    progress : called with the stage ("global", "local", "confirm"), the steps done and the total; if there are several
        batches, with "search", the number of seeds done and the number of seeds.
    """
    model = model_of_spec(net, spec, X)
    started = time.perf_counter()
    require_tester(method, model)
    for name, value, least in (("seeds", seeds, 1), ("local_steps", local_steps, 0), ("global_steps", global_steps, 0)):
        if value < least:
            raise FairmendError(f"{name} is {value}; it must be at least {least}")
    device = check_workers(cluster, jobs, device)
    spec.require_class_claim(f"the search with {method}")
    with use_engine(cluster, jobs) as workers:
        rng = np.random.default_rng(seed)
        oracle = Oracle(model, spec, rng)
        job = SearchJob(oracle, method, seed, global_steps, local_steps)
        steps = {"global_steps": global_steps, "local_steps": local_steps}
        options = {"command": "search", "method": method, "seed": seed, "seeds": seeds, **steps}
        kept = None if resume is None else open_kept_results(resume, model, spec, options, (BatchResult,))
        origins = oracle.space.values(draw_seeds(spec.as_inputs(X, model.dtype), seeds, rng))
        widths = model.widths if isinstance(model, Network) else ()
        with compute_on(choose_wide_device(device, widths, "computing gradients")):
            found = search_batches(job, origins, rng, progress, workers, kept)
    require_stable(model)
    _logger.info(
        "search %s: %d of %d seeds led to an IDI, %d IDIs with %d calls",
        method,
        found.starts,
        len(origins),
        len(found.idis),
        found.calls,
    )
    return SearchResult(
        idis=found.idis,
        others=found.others,
        method=method,
        seeds=len(origins),
        starts=found.starts,
        calls=found.calls,
        exact=can_enumerate(spec),
        seconds=time.perf_counter() - started,
    )


def require_tester(method: str, model: Network | RunModel) -> None:
    """Refuse a method that is no tester, and one that follows gradients, which a model that is only run has not."""
    if method not in METHODS:
        raise FairmendError(f'unknown tester "{method}"{suggest(method, METHODS)}; use one of {", ".join(METHODS)}')
    if isinstance(model, RunModel) and METHODS[method].follows_gradients:
        others = [name for name, tester in METHODS.items() if not tester.follows_gradients]
        raise FairmendError(
            f"search with {method} follows gradients, but {model.runner.name} is only run ({model.why_only_run}); use "
            f"method {listed(others, 'or')}, which needs none"
        )


def draw_seeds(X: FloatArray, seeds: int, rng: np.random.Generator) -> FloatArray:
    """Return this many rows of X, or all if there are fewer, in turn from 4 clusters, to cover all kinds of people.

    Zhang et al., White-box fairness testing through adversarial sampling, ICSE 2020 (ADF).
    """
    from sklearn.cluster import KMeans

    X = X[rng.permutation(len(X))[: max(_MOST_ROWS, seeds)]]
    distinct = len(np.unique(X, axis=0))
    means = KMeans(min(CLUSTERS, distinct), n_init=1, random_state=int(rng.integers(2**31)))
    clusters = means.fit_predict(X.astype(np.float64))
    turn = np.empty(len(X), np.int64)  # the first of each cluster come first, then the second of each
    for cluster in range(means.n_clusters):
        rows = np.flatnonzero(clusters == cluster)
        turn[rows] = np.arange(len(rows))
    return X[np.lexsort((clusters, turn))[:seeds]]


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


def _seeds_of_a_batch(job: SearchJob) -> int:
    net = job.oracle.net
    weights = sum(affine.weight.size for affine in net.affines) if isinstance(net, Network) else 1
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
    run_local_phase(oracle, starts, partners, job.local_steps, tester.rule, discovered, rng, stage("local"))
    calls = oracle.calls
    idis, others, keys = discovered.confirmed(stage("confirm"))
    return BatchResult(idis, others, keys, len(starts), calls)
