"""What quantify can do in its time, before it runs: with several real features, most people stay undecided.

Boxes of d real features are halved one side at a time, so that n boxes have sides of about n^(-1/d): the share of
people in undecided boxes falls at most as fast, as a power of the time. A short run gives its size and its power.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from fairmend.base.text import listed, percent
from fairmend.network import Network
from fairmend.prove.fit import network_of_spec
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.search import search
from fairmend.spec import Spec
from fairmend.workers.engine import HERE

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
    end, last = seen[-1]
    middle, share = max((entry for entry in seen if entry[0] <= end / 2), default=seen[0])
    return math.log(share / last) / math.log(end / middle) if last > 0 and middle < end else math.inf
