"""The table from which tests draft a spec."""

import numpy as np
import pandas as pd

from support.strategies import random_network

ROWS = 120


def people(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "customer_id": np.arange(5000, 5000 + rows),
            "name": [f"person {i}" for i in range(rows)],
            "age": rng.integers(18, 70, rows),
            "income": rng.lognormal(10, 1, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "race": rng.choice(["Asian", "Black", "White"], rows),
            "member": rng.random(rows) < 0.5,
            "approved": rng.choice(["no", "yes"], rows),
        }
    )


def model(inputs, path="model.onnx"):
    """Save a network with so many inputs."""
    random_network(np.random.default_rng(0), inputs, [6]).save(path)
    return path
