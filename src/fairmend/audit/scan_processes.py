"""Scan blocks of inputs in several processes: the results come in order, and are those of one process.

What a block gives depends on the block and its task alone, never on the process or on what that has scanned before.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import ScanResult
from fairmend.audit.planned_scan import PlannedScan, ScanTask
from fairmend.errors import FairmendError

__all__ = ["scan_blocks"]

_scanner: PlannedScan | None = None  # of a worker: each process has one


def scan_blocks(
    scanner: PlannedScan, blocks: Iterator[FloatArray], jobs: int = 1
) -> Iterator[tuple[FloatArray, ScanResult]]:
    """Yield each block (inputs, width) with what the scan finds, in order; a single block needs no other process."""
    start = list(islice(blocks, 2))
    tasks = scanner.tasks(chain(start, blocks))
    if jobs == 1 or len(start) == 1:
        yield from ((task.X, scanner.scan(task)) for task in tasks)
    else:
        yield from _scan_in_processes(scanner, tasks, jobs)


def _scan_in_processes(
    scanner: PlannedScan, tasks: Iterator[ScanTask], jobs: int
) -> Iterator[tuple[FloatArray, ScanResult]]:
    waiting: deque[tuple[ScanTask, Future[ScanResult]]] = deque()
    with TemporaryDirectory() as folder:
        # In a file: Python waits forever for a process that ends before it has read large arguments.
        file = Path(folder) / "scan"
        file.write_bytes(pickle.dumps(scanner.without_progress()))
        # A forked process would inherit locks that the threads of this one hold.
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start, initargs=(str(file),))
        try:
            for task in tasks:
                waiting.append((task, pool.submit(_scan, task)))
                if len(waiting) > jobs:
                    yield _finish(*waiting.popleft())
            while waiting:
                yield _finish(*waiting.popleft())
        except BrokenProcessPool as error:
            raise FairmendError(
                "a process of the audit ended before its work was done; pass fewer jobs if memory is short, and in a "
                'script of your own call audit under `if __name__ == "__main__":`'
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _finish(task: ScanTask, future: Future[ScanResult]) -> tuple[FloatArray, ScanResult]:
    return task.X, future.result()


def _start(file: str) -> None:
    global _scanner  # what a process keeps between its tasks
    _scanner = pickle.loads(Path(file).read_bytes())  # written by the process that started this one


def _scan(task: ScanTask) -> ScanResult:
    assert _scanner is not None
    return _scanner.scan(task)
