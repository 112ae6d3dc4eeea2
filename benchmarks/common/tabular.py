"""Tables of people with a decision, to train networks on: the four data sets, and synthetic ones from a seed.

A synthetic table has 8 to 20 features of all kinds and a biased decision: who is protected changes the log-odds, and
other features depend on it too, so that a network which does not read the protected features still learns about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.common import settings
from fairmend import Feature, Spec
from fairmend.paper import datasets

REPAIR_ROWS, CALIBRATION_ROWS = 100, 500
SHARES = {"held out": 0.3, "pool": 0.1}  # of all rows; those left are for training
SYNTHETIC_ROWS = 6000
GROUPS = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, eq=False)
class Table:
    """People, one row each: ``frame (rows, features)`` in the features' own units, and ``y (rows,)`` from 0 and 1."""

    name: str
    frame: pd.DataFrame
    y: np.ndarray
    features: tuple[Feature, ...]

    def spec(self, protected: Sequence[str], tolerance: Mapping[str, float], *, scaled: bool) -> Spec:
        """Return the spec with these protected features and tolerances; scaled numbers have mean 0 and deviation 1."""
        return Spec(
            [
                replace(
                    feature,
                    protected=feature.name in protected,
                    tolerance=tolerance.get(feature.name, 0.0),
                    scale=self._scale(feature) if scaled else None,
                )
                for feature in self.features
            ]
        )

    def _scale(self, feature: Feature) -> dict[str, float] | None:
        if feature.one_hot:
            return None
        values = self.frame[feature.name]
        return {"mean": round(float(values.mean()), 4), "std": max(round(float(values.std()), 4), 0.01)}

    def split(self, draw: int = 0) -> dict[str, np.ndarray]:
        """Return the row numbers of each part: "repair", "calibration", "held out", "pool" and "training"."""
        order = np.random.default_rng([len(self.y), draw]).permutation(len(self.y))
        sizes = {"repair": REPAIR_ROWS, "calibration": min(CALIBRATION_ROWS, len(self.y) // 5)}
        sizes |= {part: int(share * len(self.y)) for part, share in SHARES.items()}
        parts = np.split(order, np.cumsum(list(sizes.values())))
        return dict(zip([*sizes, "training"], parts, strict=True))


@cache
def load_table(name: str) -> Table:
    """Return a table by name: one of the four data sets, or "synthetic-SEED"."""
    if name.startswith("synthetic-"):
        return synthetic_table(int(name.removeprefix("synthetic-")))
    settings.require_shared()
    data = datasets.load(name, settings.SHARED / "data")
    X = np.concatenate([data.X_train, data.X_test])
    y = np.concatenate([data.y_train, data.y_test]).astype(np.int64)
    frame = pd.DataFrame(X.astype(np.int64), columns=list(data.columns))
    return Table(name, frame, y, data.spec(data.columns[0]).features)


def synthetic_table(seed: int) -> Table:
    """Return people with a protected group (categorical), a protected age (integer) and other features of all kinds."""
    rng = np.random.default_rng([seed, 14])
    group = rng.choice(int(rng.integers(2, 5)), SYNTHETIC_ROWS)
    age = np.clip(rng.normal(42, 13, SYNTHETIC_ROWS).round(), 18, 80)
    standing = rng.normal(size=(SYNTHETIC_ROWS, 2)) + 0.4 * (group == 0)[:, None]  # what the other features tell about
    columns: dict[str, np.ndarray] = {"group": np.array(GROUPS)[group], "age": age.astype(np.int64)}
    features = [
        Feature("group", "categorical", categories=GROUPS[: group.max() + 1], encoding="one-hot"),
        Feature("age", "integer", range=(18, 80)),
    ]
    log_odds = rng.uniform(0.2, 0.8) * (group == 0) + rng.uniform(-0.04, 0.04) * (age - 42)
    for number in range(int(rng.integers(6, 19))):
        hidden = standing @ rng.normal(size=2) + rng.normal(size=SYNTHETIC_ROWS)
        feature, values = random_feature(f"x{number}", hidden, rng)
        features.append(feature)
        columns[feature.name] = values
        log_odds = log_odds + rng.normal(0, 0.5) * hidden + rng.normal(0, 0.15) * hidden**2
    threshold = np.quantile(log_odds, rng.uniform(0.3, 0.85))  # how rare the favourable decision is
    y = log_odds + rng.logistic(0, 0.5, SYNTHETIC_ROWS) > threshold
    return Table(f"synthetic-{seed}", pd.DataFrame(columns), y.astype(np.int64), tuple(features))


def random_feature(name: str, hidden: np.ndarray, rng: np.random.Generator) -> tuple[Feature, np.ndarray]:
    """Return a feature of a random kind and its values, which grow with ``hidden (rows,)``."""
    kind = rng.choice(["continuous", "amount", "integer", "flag", "categorical"])
    if kind == "categorical":
        codes = np.digitize(hidden, np.quantile(hidden, np.sort(rng.random(int(rng.integers(2, 6))))))
        categories = GROUPS[: codes.max() + 1]
        return Feature(name, "categorical", categories=categories, encoding="one-hot"), np.array(GROUPS)[codes]
    if kind in ("flag", "integer"):
        highest = 1 if kind == "flag" else int(rng.integers(5, 60))
        values = np.clip(((hidden + 3) / 6 * highest).round(), 0, highest).astype(np.int64)
        return Feature(name, "integer", range=(0, highest)), values
    if kind == "amount":
        values = np.clip(np.exp(hidden / 2 + 7).round(), 0, 20_000).astype(np.int64)
        return Feature(name, "integer", range=(0, 20_000)), values
    return Feature(name, "continuous", range=(-8.0, 8.0)), np.clip(hidden, -8, 8).round(3)
