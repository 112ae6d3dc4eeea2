"""Compare `prof` with a run of the original method, on the paper's 22 settings with the same sets and networks.

    python benchmarks/paper/parity.py [SETTING ...]

Prints a table and the largest distances; exits with 1 if a limit is exceeded. The figures of the original are those in
reference/original_results.csv. Objectives are compared on the same calibrated network, with the original's margin
(1e-6) and limit on each parameter (3); the repaired network is the default one, whose margins also cover float32
inference.

Step 1 is 200 steps of Adam in float32, and its result depends on the order of sums. Where the smallest change of the
head is not near that of the original, step 1 ended in another network, and the script names the setting.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.head.features import Box, Linear
from fairmend.repairing.head.solve import repair_head

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(1, str(Path(__file__).parents[2] / "tests"))

from benchmarks.common import settings
from support.paper_milp import Dual

LIMITS = {"CUR": 0.0, "L_fair": 0.002, "accuracy": 0.4, "IDI-D": 0.3, "Linear - Box": 1e-6, "Linear - Dual": 1e-6}
ORIGINAL = {"margin": 1e-6, "delta_limit": 3.0}
SAME_NETWORK = 0.2  # the largest relative distance of the smallest changes


def compare(name: str) -> dict[str, float]:
    """Return all figures of one setting, of `prof` and of the original."""
    s = settings.setting(name)
    result = fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof")
    predictions = result.network.predict(s.dataset.X_test)
    recall = [100 * float(np.mean(predictions[s.dataset.y_test == label] == label)) for label in (0, 1)]
    regions = s.spec.regions(s.X_repair)
    network = calibrate(s.network, regions, s.X_cal, s.y_cal).network
    weight, bias = network.head.weight, network.head.bias
    dual, variables, _ = Dual.from_network(network, regions).solve(weight, bias, **ORIGINAL)
    if dual.objective is None:
        raise SystemExit(f"{name}: the dual ended as {dual.status}")
    return {
        "CUR": 100 * find_unequal(result.network, s.spec, s.X_repair).rate,
        "L_fair": result.history.fair[-1],
        "L_fair original": s.original["L_fair_200"],
        "accuracy": 100 * float(np.mean(predictions == s.dataset.y_test)),
        "accuracy original": _whole_rows(s.original["rep_acc"], len(predictions)),
        "balanced": sum(recall) / 2,
        "IDI-D": 100 * find_unequal(result.network, s.spec, s.everyone).rate,
        "IDI-D original": s.original["rep_idi_d"],
        "linear": repair_head(weight, bias, Linear.from_network(network, regions), **ORIGINAL).objective,
        "box": repair_head(weight, bias, Box.from_network(network, regions), **ORIGINAL).objective,
        "dual": dual.objective,
        "objective original": s.original["objective_symbolic"],
        "dual variables": variables,
        "proven": float(result.proof.covers_inference.all()),
    }


def _whole_rows(percent: float, rows: int) -> float:
    """Return the exact share: the file rounds it to two digits, which determines the number of rows."""
    return 100 * round(percent * rows / 100) / rows


def _same_network(r: dict[str, float]) -> bool:
    """Return whether step 1 ended where the original's did, as far as the smallest change of the head tells."""
    return abs(r["linear"] - r["objective original"]) <= SAME_NETWORK * r["objective original"] + 1e-6


def main() -> int:
    chosen = settings.parse_arguments(__doc__).names or settings.names()
    console = Console(width=max(Console().width, 150))
    table = Table(title="prof: ours / the original (reference/original_results.csv)")
    for heading in (
        "setting", "CUR %", "L_fair", "accuracy %", "balanced %", "IDI-D %", "Linear", "Box", "Dual", "original",
        "proven",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    worst = dict.fromkeys(LIMITS, 0.0)
    others: list[str] = []
    for name in track(chosen, "settings", console=Console(stderr=True)):
        r = compare(name)
        distances = {
            "CUR": r["CUR"],
            "L_fair": abs(r["L_fair"] - r["L_fair original"]),
            "accuracy": abs(r["accuracy"] - r["accuracy original"]),
            "IDI-D": abs(r["IDI-D"] - r["IDI-D original"]),
            "Linear - Box": r["linear"] - r["box"],
            "Linear - Dual": abs(r["linear"] - r["dual"]),
        }
        worst = {key: max(worst[key], distances[key]) for key in worst}
        others += [] if _same_network(r) else [name]
        table.add_row(
            name,
            f"{r['CUR']:.1f}",
            f"{r['L_fair']:.4f} / {r['L_fair original']:.4f}",
            f"{r['accuracy']:.2f} / {r['accuracy original']:.2f}",
            f"{r['balanced']:.1f}",
            f"{r['IDI-D']:.3f} / {r['IDI-D original']:.3f}",
            f"{r['linear']:.7f}",
            f"{r['box']:.7f}",
            f"{r['dual']:.7f}",
            f"{r['objective original']:.7f}",
            "all" if r["proven"] else "NO",
        )
    console.print(table)
    console.print(f"step 1 ended in another network than the original's: {', '.join(others) or 'nowhere'}")
    good = True
    for key, value in worst.items():
        good &= value <= LIMITS[key]
        console.print(f"{key:14s} largest distance {value:.3g}, limit {LIMITS[key]:g}: {'ok' if value <= LIMITS[key] else 'EXCEEDED'}")  # fmt: skip  # noqa: E501
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
