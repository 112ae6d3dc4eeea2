"""Measure how long `certify` takes for the 100 repair inputs of each setting, with branch and bound and with the MILP.

    python benchmarks/speed/certify.py [--quick] [SETTING ...]

Measures the original network and the one that `prof` repaired. Every figure is the best of three calls, all in this
run. "bounds only" is branch without enumerating the points of small boxes, as if every column were continuous. All
engines must return the same verdicts; CUR must be that of reference/original_results.csv before the repair, and 0 after
it. Exits with 1 if not, or if branch is not 20 times faster than the MILP in the median.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend.prove.engines import branch
from fairmend.prove.result import CertifyResult

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

QUICK = ["compas-race+age", "adult-age", "adult-race+age", "german-sex-G1", "bank-age-B1"]
AIM = 20.0
LEAF = branch._LEAF


def timed(s: settings.Setting, network: fairmend.Network, engine: str, leaf: int = LEAF) -> tuple[CertifyResult, float]:
    branch._LEAF = leaf
    try:
        return settings.timed(lambda: fairmend.certify(network, s.spec, s.X_repair, engine))
    finally:
        branch._LEAF = LEAF


def main() -> int:
    arguments = settings.parse_arguments(__doc__, "quick")
    chosen = arguments.names or (QUICK if arguments.quick else settings.names())
    console = Console(width=max(Console().width, 130))
    table = Table(title="certify the 100 repair inputs (milliseconds; FAIR / UNFAIR / UNKNOWN)")
    for heading in (
        "setting", "network", "verdicts", "CUR %", "enumerate", "branch", "bounds only", "milp", "milp / branch",
        "milp / bounds only",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading in ("setting", "network") else "right")
    ratios: dict[str, list[float]] = {"original": [], "repaired": [], "bounds only": []}
    wrong: list[str] = []
    for name in track(chosen, "settings", console=Console(stderr=True)):
        s = settings.setting(name)
        repaired = fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof").network
        for which, network, expected in (("original", s.network, s.original["orig_cur"]), ("repaired", repaired, 0.0)):
            runs = [timed(s, network, engine) for engine in ("enumerate", "branch", "milp")]
            runs.insert(2, timed(s, network, "branch", leaf=1))
            (report, points), (_, boxes), (_, bounds), (_, milp) = runs
            if any(other.verdicts != report.verdicts for other, _ in runs):
                wrong.append(f"{name}, {which}: the engines disagree: {[other.counts for other, _ in runs]}")
            if abs(100 * report.unfair_rate - expected) > 1e-9:
                wrong.append(f"{name}, {which}: CUR {100 * report.unfair_rate:g}, expected {expected:g}")
            ratios[which].append(milp / boxes)
            ratios["bounds only"].append(milp / bounds)
            table.add_row(
                name,
                which,
                " / ".join(str(count) for count in report.counts.values()),
                f"{100 * report.unfair_rate:g} / {expected:g}",
                *(f"{1000 * seconds:.1f}" for seconds in (points, boxes, bounds, milp)),
                f"{milp / boxes:.0f}",
                f"{milp / bounds:.0f}",
            )
    console.print(table)
    for what, values in ratios.items():
        console.print(f"{what}: branch is {statistics.median(values):.0f} times faster than milp in the median, at least {min(values):.0f} times")  # fmt: skip  # noqa: E501
    for line in wrong:
        console.print(f"WRONG: {line}")
    slow = min(statistics.median(values) for values in ratios.values()) < AIM
    return 1 if wrong or slow else 0


if __name__ == "__main__":
    sys.exit(main())
