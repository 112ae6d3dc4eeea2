"""Networks that learnt from biased decisions, for the tests of the baselines."""

from functools import cache

import numpy as np
import torch

from fairmend import Feature, Spec
from fairmend.auditing.neighbours import find_unequal, sample_unequal
from fairmend.bounds.forward import forward
from fairmend.repairing.baselines.finetune import cross_entropy, fine_tune
from support.blind_cases import SPEC, TOLERANT
from support.strategies import random_network

ONE = Spec(
    features=[
        Feature(name="gender", kind="categorical", categories=("f", "m"), protected=True),
        Feature(name="income", kind="continuous", range=(-3, 3)),
        Feature(name="amount", kind="integer", range=(0, 20), scale={"min": 0, "max": 20}),
    ]
)
SPECS = {"one": ONE, "several and one-hot": SPEC, "tolerance": TOLERANT}


@cache
def trained(which, outputs):
    """A network trained on decisions that depend on protected features, and 200 of those decisions."""
    spec, rng = SPECS[which], np.random.default_rng(5)
    X = spec.sample_inputs(600, rng)
    first = spec.protected[0]
    bias = spec.decode(X)[first.name].rank(method="dense").to_numpy()
    score = X[:, spec.columns("income")].ravel() + 2 * (bias / bias.max() - 0.5)
    y = np.digitize(score, [0.0] if outputs == 1 else [-1.0, 1.0])
    start = random_network(rng, spec.width, (8, 6), outputs, "relu", np.float32)
    rows, labels = torch.tensor(X), torch.tensor(y)

    def losses(layers, step):
        return None, cross_entropy(forward(start, layers, rows), labels)

    network, _ = fine_tune(start, losses, len(X), steps=400, learning_rate=0.01)
    return network, X[:40], X[40:240], y[40:240]


def arguments(which, outputs=1):
    network, X_repair, X_cal, y_cal = trained(which, outputs)
    return network, SPECS[which], X_repair, X_cal, y_cal


def unequal(network, spec, X):
    return (find_unequal if spec.finite else sample_unequal)(network, spec, X)
