"""`fairmend.search`: search for individual discriminatory instances with a fairness tester, in two phases."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.auditing.neighbours import can_enumerate
from fairmend.base.device import check_device_name, choose_wide_device, compute_on, device_of_workers
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import suggest
from fairmend.network import NetworkSource, load_network
from fairmend.prove.fit import require_fit
from fairmend.prove.threshold import network_of_spec
from fairmend.searching.batches import METHODS, SearchJob, open_kept_batches, search_batches
from fairmend.searching.oracle import Oracle
from fairmend.searching.result import SearchResult
from fairmend.searching.seeds import draw_seeds
from fairmend.spec import Spec
from fairmend.workers.engine import Engine
from fairmend.workers.open_engine import use_engine, works_here

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METHODS", "search"]

_logger = logging.getLogger(__name__)


@shows_progress
def search(
    net: NetworkSource,
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
    net, spec : the network, and the spec that defines which people are similar.
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
    network = network_of_spec(load_network(net), spec)
    started = time.perf_counter()
    if method not in METHODS:
        raise FairmendError(f'unknown tester "{method}"{suggest(method, METHODS)}; use one of {", ".join(METHODS)}')
    for name, value, least in (("seeds", seeds, 1), ("local_steps", local_steps, 0), ("global_steps", global_steps, 0)):
        if value < least:
            raise FairmendError(f"{name} is {value}; it must be at least {least}")
    if jobs < 1:
        raise FairmendError(f"jobs is {jobs}; it must be at least 1")
    check_device_name(device)
    if not works_here(cluster, jobs):
        device = device_of_workers(device)
    spec.require_class_claim(f"the search with {method}")
    require_fit(network, spec)
    with use_engine(cluster, jobs) as workers:
        rng = np.random.default_rng(seed)
        oracle = Oracle(network, spec, rng)
        job = SearchJob(oracle, method, seed, global_steps, local_steps)
        kept = None if resume is None else open_kept_batches(Path(resume), job, seeds)
        origins = oracle.space.values(draw_seeds(spec.as_inputs(X, network.dtype), seeds, rng))
        with compute_on(choose_wide_device(device, network.widths, "computing gradients")):
            found = search_batches(job, origins, rng, progress, workers, kept)
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
