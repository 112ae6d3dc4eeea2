"""`fairmend.search`: search for individual discriminatory instances with a fairness tester, in two phases."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.audit.neighbours import can_enumerate
from fairmend.device.current import choose_wide_device, compute_on
from fairmend.device.names import check_device_name
from fairmend.errors import FairmendError
from fairmend.network import NetworkSource, load_network
from fairmend.progress import Progress, shows_progress
from fairmend.prove.fit import require_fit
from fairmend.prove.threshold import network_of_spec
from fairmend.search import adf, eidig, grft, neuronfair
from fairmend.search.discovered import DiscoveredInstances
from fairmend.search.local_phase import run_local_phase
from fairmend.search.oracle import Oracle
from fairmend.search.result import SearchResult
from fairmend.search.seeds import draw_seeds
from fairmend.spec import Spec
from fairmend.text import suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METHODS", "search"]

_logger = logging.getLogger(__name__)


METHODS: dict[str, ModuleType] = {"adf": adf, "eidig": eidig, "neuronfair": neuronfair, "grft": grft}


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
    device: str = "cpu",
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
    device : where the gradients of wide layers are computed: "cpu", "cuda" (a GPU; "cuda:1" is the second), or "auto":
        a GPU, if there is one, for networks with a layer of more than 128 units. Predictions are always those of
        `net.predict`, on the CPU.
    progress : called with the stage ("global", "local", "confirm"), the steps done and the total.
    """
    network = network_of_spec(load_network(net), spec)
    started = time.perf_counter()
    if method not in METHODS:
        raise FairmendError(f'unknown tester "{method}"{suggest(method, METHODS)}; use one of {", ".join(METHODS)}')
    for name, value, least in (("seeds", seeds, 1), ("local_steps", local_steps, 0), ("global_steps", global_steps, 0)):
        if value < least:
            raise FairmendError(f"{name} is {value}; it must be at least {least}")
    check_device_name(device)
    spec.require_class_claim(f"the search with {method}")
    require_fit(network, spec)
    tester, rng = METHODS[method], np.random.default_rng(seed)
    oracle = Oracle(network, spec, rng)
    discovered = DiscoveredInstances(oracle)
    origins = oracle.space.values(draw_seeds(spec.as_inputs(X, network.dtype), seeds, rng))
    with compute_on(choose_wide_device(device, network.widths, "computing gradients")):
        starts, partners = tester.find_starts(
            oracle, origins, global_steps, discovered, rng, _stage(progress, "global")
        )
        led = len(starts)
        _logger.info("search %s: %d of %d seeds led to an IDI, %d calls", method, led, len(origins), oracle.calls)
        run_local_phase(oracle, starts, partners, local_steps, tester.RULE, discovered, rng, _stage(progress, "local"))
    calls = oracle.calls
    idis, others = discovered.confirmed(_stage(progress, "confirm"))
    _logger.info("search %s: %d IDIs with %d calls", method, len(idis), calls)
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
