"""Claims about scores: the 22 settings, step 2 against a reference LP, planted violations, and a regression network.

    python benchmarks/scores/run.py [SETTING ...] [--part settings|lp|planted|regression ...]
        [--planted 10000] [--seed 0]

settings: each setting of the paper with the claim that probabilities of similar people differ by at most 0.05, repaired
    with `prof` and `blind`. Prints the largest difference among similar people, enumerated, on the repair inputs and on
    the first 1,000 test rows, accuracy and balanced accuracy, the change of step 2, and the verdict of the checker.
lp: step 2 on the calibrated networks of the settings, for a claim about logits, against a linear program over all
    vertices that is written here and solved by scipy: with the l1 norm of the change as the cost, and with the change
    of the outputs of the calibration rows, as in a repair. For probabilities within 0.05 the l1 norm must not be
    larger than for logits so close that any probabilities are within 0.05.
planted: see planted.py.
regression: see regression.py.

Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import linprog

import fairmend
from fairmend import Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.head.features import Linear
from fairmend.repairing.head.problem import TIE, HeadChange, KeptRows
from fairmend.repairing.head.scores import repair_scores
from fairmend.spec.claim import Claim

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings
from benchmarks.repairs.figures import Limit, verdict, within
from benchmarks.scores.planted import judge_planted
from benchmarks.scores.regression import judge_regression, largest_differences

DELTA = 0.05
METHODS = ("prof", "blind")
TEST_ROWS = 1000
MOST_LP_ERROR = 1e-5  # relative
PARTS = ("settings", "lp", "planted", "regression")


# The settings


def judge_settings(names: list[str], console: Console) -> list[Limit]:
    table = Table(title=f"probabilities of similar people within {DELTA}: original / prof / blind")
    for heading in ("setting", "largest difference, repair inputs", "test rows", "test rows above (%)", "accuracy",
                    "balanced", "change (gap)", "check"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    worst, invalid = 0.0, 0
    losses: dict[str, list[float]] = {method: [] for method in METHODS}
    for name in track(names, "settings", console=Console(stderr=True)):
        s = settings.setting(name)
        spec = Spec(s.spec.features, claim=Claim("score", DELTA, "probability"))
        results = {m: fairmend.repair(s.network, spec, s.X_repair, s.X_cal, s.y_cal, method=m) for m in METHODS}
        networks = [s.network, *(result.network for result in results.values())]
        listed = [largest_differences(network, spec, s.X_repair).max() for network in networks]
        others = [largest_differences(network, spec, s.dataset.X_test[:TEST_ROWS]) for network in networks]
        predicted = [network.predict(s.dataset.X_test) for network in networks]
        accuracies = [100 * accuracy(s.dataset.y_test, each) for each in predicted]
        checks = [verdict(result) for result in results.values()]
        for method, after in zip(METHODS, accuracies[1:], strict=True):
            losses[method].append(accuracies[0] - after)
        worst, invalid = max(worst, *listed[1:]), invalid + sum(check != "valid" for check in checks)
        table.add_row(
            name,
            " / ".join(f"{each:.4f}" for each in listed),
            " / ".join(f"{each.max():.3f}" for each in others),
            " / ".join(f"{100 * np.mean(each > DELTA):.1f}" for each in others),
            " / ".join(f"{each:.2f}" for each in accuracies),
            " / ".join(f"{100 * balanced_accuracy(s.dataset.y_test, each):.1f}" for each in predicted),
            f"{results['prof'].objective:.4f} ({100 * results['prof'].gap:.1f} %)",
            " / ".join(checks),
        )
    console.print(table)
    for method, lost in losses.items():
        console.print(f"{method}: {np.mean(lost):.2f} points of accuracy lost in the mean")
    return [
        ("largest difference on the repair inputs after a repair", worst, DELTA),
        ("settings: certificates not valid", invalid, 0),
    ]


# The reference LP


def reference_optimum(weight: np.ndarray, features: Linear, delta: float, kept: KeptRows | None = None) -> float:
    """Return the least cost of a change of ``weight (dimension,)`` that keeps w·h within delta over each region.

    The cost is the l1 norm of the change; with ``kept``, what the outputs change at these rows, and a little of that.
    Variables: p, n >= 0 with w = p - n, the change as increase - decrease, the ends L and U of the scores of each
    region, and for ``kept`` the change of the bias and the absolute change of each row's output. Over a vertex
    (below, above), w·h lies between p·below - n·above and p·above - n·below.
    """
    below, above, owner = all_vertices(features)
    size, regions, count = features.dimension, features.count, len(owner)
    rows = np.zeros((0, size)) if kept is None else kept.features
    end = sparse.csr_array((np.ones(count), (np.arange(count), owner)), shape=(count, regions))
    one, ones = sparse.eye_array(regions), np.ones((len(rows), 1))
    absolute = -sparse.eye_array(len(rows))
    left = sparse.block_array(
        [
            [-below, above, None, None, end, None, None, None, None],  # L <= p·below - n·above
            [above, -below, None, None, None, -end, None, None, None],  # p·above - n·below <= U
            [None, None, None, None, -one, one, None, None, None],  # U - L <= delta
            [None, None, rows, -rows, None, None, ones, -ones, absolute],
            [None, None, -rows, rows, None, None, -ones, ones, absolute],
        ]
    )
    right = np.concatenate([np.zeros(2 * count), np.full(regions, delta), np.zeros(2 * len(rows))])
    unit = sparse.eye_array(size)
    equal = sparse.hstack([unit, -unit, -unit, unit, sparse.csr_array((size, left.shape[1] - 4 * size))])
    each = 1.0 if kept is None else TIE
    row_costs = np.zeros(0) if kept is None else kept.weight[:, 0]
    parts = [np.zeros(2 * size), np.full(2 * size, each), np.zeros(2 * regions), np.full(2, each), row_costs]
    bounds = [(0, None)] * (4 * size) + [(None, None)] * (2 * regions) + [(0, None)] * (2 + len(rows))
    found = linprog(
        np.concatenate(parts), A_ub=left, b_ub=right, A_eq=equal, b_eq=weight, bounds=bounds, method="highs"
    )
    if found.fun is None:
        raise RuntimeError(f"the reference LP ended as {found.message}")
    return float(found.fun)


def all_vertices(features: Linear) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return below and above (vertices, dimension) at all corners of all pieces, and their regions (vertices,)."""
    lower, upper = features.lower, features.upper
    corners = np.array(list(product((-1.0, 1.0), repeat=len(lower) - 1))).reshape(-1, len(lower) - 1)
    below, above = (
        (forms[0][None] + np.einsum("ck,kpd->cpd", corners, forms[1:])).reshape(-1, features.dimension)
        for forms in (lower, upper)
    )
    return below, above, np.tile(features.owner, len(corners))


