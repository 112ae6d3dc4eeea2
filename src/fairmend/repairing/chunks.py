"""Chunks of regions: training and bounds take as many at a time as fit in memory, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairmend.network import Network
from fairmend.spec.neighbourhoods import Regions

_COPIES = 8
"""Tensors of the size of a product that PyTorch keeps for the gradients: positive and negative parts, both sides."""


def step_entries(network: Network, bounds: str) -> int:
    """Return how many numbers the bounds of one piece may need: a pair of layers has a matrix of coefficients."""
    widths = [network.widths[i] for i in network.affine_nodes[:-1]]
    if bounds == "interval":
        return _COPIES * (network.inputs + sum(widths))
    pairs = (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2
    return _COPIES * (network.inputs + sum(widths) + pairs)


def chunks_of_inputs(regions: Regions, pieces: int) -> Iterator[slice]:
    """Divide the inputs into runs with at most so many pieces, or of one input if that has more."""
    ends = np.searchsorted(regions.owner, np.arange(regions.count), side="right")
    start = taken = 0
    while start < regions.count:
        stop = max(start + 1, int(np.searchsorted(ends, taken + pieces, side="right")))
        yield slice(start, stop)
        start, taken = stop, int(ends[stop - 1])
