"""Measure forward evaluations per second of `fairmend.audit` on AC1, compared with the network on the same points.

    python benchmarks/scale/audit.py

Both ways must count the same people, or the script stops. The time is that of the whole call: checks, scores,
undecided people again, worst pairs. The script then measures the peak memory of a process that audits a stream of two
million rows. It exits with 1 below 10 million evaluations per second, or above 500 MB.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import fairmend
from fairmend.auditing.fast_scores import FastScores
from fairmend.auditing.neighbours import find_unequal

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

NAMES = ("adult-age", "adult-race+age")
WANTED, MEMORY = 10e6, 500.0
ROWS, CHUNK = 2_000_000, 100_000


def speed(console: Console) -> float:
    table = Table(title="AC1 (13 → 16 → 8 → 1) on 45,222 people: million evaluations a second")
    for heading in ("setting", "points each", "unequal", "scores alone", "audit", "net.predict", "times faster"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    least = float("inf")
    for name in NAMES:
        s = settings.setting(name)
        X = s.everyone.astype(s.network.dtype)
        points = int(s.spec.neighbourhood_sizes(X).sum())
        scores = FastScores(s.network, s.spec)
        _, alone = settings.timed(lambda scores=scores, X=X: scores.extremes(X))
        ours, audit = settings.timed(lambda s=s, X=X: fairmend.audit(s.network, s.spec, X))
        plain, predict = settings.timed(lambda s=s, X=X: find_unequal(s.network, s.spec, X), repeat=2)
        if ours.count != plain.count:
            raise SystemExit(f"{name}: audit counts {ours.count}, enumeration {plain.count}")
        least = min(least, points / audit)
        table.add_row(
            name,
            f"{points // len(X)}",
            f"{ours.count:,}",
            *(f"{points / seconds / 1e6:.1f}" for seconds in (alone, audit, predict)),
            f"{predict / audit:.1f}",
        )
    console.print(table)
    return least


def stream() -> Iterator[np.ndarray]:
    s = settings.setting(NAMES[0])
    rng = np.random.default_rng(0)
    for _ in range(ROWS // CHUNK):
        yield s.spec.sample_inputs(CHUNK, rng)


def main() -> int:
    if settings.parse_arguments(__doc__, "stream", positional=None).stream:  # the process whose memory is measured
        s = settings.setting(NAMES[0])
        result = fairmend.audit(s.network, s.spec, stream())
        print(result.total, result.seconds, settings.peak_megabytes())
        return 0
    console = Console(width=max(Console().width, 110))
    least = speed(console)
    done = subprocess.run([sys.executable, __file__, "--stream"], capture_output=True, text=True, check=True)
    rows, seconds, megabytes = (float(word) for word in done.stdout.split())
    console.print(f"a stream of {rows:,.0f} rows: {seconds:.1f} s, peak memory {megabytes:.0f} MB, limit {MEMORY:.0f}")
    good = least >= WANTED and megabytes < MEMORY
    console.print(f"least {least / 1e6:.1f} million a second, wanted {WANTED / 1e6:.0f}: {'ok' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
