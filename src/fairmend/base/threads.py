"""Threads: how many a matrix product takes, and reading ahead in another one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Generic, TypeVar

# Read and encode the next people while the last ones are audited: reading takes one core, the audit the other.


T = TypeVar("T")

_AHEAD = 1  # items that may wait
_PATIENCE = 0.1  # seconds after which the reader looks whether it is still needed


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, of which a second thread prepares the next ones; an error is raised in its place."""
    reader = _Reader(items)
    reader.start()
    try:
        while True:
            item, error, ended = reader.ready.get()
            if error is not None:
                raise error
            if ended:
                return
            yield from item
            reader.room.release()
    finally:
        reader.stopped.set()
        reader.join()


class _Reader(Thread, Generic[T]):
    """Puts items into `ready` while there is room: each a list of one item, an error, and whether it is the end."""

    def __init__(self, items: Iterable[T]) -> None:
        super().__init__(name="read ahead", daemon=True)
        self._items = items
        self.ready: SimpleQueue[tuple[list[T], BaseException | None, bool]] = SimpleQueue()
        self.room, self.stopped = Semaphore(_AHEAD), Event()

    def run(self) -> None:
        """Read until the end, an error, or until nobody wants more."""
        try:
            for item in self._items:
                while not self.room.acquire(timeout=_PATIENCE):
                    if self.stopped.is_set():
                        return
                self.ready.put(([item], None, False))
            self.ready.put(([], None, True))
        except BaseException as error:  # raised again by the thread that asks for the item
            self.ready.put(([], error, False))


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


@contextmanager
def few_product_threads(work: int) -> Iterator[None]:
    """Do NumPy's matrix products on one thread inside the ``with`` block, unless they have much ``work`` each."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if work < _SMALL else None, "blas"):
        yield


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
