"""`fairmend.quantify`: which share of all people is proven to be treated equally, and which unequally.

Branch and bound over boxes of the unprotected features. A box that is not decided as a whole is decided in part, by
counting (`decide`), and the boxes with the largest undecided shares are split first.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fairmend.base.device import choose_wide_device
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress, shows_progress
from fairmend.base.text import listed, percent
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
from fairmend.workers.engine import HERE, Engine, check_workers, use_engine
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


# What quantify can do in its time, before it runs: with several real features, most people stay undecided.
#
# Boxes of d real features are halved one side at a time, so that n boxes have sides of about n^(-1/d): the share of
# people in undecided boxes falls at most as fast, as a power of the time. A short run gives its size and its power.


_WORTH_SAYING = 0.2  # undecided at the end
_MANY_VALUES = 20  # of an integer that is divided as a real number is
_SHARE_OF_TIME, _LONGEST = 0.05, 2.0  # of the short run, and its seconds


@dataclass(frozen=True)
class Outlook:
    """What to expect: the free real ``features``, and the share that is undecided after a short run and at the end."""

    features: tuple[str, ...]
    seconds: float
    undecided_soon: float
    undecided: float

    def describe(self, seconds: float) -> str:
        """Return it in words, with what to do instead."""
        names = listed([*self.features], most=4)
        return (
            f"quantify divides the values of {len(self.features)} numeric features ({names}) into boxes, and "
            f"{'most' if self.undecided > 0.5 else 'many'} people stay undecided: "
            f"{percent(self.undecided_soon)} after {self.seconds:.1f} s, and about "
            f"{percent(self.undecided)} after {seconds:g} s. To know more: fairmend audit estimates the share from "
            "random samples, fairmend certify proves rows of your data, and narrower ranges in the spec leave fewer "
            "people to decide"
        )


def free_real_features(network: Network, spec: Spec) -> tuple[str, ...]:
    """Return the features that quantify divides as real numbers: not protected, read by the network, many values."""
    read = network.read_columns
    return tuple(
        f.name
        for f in spec.features
        if not f.protected
        and not f.categories
        and (f.kind == "continuous" or f.bounds[1] - f.bounds[0] >= _MANY_VALUES)
        and f.bounds[0] < f.bounds[1]
        and bool(np.any(read[spec.columns(f.name)]))
    )


def foresee(net: Network, spec: Spec, seconds: float, seed: int = 0) -> Outlook | None:
    """Return what to expect of quantify in so many seconds, from a short run; None if it is not worth saying."""
    network = network_of_spec(net, spec)
    features = free_real_features(network, spec)
    if not features:
        return None
    started, short = time.monotonic(), min(_LONGEST, _SHARE_OF_TIME * seconds)
    seen: list[tuple[float, float]] = []

    def elapsed() -> float:
        return time.monotonic() - started

    def note(stage: str, done: int, total: int) -> None:
        seen.append((elapsed(), 1 - done / total))

    leaves = search(Decider(network, spec), elapsed, short, 0.0, seed, note, HERE)
    taken, soon = max(short, elapsed()), leaves.totals()[2]
    expected = soon * min(1.0, taken / seconds) ** min(_power(seen), 1 / len(features))
    return Outlook(features, taken, soon, expected) if expected > _WORTH_SAYING else None


def _power(seen: list[tuple[float, float]]) -> float:
    """Return with which power of the time the undecided share fell in the second half of a run."""
    if not seen:  # of a network that does not read what varies, nothing is searched
        return math.inf
    end, last = seen[-1]
    middle, share = max((entry for entry in seen if entry[0] <= end / 2), default=seen[0])
    return math.log(share / last) / math.log(end / middle) if last > 0 and middle < end else math.inf
