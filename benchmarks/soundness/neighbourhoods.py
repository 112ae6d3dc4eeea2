"""Compare neighbourhoods as fairmend and the checker read them, for random specs and random people.

    python benchmarks/soundness/neighbourhoods.py [--count 1000000] [--seed 0] [--processes N]

Specs of every kind, with bands, and with scales whose mean is far above the standard deviation; people encoded by the
spec, scaled elsewhere in float32, off by some units in the last place, or at the edges of bands; float32 and float64.
For each person: the same inputs are refused, the points listed for `audit`, for the engines of `certify` and by the
checker are the same, so are their counts, random neighbours are among them, and the boxes of a certificate are exactly
the documented ones and cover all.
Prints what was compared; stops at the first difference and exits with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.neighbourhood_cases import Tally, compare_case

PEOPLE = 40  # of each spec


def compare_specs(task: tuple[int, int, int]) -> Tally:
    """Compare the people of some specs; the numbers are a seed, the first spec and the number of specs."""
    seed, first, specs = task
    tally = Tally()
    for number in range(first, first + specs):
        tally.add(compare_case(np.random.default_rng([seed, number]), PEOPLE))
    return tally


def tasks(seed: int, specs: int, step: int = 50) -> Iterator[tuple[int, int, int]]:
    yield from ((seed, first, min(step, specs - first)) for first in range(0, specs, step))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="people, refused ones included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    started, total = time.perf_counter(), Tally()
    specs = -(-args.count // PEOPLE)
    with Pool(args.processes) as pool:
        try:
            for number, tally in enumerate(pool.imap_unordered(compare_specs, tasks(args.seed, specs)), 1):
                total.add(tally)
                if number % 50 == 0:
                    print(f"{total.people + total.refused:,} of {args.count:,} people", file=sys.stderr, flush=True)
        except AssertionError as error:
            print(f"DIFFERENCE: {error}")
            return 1
    print(f"{total.people:,} people compared, {total.refused:,} refused by both, in {specs:,} specs")
    print(f"{total.apart:,} people with own bits apart from every e(v)")
    print(f"{total.points:,} points and {total.boxes:,} boxes compared")
    print(f"no difference, {time.perf_counter() - started:.0f} s with {args.processes} processes, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
