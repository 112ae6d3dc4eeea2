"""Specs of every kind and small networks over them, for the tests of `prof` end to end."""

import numpy as np

import fairmend
from fairmend import Feature, Spec
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Affine
from fairmend.repairing.options import group_options
from support.strategies import random_network

AGE = Feature("age", "integer", range=(0, 5), protected=True, scale={"min": 0, "max": 5})

RACE = Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True)

HOURS = Feature("hours", "integer", range=(0, 9), tolerance=1, scale={"min": 0, "max": 9})

SCORE = Feature("score", "continuous", range=(-2, 2))

WEIGHT = Feature("weight", "continuous", range=(0, 1), protected=True)

NEAR = Feature("near", "continuous", range=(-2, 2), tolerance=0.1)

SPECS = {
    "ordinal": Spec([AGE, SCORE]),
    "one-hot": Spec([RACE, SCORE]),
    "tolerance": Spec([AGE, HOURS, SCORE]),
    "several": Spec([AGE, RACE, HOURS, SCORE]),
}

CONTINUOUS = Spec([WEIGHT, NEAR, SCORE])


def case(spec, seed=0, hidden=(6, 4), outputs=1, activation="relu", dtype=np.float32, rows=60, repairs=10):
    """A network around whose decision the inputs lie, repair inputs, and a calibration set with its own answers."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, spec.width, hidden, outputs, activation, dtype)
    X = spec.sample_inputs(rows, rng, dtype)
    middle = np.median(network.logits(X).reshape(rows, -1), axis=0)
    head = Affine(network.head.weight, (network.head.bias - middle).astype(dtype))
    network = network.with_affines([*network.affines[:-1], head])
    return network, spec, X[:repairs], X, network.predict(X)


def repair(*arguments, **options):
    """The public function with options by their names, and with the paper's method unless another is named."""
    return fairmend.repair(*arguments, **group_options({"method": "prof", **options}))


def check(before, result, spec, X):
    """What holds for every repair of finite neighbourhoods."""
    assert find_unequal(result.network, spec, X).count == 0
    assert result.network.predict(spec.as_inputs(X, before.dtype)).tolist() == result.classes
    assert result.regions == len(X)
    assert result.proof.holds.all()
    assert result.proof.covers_inference.all()
    assert result.network.dtype == before.dtype
    assert result.network.activations == before.activations
    assert (result.network.closing, result.network.names) == (before.closing, before.names)
    assert 0 <= result.gap <= 1
    assert set(result.seconds) == {"calibrate", "solve", "check", "total"}
    assert all(seconds >= 0 for seconds in result.seconds.values())
