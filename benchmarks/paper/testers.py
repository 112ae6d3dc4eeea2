"""The paper's table of fairness testers: IDIs on the repaired network over IDIs on the original one (RQ3).

    python benchmarks/paper/testers.py [--quick] [SETTING ...]

For each of the 16 strict settings and each tester: how many IDIs it finds on the original network and on the one that
`prof` repaired, and how many different ones uniform sampling of the input space finds on the original with as many
model calls. Counts depend on the rows from which the search starts: here all rows of the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend.auditing.neighbours import find_unequal

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

PAPER = {"adf": 0.06, "eidig": 0.12, "neuronfair": 0.05, "grft": 0.16}
WITHIN = 0.15
QUICK = ("compas-race", "adult-sex", "adult-age", "german-sex", "bank-age")
BLOCK = 200_000


def sampled_idis(s: settings.Setting, calls: int, seed: int = 0) -> int:
    """Return how many different IDIs uniform sampling finds, if every neighbour of each sample costs one call."""
    rng = np.random.default_rng(seed)
    samples = calls // int(s.spec.neighbourhood_sizes(s.X_repair[:1])[0])
    protected = np.concatenate([np.arange(s.spec.width)[s.spec.columns(f.name)] for f in s.spec.protected])
    found: list[np.ndarray] = []
    for start in range(0, samples, BLOCK):
        X = s.spec.sample_inputs(min(BLOCK, samples - start), rng)
        kept: list[np.ndarray] = []
        fairmend.audit(s.network, s.spec, X, pairs=0, witnesses=lambda rows, x, other, kept=kept: kept.append(x))
        found += [np.delete(x, protected, axis=1) for x in kept]
    return len(np.unique(np.concatenate(found), axis=0)) if found else 0


def row(name: str, sizes: dict[str, int]) -> dict[str, dict[str, float]]:
    s = settings.setting(name)
    repaired = fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof").network
    cells = {}
    for method in PAPER:
        started = time.perf_counter()
        before = fairmend.search(s.network, s.spec, s.everyone, method, **sizes)
        after = fairmend.search(repaired, s.spec, s.everyone, method, **sizes)
        seconds = time.perf_counter() - started
        unconfirmed = 0
        for net, report in ((s.network, before), (repaired, after)):
            some = report.idis[:: max(1, report.count // 2000)]
            unconfirmed += int((~find_unequal(net, s.spec, some).rows).sum()) if len(some) else 0
        cells[method] = {
            "original": before.count,
            "repaired": after.count,
            "ratio": after.count / before.count if before.count else float("nan"),
            "calls": before.calls,
            "sampled": sampled_idis(s, before.calls),
            "unconfirmed": unconfirmed,
            "seconds": seconds,
        }
    return cells


def main() -> int:
    arguments = settings.parse_arguments(__doc__, "quick")
    quick = arguments.quick
    chosen = arguments.names or (QUICK if quick else [name for name in settings.names() if name.count("-") == 1])
    sizes = {"seeds": 200, "local_steps": 200} if quick else {}
    console = Console(width=max(Console().width, 150))
    table = Table(title="IDIs found: original / repaired = ratio (uniform sampling with as many calls), seconds")
    table.add_column("setting")
    for method in PAPER:
        table.add_column(method, justify="right")
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name in track(chosen, "settings", console=Console(stderr=True)):
        rows[name] = row(name, sizes)
        shown = [
            f"{c['original']:,.0f} / {c['repaired']:,.0f} = {c['ratio']:.2f} ({c['sampled']:,.0f}) {c['seconds']:.0f} s"
            for c in rows[name].values()
        ]
        print(name, *shown, sep="; ", file=sys.stderr, flush=True)
        table.add_row(name, *shown)
    console.print(table)
    return 0 if judge(rows, console) else 1


def judge(rows: dict[str, dict[str, dict[str, float]]], console: Console) -> bool:
    """Print mean ratios with those of the paper, and how often a tester beats sampling; return whether all is well."""
    good = True
    for method, paper in PAPER.items():
        cells = [row[method] for row in rows.values()]
        mean = float(np.nanmean([cell["ratio"] for cell in cells]))
        better = sum(cell["original"] >= cell["sampled"] for cell in cells)
        unconfirmed = sum(cell["unconfirmed"] for cell in cells)
        kept = abs(mean - paper) <= WITHIN and 2 * better > len(cells) and unconfirmed == 0
        console.print(
            f"{method}: mean ratio {mean:.3f}, paper {paper:.2f}; at least as many IDIs as sampling in {better} of "
            f"{len(cells)} settings; {unconfirmed:.0f} not confirmed: {'ok' if kept else 'NOT AS EXPECTED'}"
        )
        good &= kept
    return good


if __name__ == "__main__":
    sys.exit(main())
