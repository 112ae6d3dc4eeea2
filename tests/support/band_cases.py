"""Specs with bands of every kind, and a network that reads them."""

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.spec import Feature, Spec

SEX = Feature("sex", "categorical", categories=("m", "f"), encoding="one-hot", protected=True)
AGE = Feature("age", "integer", range=(20, 31), bands=[20, 24, 29], scale={"mean": 25.0, "std": 4.0})
JOB = Feature("job", "categorical", categories=("a", "b", "c", "d"), encoding="one-hot", bands=[["a", "c"], ["b", "d"]])
GRADE = Feature("grade", "categorical", categories=("1", "2", "3"), bands=[["1", "3"], ["2"]])
RATE = Feature("rate", "continuous", range=(0, 1), bands=[0, 0.3, 0.7], scale={"mean": 0.4, "std": 0.3})
NEAR = Feature("near", "integer", range=(0, 4), tolerance=1)


def band_spec(continuous=False, claim=None):
    return Spec([SEX, AGE, JOB, GRADE, NEAR, *([RATE] if continuous else [])], claim=claim)


def band_network(spec, seed=0, hidden=6):
    rng = np.random.default_rng(seed)
    layers = [
        Affine(rng.normal(size=(hidden, spec.width)).astype(np.float32), rng.normal(size=hidden).astype(np.float32)),
        Affine(rng.normal(size=(1, hidden)).astype(np.float32), rng.normal(size=1).astype(np.float32) / 4),
    ]
    return Network(layers, [Activation("relu")])


def band_case(rows=60, seed=1, continuous=False):
    """Return a spec with bands, a network that decides for most people, and people."""
    spec = band_spec(continuous)
    net, X = band_network(spec, seed), spec.sample_inputs(rows, np.random.default_rng(seed))
    head = net.affines[-1]
    middle = np.quantile(net.logits(X), 0.2).astype(np.float32)
    return spec, Network([net.affines[0], Affine(head.weight, head.bias - middle)], net.activations), X
