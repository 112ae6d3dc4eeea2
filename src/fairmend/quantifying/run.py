"""`fairmend.quantify`: which share of all people is proven to be treated equally, and which unequally.

Branch and bound over boxes of the unprotected features. A box that is not decided as a whole is decided in part, by
counting (`decide`), and the boxes with the largest undecided shares are split first.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from fairmend.base.device import choose_wide_device
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.threads import few_product_threads
from fairmend.models import ModelSource, require_network
from fairmend.network import Network
from fairmend.prove.fit import model_condition, network_of_spec
from fairmend.prove.kernel_bounds import require_scores
from fairmend.quantifying.certificate import Evidence
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.result import QuantifyResult, find_cells, prove_cells
from fairmend.quantifying.sample import sampled_unequal
from fairmend.quantifying.search import search
from fairmend.quantifying.unequal_map import make_map
from fairmend.spec import Spec
from fairmend.workers.engine import Engine, check_workers, use_engine
from fairmend_check.kernel.bounds import NUMBERS_AT_ONCE

if TYPE_CHECKING:
    import pandas as pd


_logger = logging.getLogger(__name__)

_clock = time.perf_counter
_FOR_ROWS = 0.5  # of the time, at most, for the rows of the data


@shows_progress
def quantify(
    net: ModelSource,
    spec: Spec,
    *,
    seconds: float = 60,
    share: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | Engine | None = None,
    X: pd.DataFrame | ArrayLike | None = None,
    samples: int = 20_000,
    counting: bool = True,
    progress: Progress | None = None,
) -> QuantifyResult:
    """Prove which share of all people that the spec allows is treated equally, and which unequally.

    People are counted uniformly: each value of an integer or categorical feature has the same weight, and each part of
    the range of a continuous one its length. Of the protected features, only those that links depend on count, with
    the person's own values. A person is treated unequally if some similar person, with other protected values, gets
    another class; if the spec claims scores, if those of two similar people differ by more than delta. What is proven
    holds for the network in its own floating-point arithmetic.

    Parameters
    ----------
    net, spec : the network, and the spec that defines all people and which of them are similar.
    seconds : stop after this many seconds; the shares hold whenever it stops. The people in X take at most half of
        the time.
    share : stop as soon as at most this share is undecided.
    seed : random seed of the samples.
    jobs : how many processes decide boxes. Shares are proven with any number; if it stops at `share`, before the
        seconds are over, the boxes are the same. With more than one, call this under ``if __name__ == "__main__":`` in
        a script.
    device : "cpu", "cuda" (a GPU; "cuda:1" is the second) or "auto", as other functions take it. A GPU changes nothing
        here: boxes are decided by the kernel, which computes on the CPU.
    cluster : the address of an engine whose workers decide boxes instead: "tcp://host:port" of a Dask scheduler,
        "ray://host:port" of Ray, or "ray://local" for a Ray of this call.
    X : people, encoded or as a DataFrame: count how many of them are treated equally and unequally as well.
    samples : how many random people to compare, for an estimate beside the proof.
    counting : whether to count people in undecided boxes; without it, only whole boxes are decided.
    progress : called with the stage "decided" and the share that is decided so far, in hundredths of a per cent.
    """
    started = _clock()
    network = network_of_spec(require_network(net, "quantify"), spec)
    device = check_workers(cluster, jobs, device)
    _check(network, spec, seconds, share, samples)
    decider = Decider(network, spec, counting=counting)
    choose_wide_device(device, network.widths, "deciding boxes")
    cells = None if X is None else find_cells(decider.people, spec, spec.as_inputs(X, network.dtype))
    with few_product_threads(NUMBERS_AT_ONCE * max(decider.model.widths)), use_engine(cluster, jobs) as workers:
        rows = None
        if cells is not None:
            rows = prove_cells(network, spec, cells, lambda: _clock() - started < seconds * _FOR_ROWS, progress)
        leaves = search(decider, lambda: _clock() - started, seconds, share or 0.0, seed, progress, workers)
    fair, unfair, undecided = leaves.totals()
    _logger.info("quantify: %d boxes, fair %.6f, unfair %.6f", leaves.count, fair, unfair)
    return QuantifyResult(
        fair=fair,
        unfair=unfair,
        undecided=undecided,
        boxes=make_map(decider, leaves, cells),
        rows=rows,
        sampled=sampled_unequal(decider, samples, seed),
        samples=samples,
        leaves=leaves.count,
        seconds=_clock() - started,
        evidence=Evidence(network, spec, decider.people, decider.parts, leaves),
        condition=model_condition(network),
    )


def _check(network: Network, spec: Spec, seconds: float, share: float | None, samples: int) -> None:
    """Raise an error for what quantify does not take."""
    require_scores(network, spec.claim)
    spec.require_inputs(network.inputs)
    spec.require_outputs(network.outputs)
    spec.require_ranges("quantify", "Give them a kind with a range or categories, or audit data.")
    if not (isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0):
        raise FairmendError(f"seconds must be a number above 0, got {seconds!r}")
    if share is not None and not 0 <= share < 1:
        raise FairmendError(f"share must be at least 0 and below 1, got {share!r}")
    if samples < 0:
        raise FairmendError(f"samples must not be negative, got {samples}")
