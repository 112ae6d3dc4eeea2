"""The people of the zoo: a seeded table with a biased decision, read raw (codes and numbers) or standardised."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairmend import Feature, Spec

ROWS, REPAIR_ROWS, CALIBRATION_ROWS = 3000, 40, 500
JOBS = ("none", "manual", "office", "own")
RAW = (
    Feature("sex", "categorical", categories=("female", "male"), encoding="ordinal", protected=True),
    Feature("job", "categorical", categories=JOBS, encoding="ordinal"),
    Feature("age", "integer", range=(18, 70)),
    Feature("hours", "integer", range=(0, 60)),
    Feature("income", "continuous", range=(0, 10)),
    Feature("rating", "continuous", range=(0, 1)),
)


@dataclass(frozen=True, eq=False)
class People:
    """Rows X (rows, 6) in the encoding of `spec`, and who was accepted, y (rows,)."""

    spec: Spec
    X: np.ndarray
    y: np.ndarray

    @property
    def repair(self) -> np.ndarray:
        return self.X[:REPAIR_ROWS]

    @property
    def calibration(self) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(REPAIR_ROWS, REPAIR_ROWS + CALIBRATION_ROWS)
        return self.X[rows], self.y[rows]

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        start = REPAIR_ROWS + CALIBRATION_ROWS
        return self.X[start : start + 1000], self.y[start : start + 1000]

    @property
    def judged(self) -> np.ndarray:
        """1,000 rows that nothing else uses."""
        return self.X[-1000:]

    def counterparts(self, X: np.ndarray) -> list[np.ndarray]:
        """Return X with each value of the protected column, which is the first one."""
        values = np.unique(self.X[:, 0])
        return [np.column_stack([np.full(len(X), value), X[:, 1:]]).astype(X.dtype) for value in values]


def load_people(*, scaled: bool) -> People:
    """Return the people, with raw columns or with numbers of mean 0 and deviation 1."""
    rng = np.random.default_rng(12)
    sex, job = rng.integers(0, 2, ROWS), rng.integers(0, 4, ROWS)
    age, hours = rng.integers(18, 71, ROWS), rng.integers(0, 61, ROWS)
    income, rating = np.round(rng.gamma(2, 1.5, ROWS).clip(0, 10), 2), np.round(rng.random(ROWS), 3)
    odds = 0.9 * income + 2 * rating + 0.05 * hours - 0.03 * abs(age - 40) + np.array([-1, 0, 0.5, 1])[job] + 1.2 * sex
    y = (odds - np.median(odds) + rng.logistic(size=ROWS) > 0).astype(np.int64)
    X = np.column_stack([sex, job, age, hours, income, rating]).astype(np.float32)
    if not scaled:
        return People(Spec(list(RAW)), X, y)
    scales = [None, None] + [{"mean": round(float(c.mean()), 3), "std": round(float(c.std()), 3)} for c in X.T[2:]]
    features = [replace(feature, scale=scale) for feature, scale in zip(RAW, scales, strict=True)]
    spec = Spec(features)
    standard = X.astype(np.float64)
    for column, scale in enumerate(scales):
        if scale is not None:
            standard[:, column] = (standard[:, column] - scale["mean"]) / scale["std"]
    return People(spec, standard.astype(np.float32), y)
