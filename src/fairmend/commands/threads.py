"""How many threads small networks are worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairmend.network import Network

# Below this a layer is done before a second thread has woken up; and where other programs keep the cores
# busy, threads that wait for each other at every step made a repair a hundred times slower.
_SMALL = 100_000


@contextmanager
def few_threads(net: Network | None = None) -> Iterator[None]:
    """Run torch on one thread for as long as this lasts, unless the network is large."""
    import torch

    before = torch.get_num_threads()
    if net is None or sum(affine.weight.size for affine in net.affines) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
