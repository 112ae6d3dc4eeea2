"""Compute parts of a batch side by side."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_MOST = 8  # threads, each with arrays of its own


def in_threads(compute: Callable[[slice], None], count: int, step: int) -> None:
    """Call ``compute`` for slices of at most ``step`` out of ``count``; an error in one of them is raised."""
    parts = [slice(start, start + step) for start in range(0, count, step)]
    threads = min(len(parts), os.cpu_count() or 1, _MOST)
    if threads < 2:
        for part in parts:
            compute(part)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for _ in pool.map(compute, parts):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
