"""The number of threads that a small network is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# A product with fewer multiplications is done before a second thread has woken up. Where other programs keep the cores
# busy, threads that wait for each other at every step made a repair fifty times slower.
_SMALL = 20_000_000


@contextmanager
def few_threads(work: int) -> Iterator[None]:
    """Run PyTorch on one thread inside the ``with`` block, unless ``work`` (multiplications in a step) is large."""
    import torch

    before = torch.get_num_threads()
    if work < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
