"""Averaging over the members of classes, beside training again without the protected column, on Adult.

    python benchmarks/repairs/averaged.py [--draws 12] [--only TEXT]

Boosted trees, a forest and a logistic regression (with XGBoost and LightGBM, if they are installed) are trained on
20,000 rows. `average` repairs each without labels of those rows: with 100 repair inputs, 500 labelled rows and 2,000
without labels. `retrained` is the same model, trained on all 20,000 labels without the column. The table has the points
that each gains (+) or loses (-) against the original on 10,000 other rows, in accuracy, balanced accuracy and AUC:
means over the draws. The last column is their difference, with the half-width of its 95 % interval (Student's t; the
draws share rows, so that it is too narrow for other tables). Averaged models are provably independent of the column.
So are retrained ones; but that needs the training set, and the pipeline that made the model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table as Printed
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[2]))

import fairmend
from benchmarks.common.tabular import load_table
from benchmarks.repairs.figures import interval
from fairmend import Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.repairing.blind import columns_of

TRAINED, JUDGED, POOL = 20_000, 10_000, 2_000
PROTECTED = (("sex",), ("race",), ("age",), ("sex", "race"))


def models(seed: int) -> dict[str, Callable[[], Any]]:
    """Return how to make each model."""
    found: dict[str, Callable[[], Any]] = {
        "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "forest": lambda: RandomForestClassifier(100, min_samples_leaf=5, random_state=seed),
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    }
    if find_spec("xgboost"):
        found["XGBoost"] = lambda: __import__("xgboost").XGBClassifier(n_estimators=150, random_state=seed)
    if find_spec("lightgbm"):
        found["LightGBM"] = lambda: __import__("lightgbm").LGBMClassifier(random_state=seed, verbose=-1)
    return found


def figures(y: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Return accuracy, balanced accuracy and AUC in percent, of the probabilities of class 1."""
    predicted = (positive >= 0.5).astype(np.int64)
    return 100 * np.array([accuracy(y, predicted), balanced_accuracy(y, predicted), roc_auc_score(y, positive)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    given = parser.parse_args()
    draws = given.draws
    table = load_table("adult")
    X, y = table.frame.to_numpy(dtype=np.float64), table.y
    printed = Printed(title=f"Adult: points against the original, accuracy / balanced / AUC, means of {draws} draws")
    for heading in ("model", "protected", "original", "average", "retrained", "average - retrained"):
        printed.add_column(heading, justify="left" if heading in ("model", "protected") else "right")
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    work = [
        (draw, name, protected)
        for draw in range(draws)
        for name in models(0)
        if given.only in name
        for protected in PROTECTED
    ]
    for draw, name, protected in track(work, "models", console=Console(stderr=True)):
        order = np.random.default_rng(draw).permutation(len(y))
        training, judged, rest = np.split(order, [TRAINED, TRAINED + JUDGED])
        repair, calibration, pool = np.split(rest[: 600 + POOL], [100, 600])
        make = models(draw)[name]
        original = make().fit(X[training], y[training])
        spec = Spec([replace(f, protected=f.name in protected, tolerance=0.0) for f in table.features])
        model = fairmend.load_model(lambda rows, original=original: original.predict_proba(rows))
        result = fairmend.repair(
            model, spec, X[repair], X[calibration], y[calibration], method="average", X_unlabelled=X[pool]
        )
        kept = np.setdiff1d(np.arange(X.shape[1]), columns_of(spec, spec.protected))
        retrained = make().fit(X[training][:, kept], y[training])
        scores = [
            original.predict_proba(X[judged])[:, 1],
            result.network.probabilities(X[judged]),
            retrained.predict_proba(X[judged][:, kept])[:, 1],
        ]
        found.setdefault((name, " and ".join(protected)), []).append(
            np.stack([figures(y[judged], positive) for positive in scores])
        )
    gains = []
    for (name, protected), runs in found.items():
        before, averaged, retrained = np.mean(runs, axis=0)
        gains.append((averaged - before, retrained - before))
        shown = [" / ".join(f"{value:.2f}" for value in before)]
        shown += [" / ".join(f"{value:+.2f}" for value in each - before) for each in (averaged, retrained)]
        shown.append(interval(np.array([run[1] - run[2] for run in runs]), "+.2f"))
        printed.add_row(name, protected, *shown)
    mean = np.mean(gains, axis=0)
    printed.add_section()
    printed.add_row("mean", "", "", *(" / ".join(f"{value:+.2f}" for value in each) for each in mean))
    Console(width=max(Console().width, 160)).print(printed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