def judge_lp(names: list[str], console: Console) -> list[Limit]:
    narrow = 2 * math.log((1 + DELTA) / (1 - DELTA))  # logits within it have probabilities within DELTA anywhere
    table = Table(title=f"step 2 for logits within {narrow:.4f}, the reference LP, and step 2 for the probabilities")
    for heading in ("setting", "l1 norm", "reference", "outputs of the calibration rows", "reference", "probabilities"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    distance = excess = 0.0
    for name in track(names, "settings", console=Console(stderr=True)):
        s = settings.setting(name)
        regions = s.spec.regions(s.X_repair)
        network = calibrate(s.network, regions, s.X_cal, s.y_cal).network
        weight, bias = (part.astype(np.float64) for part in (network.head.weight, network.head.bias))
        features = Linear.from_network(network, regions)
        rows = network.astype(np.float64).features(s.X_cal.astype(np.float64))
        kept = KeptRows(rows, np.full((len(rows), 1), 1 / len(rows)))
        references = [reference_optimum(weight[0], features, narrow, each) for each in (None, kept)]
        norm = repair_scores(weight, bias, features, delta=narrow, on="logit").objective
        change = repair_scores(weight, bias, features, delta=narrow, on="logit", kept=kept)
        cost = kept.cost(HeadChange(change.weight, change.bias)) + TIE * change.objective
        probability = repair_scores(weight, bias, features, delta=DELTA, on="probability").objective
        pairs = zip((norm, cost), references, strict=True)
        distance = max(distance, *(abs(ours - theirs) / max(theirs, 1.0) for ours, theirs in pairs))
        excess = max(excess, (probability - references[0]) / max(references[0], 1.0))
        figures = (norm, references[0], cost, references[1], probability)
        table.add_row(name, *(f"{figure:.7f}" for figure in figures))
    console.print(table)
    return [
        ("step 2 against the reference LP, largest relative distance", distance, MOST_LP_ERROR),
        ("probabilities, step 2 above the LP for any probability, largest relative excess", excess, MOST_LP_ERROR),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SETTING", help="default: every setting")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--planted", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    console = Console(width=max(Console().width, 190))
    limits: list[Limit] = []
    if {"settings", "lp"} & set(options.part):
        names = options.names or settings.names()
    if "settings" in options.part:
        limits += judge_settings(names, console)
    if "lp" in options.part:
        limits += judge_lp(names, console)
    if "planted" in options.part:
        limits += judge_planted(options.planted, options.seed, console)
    if "regression" in options.part:
        limits += judge_regression(options.seed, console)
    return 0 if within(limits, console) else 1


if __name__ == "__main__":
    sys.exit(main())
