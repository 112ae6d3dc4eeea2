"""The baselines `flip`, `care` and `grft`, and `prof`, on the paper's 9 single-attribute settings, beside its Table 1.

    python benchmarks/baselines.py [SETTING ...]

Prints CUR on the repair inputs, IDI-D on the whole data set and accuracy on the test rows, ours / the paper's, and the
mean relative drop of IDI-D (one minus the mean after over the mean before, as in the paper). Exits with 1 where a
baseline's drop is more than 20 points from the paper's.

The paper does not publish the baselines' configuration. Which choice decides where each lands was measured on these
same 9 settings (on 2,500 to 6,000 rows of each data set) while the defaults were chosen, so their distance from the
paper is fitted, not predicted:

- flip: copies and steps. One copy of each row and 100 steps drop IDI-D by 30 %; two copies and 200 steps (the default:
  of what was tried, nearest to the paper) by 52 %; eight copies and 500 steps by 25 %: trained for longer on 500 rows,
  the network fits them, and finds the protected columns useful again. Nothing that was tried came above 55 %.
- care: the share of unfairness in the swarm's objective. 0.3 gives 47 %, 0.5 (the default: both count alike) 72 %, 0.7
  gives 93 % and costs 0.6 points of accuracy more. The seed matters as much: with 0.5, five seeds gave 60 to 79 %, and
  with 0.45, 27 to 62 %.
- grft: the weight of the loss on pairs, which is on logits. 0.01 gives 20 %, 0.1 gives 62 %, 1 (the default: no factor)
  75 %. All neighbourhoods here are enumerated, so the seed changes nothing.

The means are near the paper's; single settings often are not (compas-age under grft and care, adult-age under flip).
"""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
import settings
from fairmend.certify.enumerate import find_unequal

SINGLE = (
    "compas-sex", "compas-race", "compas-age", "adult-sex", "adult-race", "adult-age", "german-sex", "german-age",
    "bank-age",
)  # fmt: skip
METHODS = ("original", "flip", "care", "grft", "prof")
BASELINES = ("flip", "care", "grft")
FARTHEST = 20.0

# The paper's tables "Fairness improvement results for single-attribute repair" and "Accuracy of repaired models", in
# the order of SINGLE, in percent. The paper gives the original's accuracy by data set only.
PAPER_CUR = {
    "original": (5, 9, 42, 3, 2, 14, 3, 4, 1),
    "flip": (0, 6, 2, 2, 4, 8, 7, 1, 2),
    "care": (0, 2, 17, 2, 2, 6, 0, 1, 0),
    "grft": (0, 1, 16, 0, 1, 7, 0, 0, 0),
    "prof": (0, 0, 0, 0, 0, 0, 0, 0, 0),
}
PAPER_IDI_D = {
    "original": (6.25, 8.77, 44.86, 2.74, 4.15, 21.64, 2.60, 2.90, 1.12),
    "flip": (1.80, 8.25, 4.83, 2.95, 5.56, 8.14, 4.30, 0.40, 0.93),
    "care": (3.19, 5.75, 16.96, 1.89, 2.69, 5.60, 0.10, 3.30, 1.39),
    "grft": (0.00, 2.37, 19.91, 0.98, 0.64, 2.38, 0.20, 0.10, 0.56),
    "prof": (0.00, 0.00, 0.49, 0.79, 1.48, 0.83, 0.00, 0.00, 0.29),
}
PAPER_ACCURACY = {
    "flip": (72.39, 72.87, 70.53, 83.65, 83.58, 84.51, 68.67, 70.33, 89.28),
    "care": (73.44, 71.42, 65.43, 84.39, 84.52, 80.78, 69.33, 72.67, 88.80),
    "grft": (72.71, 73.60, 63.24, 82.06, 81.07, 80.26, 70.00, 70.00, 89.33),
    "prof": (72.06, 72.47, 70.28, 82.50, 82.05, 83.67, 69.67, 69.67, 89.35),
}
PAPER_DROP = {"flip": 60.91, "care": 56.99, "grft": 71.44, "prof": 95.93}

