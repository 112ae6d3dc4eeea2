"""Measure step 1 and step 2, compared with the paper's MILP written out (`Dual`) and with the times of the original.

    python benchmarks/speed/run.py [--large]
    python benchmarks/speed/run.py --against PATH [SETTING ...] [--rounds 5]

`--against` compares this version with another checkout instead, in one run: see against.py.

All times of fairmend are measured in this run, one setting after the other, the best of three calls. The times of the
original are those in reference/original_results.csv, from another run on two shared cores. `--large` adds problems of
1,000 to 5,000 regions.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.head.features import Linear
from fairmend.repairing.head.solve import HeadSolution, repair_head

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(1, str(Path(__file__).parents[2] / "tests"))

from benchmarks.common import settings
from benchmarks.speed.against import compare
from support.paper_milp import Dual

ORIGINAL = {"margin": 1e-6, "delta_limit": 3.0}
DUAL_SECONDS = 300.0
LARGE = [
    ("compas-race", 1000),
    ("compas-race", 2000),
    ("bank-age", 1000),
    ("bank-age", 2000),
    ("adult-race", 1000),
    ("adult-race", 5000),
]


def paper_settings(console: Console) -> None:
    table = Table(title="the paper's settings, 100 regions (seconds)")
    for heading in (
        "setting", "step 1", "original", "step 2", "Dual", "original", "whole call", "original", "times faster",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    ratios, step1_ratios, dual_ratios = [], [], []
    for name in track(settings.names(), "22 settings", console=Console(stderr=True)):
        s = settings.setting(name)
        regions = s.spec.regions(s.X_repair)
        calibrated, step1 = settings.timed(lambda s=s, regions=regions: calibrate(s.network, regions, s.X_cal, s.y_cal))
        head, step2 = settings.timed(lambda network=calibrated.network, regions=regions: ours(network, regions))
        weight, bias = calibrated.network.head.weight, calibrated.network.head.bias
        dual, dual_seconds = settings.timed(
            lambda network=calibrated.network, regions=regions, weight=weight, bias=bias: Dual.from_network(
                network, regions
            ).solve(weight, bias, **ORIGINAL)[0],
            repeat=1,
        )
        _, total = settings.timed(
            lambda s=s: fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof")
        )
        if dual.objective is None or abs(dual.objective - head.objective) > 1e-6:
            raise SystemExit(f"{name}: ours {head.objective}, Dual {dual}")
        theirs = s.original["seconds_step1"], s.original["seconds_step2_dual"]
        ratios.append(sum(theirs) / total)
        step1_ratios.append(theirs[0] / step1)
        dual_ratios.append(dual_seconds / step2)
        table.add_row(
            name, f"{step1:.3f}", f"{theirs[0]:.2f}", f"{step2:.4f}", f"{dual_seconds:.3f}", f"{theirs[1]:.2f}",
            f"{total:.3f}", f"{sum(theirs):.2f}", f"{ratios[-1]:.1f}",
        )  # fmt: skip
    console.print(table)
    for what, values in (
        ("from call to result, against the original's step 1 + step 2", ratios),
        ("step 1, against the original's", step1_ratios),
        ("step 2, against Dual in this run", dual_ratios),
    ):
        console.print(f"{what}: median {statistics.median(values):.1f} times faster, at least {min(values):.1f} times")


def ours(network: fairmend.Network, regions: object) -> HeadSolution:
    """Run all of step 2: bounds and search."""
    return repair_head(network.head.weight, network.head.bias, Linear.from_network(network, regions), **ORIGINAL)


def large(console: Console) -> None:
    table = Table(title=f"many regions: step 2 to optimality (seconds; Dual stopped at {DUAL_SECONDS:.0f})")
    for heading in ("setting", "regions", "step 1", "objective", "gap", "solves", "step 2", "Dual", "times faster"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    for name, count in LARGE:
        s = settings.setting(name)
        rows = np.random.default_rng(0).permutation(len(s.dataset.X_train))[:count]
        regions = s.spec.regions(s.dataset.X_train[rows])
        calibrated, step1 = settings.timed(
            lambda s=s, regions=regions: calibrate(s.network, regions, s.X_cal, s.y_cal), 1
        )
        head, step2 = settings.timed(lambda network=calibrated.network, regions=regions: ours(network, regions))
        dual_text, ratio = "not tried", ""
        if name != "adult-race":
            weight, bias = calibrated.network.head.weight, calibrated.network.head.bias
            started = time.perf_counter()
            dual, _, _ = Dual.from_network(calibrated.network, regions).solve(
                weight, bias, **ORIGINAL, time_limit=DUAL_SECONDS
            )
            seconds = time.perf_counter() - started
            agrees = dual.objective is not None and abs(dual.objective - head.objective) < 1e-6
            dual_text = f"{seconds:.2f} ({'same optimum' if agrees else dual.status.value})"
            ratio = f"{seconds / step2:.0f}"
        table.add_row(
            name, f"{count}", f"{step1:.2f}", f"{head.objective:.6f}", f"{head.gap:.2g}", f"{head.solves}",
            f"{step2:.3f}", dual_text, ratio,
        )  # fmt: skip
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SETTING", help="with --against; default: every setting")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout of fairmend")
    parser.add_argument("--rounds", type=int, default=5, help="with --against; default: 5")
    arguments = parser.parse_args()
    if arguments.against is not None:
        return compare(arguments.against, arguments.names or settings.names(), arguments.rounds)
    if arguments.names:
        parser.error("settings are chosen with --against only")
    out = Console(width=max(Console().width, 120))
    paper_settings(out)
    if arguments.large:
        large(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
