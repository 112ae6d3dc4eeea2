"""The number of threads that a network is worth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_MOST = 8  # threads, each with arrays of its own

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


def side_by_side(work: Callable[[T], None], parts: Iterable[T]) -> None:
    """Call ``work`` on each part, on several threads if there are several parts: NumPy computes without the GIL.

    A wide layer spends as long on numbers one by one, which take one core, as on matrix products, which take all. The
    cores are divided among the threads; products that compete for them were ten times slower.
    """
    parts = list(parts)
    cores = (os.cpu_count() or 1) if len(parts) > 1 else 1  # to count them, the system reads a file
    threads = min(len(parts), cores, _MOST)
    if threads < 2:
        for part in parts:
            work(part)
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(cores // threads, "blas"):
        pool = ThreadPoolExecutor(threads)
        try:
            for _ in pool.map(work, parts):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
