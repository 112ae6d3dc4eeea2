"""Specs with and without tolerances, and small networks over them, for `blind` and `auto`."""

import numpy as np

from fairmend import Feature, Spec
from support.strategies import random_network

SPEC = Spec(
    features=[
        Feature(name="age", kind="integer", range=(18, 80), scale={"mean": 40, "std": 12}, protected=True),
        Feature(name="income", kind="continuous", range=(-3, 3)),
        Feature(name="group", kind="categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True),
        Feature(name="amount", kind="integer", range=(0, 20)),
    ]
)
TOLERANT = Spec(
    features=[
        Feature(name="age", kind="integer", range=(0, 9), protected=True),
        Feature(name="income", kind="continuous", range=(-3, 3), tolerance=0.05),
        Feature(name="amount", kind="integer", range=(0, 20)),
    ]
)


def case(spec: Spec, seed: int = 0, outputs: int = 1, activation: str = "relu", rows: int = 120):
    rng = np.random.default_rng(seed)
    network = random_network(rng, spec.width, (8, 6), outputs, activation, np.float32)
    X = spec.sample_inputs(rows, rng)
    return network, X[:20], X[20:], network.predict(X[20:])
