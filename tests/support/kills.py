"""Processes that replace a folder and are killed with SIGKILL at random moments; what they leave is all old or all new.

It forks, so it needs a process of its own: ``python -m support.kills FOLDER COUNT SEED [no-exchange]``.
"""

import hashlib
import json
import mmap
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fairmend.base import folders
from fairmend.base.folders import staged_folder

NAMES = ["certificate.json", "model.onnx", "report.html", "result.json", "spec.toml"]
PHASES = ["before the replacing", "before the exchange", "after the exchange", "after the replacing"]


def digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder, by its path, links included."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() or path.is_symlink():
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


class Phase:
    """What a forked process is doing, in memory that it shares with its parent."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 1)

    def get(self) -> int:
        return self.memory[0]

    def set(self, phase: int) -> None:
        self.memory[0] = phase


def watch(phase: Phase, before_replacing: Callable[[Path], None] = lambda _: None) -> None:
    """Let this process say when it replaces a folder, and call a function with the finished stage before."""
    publish, swap = folders._publish, folders._swap

    def _publish(stage, folder, without):
        before_replacing(stage)
        phase.set(1)
        publish(stage, folder, without)
        phase.set(3)

    def _swap(stage, folder):
        old = swap(stage, folder)
        phase.set(2)
        return old

    folders._publish, folders._swap = _publish, _swap
    os.fsync = lambda _: None  # a killed process loses nothing that it has written; only the power does


def forked(work: Callable[[], None]) -> int:
    """Start a process that does the work, and return its id."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(0)
    return process


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait without sleeping, which would take longer than what it waits for."""
    last = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < last, "the process did not replace the folder"


def wait(seconds: float) -> None:
    end = time.perf_counter() + seconds
    wait_until(lambda: time.perf_counter() >= end)


def write_version(stage: Path, version: int) -> None:
    for name in NAMES:
        (stage / name).write_text(f"{version} {name}\n" * 50)


def version_of(folder: Path) -> int:
    """Return the version that every file has; fail if there are two."""
    texts = {name: (folder / name).read_text() for name in NAMES}
    versions = {int(text.split()[0]) for text in texts.values()}
    assert len(versions) == 1, f"mixed: {versions}"
    (version,) = versions
    assert all(text == f"{version} {name}\n" * 50 for name, text in texts.items()), "a file is not complete"
    return version


def kill_replacing(folder: Path, count: int, seed: int) -> Counter:
    """Kill processes that do nothing but replace a folder; return how many were killed in which phase."""
    out, rng, phase, killed = folder / "out", random.Random(seed), Phase(), Counter()
    with staged_folder(out) as stage:
        write_version(stage, 0)
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("mine")
    (out / "link").symlink_to("notes")
    others = {name: digest for name, digest in digests(out).items() if name not in NAMES}
    folders._YOUNG = 0  # the next process deletes what the killed one left

    for number in range(count):

        def work(first: int = 1000 * number) -> None:
            watch(phase)
            for version in range(first, first + 1000):
                with staged_folder(out) as stage:
                    write_version(stage, version)

        phase.set(0)
        process = forked(work)
        time.sleep(rng.uniform(0.005, 0.03))
        if number % 2:  # close to the exchange
            wait_until(lambda: phase.get() in (1, 2))
            wait(rng.uniform(0, 0.001))
        kill(process)
        killed[PHASES[phase.get()]] += 1
        if not out.exists():  # only without an exchange: the next run puts it back
            killed["missing until the next run"] += 1
            folders._put_back(out)
        version_of(out)
        left = {name: digest for name, digest in digests(out).items() if name not in NAMES}
        assert left == others, f"other files changed: {left}"
    with staged_folder(out) as stage:
        write_version(stage, -1)
    hidden = [path.name for path in folder.glob(".fairmend-*")]
    assert not hidden, f"left behind: {hidden}"
    return killed


if __name__ == "__main__":
    if "no-exchange" in sys.argv:
        folders.exchange = lambda first, second: False
    counts = kill_replacing(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(counts) + "\n")