Figures = dict[str, float]


def figures(s: settings.Setting, method: str) -> Figures:
    """What one method makes of one setting; "original" is no repair at all."""
    started = time.perf_counter()
    network, proven = s.network, 0
    if method != "original":
        result = fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method=method)
        network, proven = result.network, result.proven
    seconds = time.perf_counter() - started
    return {
        "CUR": 100 * find_unequal(network, s.spec, s.X_repair).rate,
        "IDI-D": 100 * find_unequal(network, s.spec, s.everyone).rate,
        "accuracy": 100 * float(np.mean(network.predict(s.dataset.X_test) == s.dataset.y_test)),
        "proven": proven,
        "seconds": seconds,
    }


def main() -> int:
    chosen = sys.argv[1:] or list(SINGLE)
    unknown = set(chosen) - set(SINGLE)
    if unknown:
        sys.exit(f"no single-attribute setting of the paper: {', '.join(sorted(unknown))}")
    console = Console(width=max(Console().width, 120))
    rows: dict[str, dict[str, Figures]] = {}
    for name in track(chosen, "settings", console=Console(stderr=True)):
        s = settings.setting(name)
        rows[name] = {method: figures(s, method) for method in METHODS}
    papers: tuple[tuple[str, dict[str, tuple[float, ...]]], ...] = (
        ("CUR", PAPER_CUR),
        ("IDI-D", PAPER_IDI_D),
        ("accuracy", PAPER_ACCURACY),
    )
    for metric, paper in papers:
        console.print(_table(metric, paper, rows))
    proven = ", ".join(f"{m} {np.mean([r[m]['proven'] for r in rows.values()]):.1f}" for m in METHODS[1:])
    seconds = ", ".join(f"{m} {np.mean([r[m]['seconds'] for r in rows.values()]):.2f}" for m in METHODS[1:])
    console.print(f"repair inputs that are proven, of 100, mean: {proven}; seconds, mean: {seconds}")
    return 0 if _judge(rows, console) else 1


def _table(metric: str, paper: dict[str, tuple[float, ...]], rows: dict[str, dict[str, Figures]]) -> Table:
    table = Table(title=f"{metric} %, ours / the paper's")
    for heading in ("setting", *METHODS):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    for name, r in rows.items():
        place = SINGLE.index(name)
        table.add_row(
            name,
            *(f"{r[m][metric]:.2f} / {paper[m][place]:.2f}" if m in paper else f"{r[m][metric]:.2f}" for m in METHODS),
        )
    places = [SINGLE.index(name) for name in rows]
    means = []
    for m in METHODS:
        ours = np.mean([r[m][metric] for r in rows.values()])
        means.append(f"{ours:.2f} / {np.mean(np.array(paper[m])[places]):.2f}" if m in paper else f"{ours:.2f}")
    table.add_section()
    table.add_row("mean", *means)
    return table


def _judge(rows: dict[str, dict[str, Figures]], console: Console) -> bool:
    """Print the drops beside the paper's; whether every baseline is near enough, which only all settings can tell."""
    before = np.mean([r["original"]["IDI-D"] for r in rows.values()])
    good = True
    for method in METHODS[1:]:
        drop = 100 * float(1 - np.mean([r[method]["IDI-D"] for r in rows.values()]) / before)
        distance = abs(drop - PAPER_DROP[method])
        line = f"{method:5s} mean relative drop of IDI-D {drop:.1f} %, the paper's {PAPER_DROP[method]:.1f} %"
        if method in BASELINES and len(rows) == len(SINGLE):
            good &= distance <= FARTHEST
            line += f": {distance:.1f} points apart, limit {FARTHEST:g}: {'ok' if distance <= FARTHEST else 'EXCEEDED'}"
        console.print(line)
    return good


if __name__ == "__main__":
    sys.exit(main())
