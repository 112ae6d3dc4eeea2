"""Compare the speed of two versions of fairmend in one run: this one, and another checkout.

    python benchmarks/speed/run.py --against PATH [SETTING ...] [--rounds 5]

Each version has a process of its own, with one thread. They take turns, call by call, and their processor time counts,
so other programs on the machine hardly matter. Settings are read by the benchmarks of each checkout. A ratio is the
median over the rounds of (this version / the other one); below 1, this version is faster.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).resolve()
LIMIT = 1.10
"""The largest ratio of a median over the settings that is no slowdown."""

IMPORTS = {
    "import fairmend": "import fairmend",
    "import fairmend.network": "import fairmend.network",
    "fairmend --help": "import sys; sys.argv = ['fairmend', '--help']; from fairmend.cli.main import main; main()",
}
Measure = Callable[[], float]


def cases(name: str) -> dict[str, Callable[[], object]]:
    """Return what is measured for a setting, by its heading."""
    import fairmend
    from benchmarks.common import settings

    s = settings.setting(name)
    found: dict[str, Callable[[], object]] = {
        method: lambda method=method: fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method=method)
        for method in ("prof", "auto")
    }
    found |= {
        "certify": lambda: fairmend.certify(s.network, s.spec, s.X_repair, "branch"),
    }
    try:
        from fairmend.prove.proof import prove_inputs
        from fairmend.repairing.calibrate import calibrate
        from fairmend.repairing.head.features import Linear
        from fairmend.repairing.head.solve import repair_head
    except ImportError:
        return found

    regions = s.spec.regions(s.X_repair)
    calibrated = calibrate(s.network, regions, s.X_cal, s.y_cal).network
    weight, bias = calibrated.head.weight, calibrated.head.bias

    def step2() -> object:
        features = Linear.from_network(calibrated, regions)
        return repair_head(weight, bias, features, margin=1e-6, delta_limit=3.0)

    return found | {
        "step 1": lambda: calibrate(s.network, regions, s.X_cal, s.y_cal),
        "step 2": step2,
        "proof of 1 input": lambda: [prove_inputs(s.network, s.spec, s.X_repair[:1]) for _ in range(20)],
        "proof of all inputs": lambda: [prove_inputs(s.network, s.spec, s.X_repair) for _ in range(5)],
    }


def work() -> None:
    """Answer each setting on standard input with its headings, and each heading with its processor seconds."""
    found: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        word = line.rstrip("\n")
        if word in found:
            started = time.process_time()
            found[word]()
            print(json.dumps(time.process_time() - started), flush=True)
        else:
            found = cases(word)
            print(json.dumps(list(found)), flush=True)


class Version:
    """A version of fairmend, ``source`` being the folder that holds its package, and its process."""

    def __init__(self, source: Path) -> None:
        paths = os.pathsep.join((str(source), str(source.parent)))  # its own settings, if it has them
        self.environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run the process that measures."""
        command = [sys.executable, str(HERE), "--work"]
        with subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.process = process
            try:
                yield
            finally:
                process.kill()

    def ask(self, word: str) -> list[str] | float:
        """Send a word to the process; return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.environment['PYTHONPATH']}: {word} failed")
        found: list[str] | float = json.loads(answer)
        return found

    def start_up(self, code: str) -> float:
        """Return the processor seconds of a fresh process."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], env=self.environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def find_source(path: Path) -> Path:
    """Return the folder of a checkout that holds the package."""
    for folder in (path / "src", path):
        if (folder / "fairmend" / "__init__.py").is_file():
            return folder.resolve()
    raise SystemExit(f"{path} holds no checkout of fairmend")


def compare(other: Path, names: list[str], rounds: int) -> int:
    """Print the ratios of each setting, and return 1 if a median over the settings is above the limit."""
    versions = Version(HERE.parents[2] / "src"), Version(find_source(other))
    console = Console(width=max(Console().width, 120))
    rows: dict[str, dict[str, float]] = {}
    with versions[0].started(), versions[1].started():
        for name in track(names, f"{len(names)} settings", console=Console(stderr=True)):
            here, there = (version.ask(name) for version in versions)
            left_out = [heading for heading in here if heading not in there]
            rows[name] = {
                heading: ratio([lambda v=v, h=heading: v.ask(h) for v in versions], rounds)
                for heading in here
                if heading in there
            }
    table = Table(title=f"processor time against {other}, ratios")
    headings = list(next(iter(rows.values())))
    for heading in ("setting", *headings):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    for name, row in rows.items():
        table.add_row(name, *(f"{row[heading]:.2f}" for heading in headings))
    medians = {heading: statistics.median(row[heading] for row in rows.values()) for heading in headings}
    table.add_section()
    table.add_row("median", *(f"{medians[heading]:.2f}" for heading in headings))
    console.print(table)
    if left_out:
        console.print(f"the other version has other functions for: {', '.join(left_out)}")
    for heading, code in IMPORTS.items():
        medians[heading] = ratio([lambda v=v, c=code: v.start_up(c) for v in versions], max(15, 3 * rounds))
        console.print(f"{heading}: {medians[heading]:.2f}")
    slower = [heading for heading, found in medians.items() if found > LIMIT]
    console.print(f"more than {LIMIT:g} times the other version: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


def ratio(measures: list[Measure], rounds: int) -> float:
    """Return the median ratio of the two over the rounds, after one that warms up; they take turns in going first."""
    for measure in measures:
        measure()
    found = []
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        seconds = {place: measures[place]() for place in order}
        found.append(seconds[0] / seconds[1])
    return statistics.median(found)


if __name__ == "__main__" and sys.argv[1:] == ["--work"]:
    work()
