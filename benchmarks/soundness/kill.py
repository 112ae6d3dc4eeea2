"""Kill `fairmend repair --out` with SIGKILL at random moments: the folder is always all old or all new.

    python benchmarks/soundness/kill.py [--count 200] [--replacing 1000] [--seed 0]

First `--count` repairs into an existing folder with files of the user in it: every other one is killed at a random
moment of the whole run, the others within two milliseconds of the moment in which the files are replaced. Then
`--replacing` processes that do nothing but replace a folder, half of them without the exchange of folders, as on file
systems that have none. After each kill the digest of every file is compared with the old folder and with the new one.
Prints how many were killed in which phase; exits with 1 at the first folder that is neither.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fairmend.base import folders
from fairmend.cli.main import main
from support.cli_case import Case
from support.kills import PHASES, Phase, digests, forked, kill, kill_replacing, wait, wait_until, watch

# Imported once, so that a forked repair takes a second.
IMPORTS = (
    "highspy", "onnx", "pyarrow.parquet", "torch", "fairmend.cli.repair", "fairmend.workflows.outputs",
    "fairmend.evaluate.compare", "fairmend.evaluate.repair_document", "fairmend.network.formats.onnx.file",
    "fairmend.repairing.run", "fairmend.report", "fairmend_check",
)  # fmt: skip
MINE = {"mine.txt": "mine", "notes/deep.txt": "mine too"}


class Repairs:
    """Repairs into one folder, each in a process that can be killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.case, self.rng, self.phase = Case(folder), random.Random(seed), Phase()
        self.planned = folder / "planned.json"  # the digests of the new folder, before anything is replaced
        self.run(seed)
        (self.case.out / "notes").mkdir()
        for name, text in MINE.items():
            (self.case.out / name).write_text(text)
        started = time.perf_counter()
        self.run(seed + 1)
        self.seconds = time.perf_counter() - started

    def start(self, seed: int) -> int:
        def note(stage: Path) -> None:
            self.planned.write_text(json.dumps({**digests(self.case.out), **digests(stage)}))

        def work() -> None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            watch(self.phase, note)
            main(self.case.arguments(seed=seed), prog_name="fairmend")

        self.phase.set(0)
        self.planned.write_text("null")
        return forked(work)

    def run(self, seed: int) -> None:
        os.waitpid(self.start(seed), 0)
        assert digests(self.case.out) == json.loads(self.planned.read_text()), "the repair failed"

    def kill_one(self, number: int) -> str:
        """Kill a repair, and return in which phase that was and which files are there."""
        old = digests(self.case.out)
        process = self.start(1000 + number)
        if number % 2:
            wait_until(lambda: self.phase.get() >= 1)
            wait(self.rng.uniform(0, 0.002))
        else:
            time.sleep(self.rng.uniform(0, self.seconds))
        kill(process)
        found, planned = digests(self.case.out), json.loads(self.planned.read_text())
        if found not in (old, planned):
            raise SystemExit(f"neither all old nor all new: {sorted(set(found.items()) ^ set(old.items()))}")
        return f"killed {PHASES[self.phase.get()]}: all {'old' if found == old else 'new'}"


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--replacing", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for module in IMPORTS:
        import_module(module)
    folders._YOUNG = 0  # each run deletes what the killed one left
    with tempfile.TemporaryDirectory() as folder:
        repairs = Repairs(Path(folder), arguments.seed)
        print(f"{arguments.count} repairs of {repairs.seconds:.2f} s each, killed with SIGKILL:")
        for what, times in sorted(Counter(map(repairs.kill_one, track(range(arguments.count)))).items()):
            print(f"  {times:5,}  {what}")
    for way in ("with the exchange of folders", "without it"):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{arguments.replacing // 2} processes that only replace a folder, {way}:")
            killed = kill_replacing(Path(folder), arguments.replacing // 2, arguments.seed)
            for what, times in sorted(killed.items()):
                print(f"  {times:5,}  {what}")
        folders.exchange = lambda first, second: False
    print("Every folder was all old or all new, and the other files were there.")


if __name__ == "__main__":
    run()
