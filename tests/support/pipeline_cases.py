"""People with columns of every kind, for pipelines of scikit-learn and the specs that are read from them."""

import numpy as np
import pandas as pd
from scipy import sparse

ROWS = 40


def people(seed=0, rows=ROWS, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "income": rng.lognormal(10, 1, rows),
            "debt": rng.normal(0, 1e-3, rows),
            "sex": rng.choice(["f", "m"], rows),
            "race": rng.choice(["a", "b", "c", "d"], rows),
            "region": rng.integers(1, 5, rows),
            "member": rng.random(rows) < 0.5,
            "y": rng.integers(0, 2, rows),
        }
    )
    frame.loc[:4, "race"] = ["a", "b", "c", "d", "a"]
    frame.loc[:2, "sex"] = ["f", "m", "f"]
    frame.loc[:4, "region"] = [1, 2, 3, 4, 1]
    frame.loc[:2, "member"] = [True, False, True]
    if gaps:
        for column in ("age", "income", "sex", "race"):
            frame[column] = frame[column].astype(object if column in ("sex", "race") else float)
            frame.loc[rng.random(rows) < 0.2, column] = np.nan if column in ("age", "income") else None
        frame["sex"] = frame["sex"].where(frame["sex"].notna(), np.nan)
        frame["race"] = frame["race"].where(frame["race"].notna(), np.nan)
    return frame


def dense(X):
    return np.asarray(X.todense() if sparse.issparse(X) else X, dtype=np.float64)


def same(transformer, frame, spec):
    """Equal but for the rounding of a scaler that computes in another order."""
    expected = dense(transformer.transform(frame)).astype(np.float32)
    found = spec.encode(frame)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-12)
