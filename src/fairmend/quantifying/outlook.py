"""What quantify can do in its time, before it runs: with many real features, most people stay undecided.

Boxes of d real features are halved one side at a time, so that n boxes have sides of about n^(-1/d): the share of
people in undecided boxes falls about as slowly. A short run gives its size, and this law what more time makes of it.
"""

from __future__ import annotations

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

MANY = 6
"""With fewer free real features, nothing is estimated: boxes decide most people soon."""

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
            f"quantify divides the values of {len(self.features)} numeric features ({names}) into boxes, and with so "
            f"many most people stay undecided: {percent(self.undecided_soon)} after {self.seconds:.1f} s, and about "
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
    if len(features) < MANY:
        return None
    started, short = time.monotonic(), min(_LONGEST, _SHARE_OF_TIME * seconds)
    leaves = search(Decider(network, spec), lambda: time.monotonic() - started, short, 0.0, seed, None, HERE)
    taken = max(short, time.monotonic() - started)
    soon = leaves.totals()[2]
    expected = soon * min(1.0, taken / seconds) ** (1 / len(features))
    return Outlook(features, taken, soon, expected) if expected > _WORTH_SAYING else None
