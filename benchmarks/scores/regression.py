"""The part "regression" of run.py: a network that predicts insurance premiums.

It is trained here, from a seed, on synthetic people whose premiums depend on sex and region, which are protected, and
on the power of their car, which may differ by 2. It is repaired so that the premiums of similar people differ by at
most 1 % of the range of all premiums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fairmend
from benchmarks.common.trained import Shape, train_once
from benchmarks.repairs.figures import Limit, verdict
from fairmend import Feature, Label, Network, Spec
from fairmend.network.model import compute_scores
from fairmend.spec.claim import Claim

REGIONS = ("north", "east", "south", "west")


REPAIRS: dict[str, dict[str, Any]] = {
    "original": {},
    "prof": {"method": "prof"},
    "blind": {"method": "blind"},
    "blind, fairness 0": {"method": "blind", "training": fairmend.TrainingOptions(fairness_weight=0.0)},
}


def insurance(rows: int, seed: int) -> tuple[Spec, np.ndarray, np.ndarray]:
    """Return a spec, people ``(rows, columns)`` and their yearly premiums; sex and region are protected."""
    rng = np.random.default_rng(seed)
    age, sex, region = rng.integers(18, 81, rows), rng.integers(0, 2, rows), rng.integers(0, 4, rows)
    power, mileage = rng.integers(40, 250, rows), rng.integers(2, 40, rows)
    claims, years = rng.poisson(0.4, rows).clip(0, 5), np.minimum(rng.integers(0, 40, rows), age - 17)
    premium = (
        180 + 1.1 * power + 9 * mileage + 160 * claims - 4 * years + 0.25 * (age - 45) ** 2 * (1 + claims) / 2
        + 45 * sex + np.array([0.0, 20.0, 60.0, 35.0])[region] + rng.normal(0, 30, rows)
    )  # fmt: skip
    spec = Spec(
        [
            Feature("age", "integer", range=(18, 80)),
            Feature("sex", "categorical", categories=("female", "male"), protected=True),
            Feature("region", "categorical", categories=REGIONS, encoding="one-hot", protected=True),
            Feature("power", "integer", range=(40, 250), tolerance=2),
            Feature("mileage", "integer", range=(2, 40)),
            Feature("claims", "integer", range=(0, 5)),
            Feature("years", "integer", range=(0, 63)),
        ],
        Label("premium"),
        Claim("score", 0.01 * float(np.ptp(premium)), "output"),
    )
    X = np.column_stack([age, sex, np.eye(4)[region], power, mileage, claims, years]).astype(np.float32)
    return spec, X, premium


def judge_regression(seed: int, console: Console) -> list[Limit]:
    spec, X, y = insurance(6000, seed)
    network = train_once(Shape((32, 16)), X[:4000], y[:4000], seed, regression=True)
    cal, repair, test = slice(4000, 4500), slice(4500, 4600), slice(4600, None)
    delta = spec.claim.limit
    table = Table(title=f"premiums from {y.min():.0f} to {y.max():.0f}; delta {delta:.1f}, 1 % of the range")
    for heading in ("repair", "R²", "mean absolute error", "largest difference, repair inputs", "test rows",
                    "test rows above (%)", "check"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "repair" else "right")
    worst, invalid = 0.0, 0
    for name, options in REPAIRS.items():
        repaired, check = network, ""
        if options:
            result = fairmend.repair(network, spec, X[repair], X[cal], y[cal], **options)
            repaired, check = result.network, verdict(result)
            invalid += check != "valid"
            worst = max(worst, float(largest_differences(repaired, spec, X[repair]).max()))
        error = y[test] - repaired.logits(X[test])
        listed, others = (largest_differences(repaired, spec, X[part]) for part in (repair, test))
        table.add_row(
            name,
            f"{1 - error.var() / y[test].var():.4f}",
            f"{np.abs(error).mean():.1f}",
            f"{listed.max():.2f}",
            f"{others.max():.2f}",
            f"{100 * np.mean(others > delta):.1f}",
            check,
        )
    console.print(table)
    return [
        ("regression: largest difference on the repair inputs after a repair", worst, delta),
        ("regression: certificates not valid", invalid, 0),
    ]


def largest_differences(network: Network, spec: Spec, X: np.ndarray) -> np.ndarray:
    """Return the largest difference of a score in the neighbourhood of each row, by enumeration: (rows,)."""
    shape = (len(X), network.outputs)
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for rows, points in spec.points(X, dtype=network.dtype):
        scores = compute_scores(network, points, spec.claim.on)
        np.minimum.at(low, rows, scores)
        np.maximum.at(high, rows, scores)
    return (high - low).max(axis=1)
