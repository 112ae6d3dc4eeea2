"""A spec with a link, a band and two protected features, people of it, and models that score them."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from fairmend.spec import Spec

FEATURES = [
    {"name": "sex", "kind": "categorical", "categories": ["Male", "Female"], "encoding": "ordinal", "protected": True},
    {
        "name": "relationship",
        "kind": "categorical",
        "categories": ["Husband", "Wife", "Single", "Other"],
        "encoding": "one-hot",
    },
    {"name": "age", "kind": "integer", "range": [18, 80], "protected": True, "scale": {"mean": 45.0, "std": 17.0}},
    {
        "name": "income",
        "kind": "continuous",
        "range": [0, 5000],
        "bands": {"width": 500},
        "scale": {"mean": 2000.0, "std": 1000.0},
    },
    {"name": "hours", "kind": "integer", "range": [1, 60]},
]
LINKS = [
    {"when": {"sex": "Female"}, "then": {"relationship": {"Husband": "Wife"}}},
    {"when": {"sex": "Male"}, "then": {"relationship": {"Wife": "Husband"}}},
]
SPEC = Spec.from_dict({"label": {"column": "paid", "positive": "1"}, "feature": FEATURES, "link": LINKS})


def people(rows=1200, seed=0):
    """Return encoded rows of SPEC, in which spouses fit their sex, and whether each person paid."""
    rng = np.random.default_rng(seed)
    X = SPEC.sample_inputs(rows, rng)
    home = rng.choice(3, rows)
    X[:, 1:5] = np.eye(4)[np.where(home == 0, X[:, 0].astype(int), home + 1)]
    signal = 2.0 * (X[:, 0] == 0) + 2 * X[:, 1] + 1.2 * X[:, 2] + 0.5 * X[:, 5] + X[:, 6] + rng.normal(size=rows)
    return X, (signal > np.median(signal)).astype(int)


def counterparts(X, seed=0):
    """Return for each row a member of its class: the other sex, the spouse, another age, another income of the band."""
    rng = np.random.default_rng(seed)
    other = X.copy()
    other[:, 0] = 1 - other[:, 0]
    other[:, [1, 2]] = other[:, [2, 1]]
    other[:, 5] = (rng.integers(18, 81, len(X)) - 45.0) / 17.0
    income = np.clip(X[:, 6].astype(np.float64) * 1000 + 2000, 0, 5000)
    band = np.minimum(income // 500, 10)
    edge = np.abs(income - 500 * np.rint(income / 500)) < 1e-3
    inside = (500 * band + rng.uniform(1, 499, len(X)) - 2000) / 1000
    other[:, 6] = np.where(edge | (band == 10), X[:, 6], inside)
    return other


def forest(X, y):
    """Return a fitted forest."""
    return RandomForestClassifier(12, max_depth=6, random_state=0).fit(X, y)
