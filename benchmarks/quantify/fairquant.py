"""FairQuant's search, to compare with: `fairquant.c`, compiled here, or the program of its authors."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairmend.network import Network
from fairmend.spec import Spec

SOURCE = Path(__file__).with_name("fairquant.c")
DEEPEST = 20  # of FairQuant's own search
_RATES = re.compile(r"cer_rate: ([0-9.]+)%, fal_rate: ([0-9.]+)%, und_rate: ([0-9.]+)%(?:.*seconds: ([0-9.]+))?")


@dataclass(frozen=True)
class Found:
    """What a run of FairQuant decides, in per cent, and its CPU seconds."""

    fair: float
    unfair: float
    undecided: float
    seconds: float


@contextmanager
def program(path: Path | None) -> Iterator[Path]:
    """Return the program to run: this one, or `fairquant.c`, compiled for as long as it is needed."""
    if path is not None:
        yield path.resolve()
        return
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("there is no C compiler (cc) to compile fairquant.c with; give the path of a program to --fairquant")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "fairquant"
        # With -O3 it is faster than with -O2, so that quantify has less time in the comparison.
        subprocess.run([compiler, "-O3", "-frounding-math", "-o", made, SOURCE, "-lm"], check=True)
        yield made


class FairQuant:
    """Runs of FairQuant on one network; ``own`` is how the authors run it: to its own end, 20 levels deep."""

    def __init__(self, network: Network, spec: Spec, path: Path, *, ours: bool) -> None:
        self._network, self._spec, self._path, self._ours = network, spec, path, ours
        self.own = self._run()

    def stopped(self, seconds: float) -> Found:
        """Return what its own search decides if it is stopped after so many CPU seconds."""
        return self._run(DEEPEST, seconds) if self._ours and seconds < self.own.seconds else self.own

    def within(self, seconds: float) -> Found:
        """Return the most that it decides in so many CPU seconds, with any limit of depth.

        It is stopped when the time is over, and what is decided by then counts. The best limit of depth is chosen
        with hindsight, which favours FairQuant. The authors' program takes no such limits: its own end is returned.
        """
        if not self._ours:
            return self.own
        best, depth = self.stopped(seconds), DEEPEST
        step = 1 if self.own.seconds <= seconds else -1
        while 0 < depth + step <= 60 and best.undecided > 0:
            depth += step
            found = self._run(depth, seconds)
            ended = found.seconds < seconds
            unchanged = found.undecided == best.undecided
            best = min(best, found, key=lambda each: each.undecided)
            if ended == (step < 0) or unchanged:
                break
        return best

    def _run(self, *limits: float) -> Found:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.nnet"
            write_nnet(self._network, self._spec, path)
            (Path(folder) / "res").mkdir()  # where the authors' program writes
            protected = next(k for k, feature in enumerate(self._spec.features) if feature.protected)
            command = [self._path, path, str(protected), *map(str, limits)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rates = _RATES.search(done.stdout)
        if rates is None:
            sys.exit(f"{self._path} did not print its rates: {done.stdout[:200]}")
        process = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds = process if rates[4] is None else float(rates[4])  # without reading the file, where it says so
        return Found(float(rates[1]), float(rates[2]), float(rates[3]), seconds)


def write_nnet(network: Network, spec: Spec, path: Path) -> None:
    """Write a .nnet file with the ranges of the spec in its header, where FairQuant reads them."""
    network.save(path)
    lines = path.read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if not line.startswith("//")) + 3
    low, high = (np.array([feature.bounds[end] for feature in spec.features], np.float64) for end in (0, 1))
    rows = (low, high, np.append(low, 0.0), np.append(high - low, 1.0))
    lines[start : start + 4] = ["".join(f"{value!r}," for value in row.tolist()) for row in rows]
    path.write_text("\n".join(lines) + "\n")
