"""How many threads small networks are worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Below this many multiplications a product is done before a second thread has woken up; and where other programs keep
# the cores busy, threads that wait for each other at every step made a repair fifty times slower.
_SMALL = 20_000_000


@contextmanager
def few_threads(work: int) -> Iterator[None]:
    """Run PyTorch on one thread for as long as this lasts, unless the ``work`` (multiplications in a step) is large."""
    before = torch.get_num_threads()
    if work < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
