"""Run independent chunks of work on all cores, and resume where an earlier run stopped.

A chunk has a name and arguments, and gives a result that can be written as JSON. Results are kept in a state file with
a digest of the code that they depend on: a chunk that was run with other code is run again. A worker that ends, or that
works on one item for too long, is replaced; its chunk is run again and is told which item to leave out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
POLL_S = 0.5
START_S = 300.0  # importing takes long on a busy machine

Result = dict[str, Any]
Tell = Callable[[int, int], None]  # (item, phase)


@dataclass(frozen=True)
class Chunk:
    """A part of the work: its name in the state file, and the arguments for the function that does it.

    ``stopped`` are items that stopped a worker before, each with its phase at that time and the reason (hang or crash).
    """

    name: str
    arguments: tuple[Any, ...]
    stopped: dict[int, tuple[int, str]] = field(default_factory=dict)


Work = Callable[[Chunk, Tell], Result]


def digest_of(*folders: str) -> str:
    """Return a digest of the Python code in these folders or files of the repository."""
    digest = hashlib.sha256()
    for folder in folders:
        start = ROOT / folder
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()[:16]


class State:
    """Results of chunks, kept in a file if there is one."""

    def __init__(self, path: Path | None, code: str) -> None:
        self.path, self.code = path, code
        self.results: dict[str, Result] = {}
        if path is not None and path.exists():
            stored = json.loads(path.read_text())
            self.results = {name: result for name, result in stored.items() if result["code"] == code}

    def add(self, name: str, result: Result) -> None:
        self.results[name] = {"code": self.code, **result}
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_suffix(".new")
            temporary.write_text(json.dumps(self.results))
            os.replace(temporary, self.path)


class Worker:
    """A process that runs one chunk after the other and says which item it works on."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        self.item = context.Array("q", [-1, 0], lock=False)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(work, theirs, self.item), daemon=True)
        with one_thread():
            self.process.start()
        theirs.close()
        self.chunk: Chunk | None = None

    def start(self, chunk: Chunk) -> None:
        self.chunk, self.seen, self.since = chunk, (-1, 0), time.monotonic()
        self.item[:] = [-1, 0]
        self.connection.send(chunk)

    def seconds(self) -> float:
        """How long it has been working on the same item."""
        now = (self.item[0], self.item[1])
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        return time.monotonic() - self.since

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Set the environment of a new process so that it computes with one thread."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def serve(work: Work, connection: Connection, item: Any) -> None:
    """Run chunks until the connection closes. Ctrl-C is for the parent, which stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def tell(number: int, phase: int) -> None:
        item[0], item[1] = number, phase

    while True:
        try:
            chunk = connection.recv()
        except EOFError:
            return
        try:
            connection.send((work(chunk, tell), None))
        except Exception:
            connection.send((None, traceback.format_exc()))


def run_chunks(
    work: Work,
    chunks: Iterable[Chunk],
    state: State,
    *,
    workers: int,
    limits: dict[int, float],
    done: Callable[[str], None],
) -> None:
    """Run all chunks that the state does not hold. Ctrl-C and SIGTERM stop it with KeyboardInterrupt.

    Parameters
    ----------
    work : a function of a module, called in other processes with the chunk and a function that it tells (item, phase)
    limits : the most seconds that an item may take, by phase
    done : called with the name of each chunk that is finished
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a process in the background ignores Ctrl-C otherwise
        signal.signal(number, signal.default_int_handler)
    waiting = [chunk for chunk in chunks if chunk.name not in state.results][::-1]
    pool = [Worker(work) for _ in range(min(workers, len(waiting)))]
    try:
        for worker in pool:
            worker.start(waiting.pop())
        while any(worker.chunk for worker in pool):
            wait(
                [end for worker in pool if worker.chunk for end in (worker.connection, worker.process.sentinel)], POLL_S
            )
            for place, worker in enumerate(pool):
                if worker.chunk is None:
                    continue
                chunk: Chunk | None = worker.chunk
                if worker.connection.poll():
                    try:
                        result, error = worker.connection.recv()
                    except EOFError:
                        result = error = None
                    if error is not None:
                        raise RuntimeError(f"chunk {worker.chunk.name} failed:\n{error}")
                    if result is not None:
                        state.add(worker.chunk.name, result)
                        done(worker.chunk.name)
                        worker.chunk, chunk = None, waiting.pop() if waiting else None
                        if chunk is not None:
                            worker.start(chunk)
                        continue
                slow = worker.seconds() > (START_S if worker.seen[0] < 0 else limits[worker.seen[1]])
                if slow or not worker.process.is_alive():
                    pool[place] = replaced(worker, work, "hang" if slow else "crash")
    finally:
        for worker in pool:
            worker.stop()


def replaced(worker: Worker, work: Work, reason: str) -> Worker:
    """Return a new worker on the same chunk, which leaves out the item that stopped the old one."""
    item, phase = worker.item[0], worker.item[1]
    worker.stop()
    chunk = worker.chunk
    assert chunk is not None
    if item in chunk.stopped or item < 0:
        raise RuntimeError(f"chunk {chunk.name}: a worker stopped ({reason}) outside of an item that can be left out")
    new = Worker(work)
    new.start(replace(chunk, stopped={**chunk.stopped, item: (phase, reason)}))
    return new


def run_and_show(
    work: Work,
    todo: Sequence[Chunk],
    show: Callable[[list[Result], Console], int],
    options: argparse.Namespace,
    code: Iterable[str],
    limits: dict[int, float],
    console: Console,
) -> int:
    """Run chunks with a progress bar, show what they found, and return the exit code.

    ``options`` have the file of the ``state`` and the number of ``workers``; ``code`` is what results depend on.
    """
    state, stopped = State(options.state, digest_of(*code)), False
    columns = (*Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("chunks", total=len(todo), completed=sum(chunk.name in state.results for chunk in todo))
        try:
            run_chunks(work, todo, state, workers=options.workers, limits=limits, done=lambda _: bars.advance(bar))
        except KeyboardInterrupt:
            stopped = True
    found = show([state.results[chunk.name] for chunk in todo if chunk.name in state.results], console)
    return exit_code(found, stopped=stopped, resumable=options.state is not None, console=console)


def exit_code(found: int, *, stopped: bool, resumable: bool, console: Console) -> int:
    """Return the exit code of a run with this many findings; say how to continue one that was stopped."""
    if stopped:
        console.print("Stopped. Run the same command again to continue." if resumable else "Stopped.")
        return 130
    return 1 if found else 0
