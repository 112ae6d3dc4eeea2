"""`fairmend.search`: a fairness tester looks for individual discriminatory instances, in two phases, in one batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.audit.neighbours import can_enumerate
from fairmend.errors import FairmendError
from fairmend.network import NetworkSource, load_network
from fairmend.progress import Progress
from fairmend.search import adf, eidig, grft, neuronfair
from fairmend.search.found import Found
from fairmend.search.oracle import Oracle
from fairmend.search.result import SearchResult
from fairmend.search.seeds import draw_seeds
from fairmend.search.walk import walk
from fairmend.spec import Spec
from fairmend.text import suggest

if TYPE_CHECKING:
    import pandas as pd

_logger = logging.getLogger(__name__)


METHODS: dict[str, ModuleType] = {"adf": adf, "eidig": eidig, "neuronfair": neuronfair, "grft": grft}


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
    progress: Progress | None = None,
) -> SearchResult:
    """Search for people who would get another answer if only their protected features were different.

    Parameters
    ----------
    net, spec : the network, and which people count as similar.
    X : inputs to start from, encoded or as a DataFrame.
    method : "adf", "eidig", "neuronfair" or "grft".
    seed : of every random choice.
    seeds : how many of X to start from, drawn in turn from 4 clusters.
    local_steps : how many steps the local phase takes from each seed that led to somebody.
    global_steps : how many steps (grft: generations) the global phase takes from each seed at most.
    progress : called with the stage, the steps done and the steps in all.
    """
    network = load_network(net)
    started = time.perf_counter()
    if method not in METHODS:
        raise FairmendError(f'unknown tester "{method}"{suggest(method, METHODS)}; use one of {", ".join(METHODS)}')
    for name, value, least in (("seeds", seeds, 1), ("local_steps", local_steps, 0), ("global_steps", global_steps, 0)):
        if value < least:
            raise FairmendError(f"{name} is {value}; it must be at least {least}")
    spec.require_inputs(network.inputs)
    tester, rng = METHODS[method], np.random.default_rng(seed)
    oracle = Oracle(network, spec, rng)
    found = Found(oracle)
    origins = oracle.space.values(draw_seeds(spec.as_inputs(X, network.dtype), seeds, rng))
    starts, partners = tester.find(oracle, origins, global_steps, found, rng, _stage(progress, "global"))
    _logger.info("search %s: %d of %d seeds led to somebody, %d calls", method, len(starts), len(origins), oracle.calls)
    walk(oracle, starts, partners, local_steps, tester.RULE, found, rng, _stage(progress, "local"))
    calls = oracle.calls
    idis, others = found.confirmed(_stage(progress, "confirm"))
    _logger.info("search %s: %d found with %d calls", method, len(idis), calls)
    return SearchResult(
        idis=idis,
        others=others,
        method=method,
        seeds=len(origins),
        starts=len(starts),
        calls=calls,
        exact=can_enumerate(spec),
        seconds=time.perf_counter() - started,
    )


def _stage(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(stage, done, total)
