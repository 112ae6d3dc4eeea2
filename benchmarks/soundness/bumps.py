"""Attack every engine of `certify` with planted bumps, on each of which FAIR is known to be wrong.

    python benchmarks/soundness/bumps.py [--count 20000] [--seed 0] [--jobs N] [--time-limit 2] [--state bumps.json]
        [--engines milp,branch,enumerate]

Each bump is a network that predicts one class but for a narrow bump of a logit in one person's neighbourhood; its
planted counterfactual has another class in exact arithmetic (tests/support/bumps.py). Prints how often each engine says
what, and exits with 1 if one says FAIR, or UNFAIR with a pair whose classes are equal in exact arithmetic. With
--state, a run that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import fairmend
from fairmend.base.files import write_text

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.bumps import exact_class, plant_bump

CHUNK = 50
MOST_POINTS = 20_000  # of a neighbourhood, for engine enumerate


def attack(job: tuple[int, int, int, float, str]) -> tuple[int, dict[str, Any]]:
    """Run all engines on a chunk of bumps; return the counts by engine and verdict, and every wrong verdict."""
    seed, chunk, count, time_limit, engines = job
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(chunk * CHUNK, chunk * CHUNK + count):
        bump = plant_bump(np.random.default_rng([seed, number]))
        small = bump.spec.finite and int(bump.spec.neighbourhood_sizes(bump.x[None])[0]) <= MOST_POINTS
        for engine in engines.split(","):
            if engine == "enumerate" and not small:
                continue
            result = fairmend.certify(bump.network, bump.spec, bump.x[None], engine, time_limit=time_limit)
            verdict, witness = result.verdicts[0].value, result.witnesses[0]
            tie = "-tie" if witness is not None and witness.tie else ""
            verdicts[f"{engine} {bump.kind} {verdict}{tie}"] += 1
            if verdict == "fair":
                wrong.append(f"{engine} says FAIR of bump {number} ({bump.kind}, seed {seed})")
            if witness is not None and exact_class(bump.network, witness.other) == exact_class(bump.network, bump.x):
                wrong.append(f"{engine} has a witness of bump {number} whose classes are equal (seed {seed})")
    return chunk, {"verdicts": dict(verdicts), "wrong": wrong}


def read_state(path: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    if path is None or not path.exists():
        return {"settings": settings, "chunks": {}}
    state: dict[str, Any] = json.loads(path.read_text())
    if state["settings"] != settings:
        sys.exit(f"{path} is of a run with {state['settings']}, not {settings}; choose another file")
    return state


def show(state: dict[str, Any], console: Console) -> int:
    """Print the counts and every wrong verdict; return how many are wrong."""
    total: Counter[str] = Counter()
    wrong: list[str] = []
    for chunk in state["chunks"].values():
        total.update(chunk["verdicts"])
        wrong += chunk["wrong"]
    columns = ("fair", "unfair", "unfair-tie", "unknown")
    table = Table("engine", "bump", *columns)
    for engine, kind in dict.fromkeys(tuple(key.split()[:2]) for key in sorted(total)):
        table.add_row(engine, kind, *(f"{total[f'{engine} {kind} {verdict}']:,}" for verdict in columns))
    console.print(table)
    for line in wrong:
        console.print(f"[bold red]WRONG[/]: {line}")
    bumps = max(sum(number for key, number in total.items() if key.startswith(e)) for e in ("milp", "branch"))
    console.print(f"{bumps:,} planted bumps, {len(wrong)} wrong verdicts")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time-limit", type=float, default=2.0, help="seconds for one verdict")
    parser.add_argument("--engines", default="milp,branch,enumerate", help="separated by commas")
    parser.add_argument("--state", type=Path, help="a JSON file with what is done so far")
    options = parser.parse_args()
    state = read_state(
        options.state, {"seed": options.seed, "time_limit": options.time_limit, "engines": options.engines}
    )
    jobs = [
        (options.seed, chunk, min(CHUNK, options.count - chunk * CHUNK), options.time_limit, options.engines)
        for chunk in range(-(-options.count // CHUNK))
        if str(chunk) not in state["chunks"]
    ]
    os.environ["OMP_NUM_THREADS"] = "1"  # one process for each core
    with get_context("spawn").Pool(options.jobs) as pool, Progress(console=Console(stderr=True)) as bars:
        for chunk, found in bars.track(pool.imap_unordered(attack, jobs), total=len(jobs), description="bumps"):
            state["chunks"][str(chunk)] = found
            if options.state is not None:
                write_text(options.state, json.dumps(state))
    return 1 if show(state, Console()) else 0


if __name__ == "__main__":
    sys.exit(main())
