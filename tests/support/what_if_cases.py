"""People with every kind of feature, and reports on networks that read them, to ask "What if?"."""

from functools import cache

import numpy as np
import pandas as pd

import fairmend
from fairmend.network import Activation, Network
from fairmend.network.operations import Columns, Concatenate, Lookup, Sum
from fairmend.report import audit_report
from fairmend.spec import Claim, Feature, Label, Spec
from support.functions import FUNCTIONS
from support.graphs import GraphMaker
from support.strategies import random_network

LINKS = [
    {"when": {"gender": "f"}, "then": {"title": {"Mr": ["Ms", "Mrs"]}}},
    {"when": {"gender": "m"}, "then": {"title": {"Ms": "Mr", "Mrs": "Mr"}}},
    {"when": {"age": [18, 22]}, "then": {"years": {"offset": [-3, -1]}}},
    {"when": {"age": 60, "gender": "m"}, "then": {"years": {"range": [4, 6]}}},
]


def every_kind(*, regression: bool = False, threshold: float = 0.5, links=LINKS, **income) -> Spec:
    """Return a spec with every kind of feature and encoding; its neighbourhoods are finite."""
    return Spec(
        [
            Feature("age", "integer", range=(18, 60), scale={"min": 18, "max": 61}, protected=True),
            Feature("gender", "categorical", categories=("f", "m"), encoding="one-hot", protected=True),
            Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", dropped="b", protected=True),
            Feature("title", "categorical", categories=("Mr", "Ms", "Mrs"), scale={"mean": 0.7, "std": 0.3}),
            Feature("years", "integer", range=(0, 40), scale={"mean": 11.3, "std": 7.7}),
            Feature(
                **{"name": "income", "kind": "continuous", "range": (-5.5, 99.9)} | income,
                scale={"mean": 31, "std": 17},
            ),
            Feature("hours", "integer", range=(0, 12), tolerance=1),
            Feature("rate", "continuous", range=(0.001, 0.3), missing=0.05),
            Feature("home", "categorical", categories=("own", "rent"), encoding="one-hot", missing="rent"),
            Feature("rate unknown", "integer", range=(0, 1), scale={"mean": 0.2, "std": 0.4}, indicates="rate"),
        ],
        Label("price") if regression else Label("good", "yes", threshold=threshold),
        Claim("score", 0.5, "output") if regression else None,
        links,
    )


def people_of_every_kind(rows: int, seed: int = 0, missing: float = 0.0) -> pd.DataFrame:
    """Return random people; a share `missing` of the values that may be missing is."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 61, rows),
            "gender": rng.choice(["f", "m"], rows),
            "race": rng.choice(["a", "b", "c"], rows),
            "title": rng.choice(["Mr", "Ms", "Mrs"], rows),
            "years": rng.integers(0, 41, rows),
            "income": rng.uniform(-5.5, 99.9, rows).round(3),
            "hours": rng.integers(0, 13, rows),
            "rate": rng.uniform(0.001, 0.3, rows),
            "home": rng.choice(["own", "rent"], rows),
            "good": rng.choice(["yes", "no"], rows),
            "price": rng.normal(size=rows),
        }
    )
    for name in ("rate", "home"):
        frame[name] = frame[name].mask(rng.random(rows) < missing)
    return frame


def network_for(spec: Spec, outputs: int = 1, activation: str = "relu", hidden=(12, 7), seed: int = 1, **options):
    return random_network(np.random.default_rng(seed), spec.width, hidden, outputs, activation, **options)


def graph_for(spec: Spec, dtype: str = "float32", outputs: int = 1, closing: str = "none") -> Network:
    """Return a network of every operation and every function that reads people of every kind.

    The hours are looked up in a table. Each function has a branch of its own with two layers, a norm and a skip.
    """
    maker = GraphMaker(np.random.default_rng(1), spec.width, dtype)
    (hours,) = range(spec.width)[spec.columns("hours")]
    table = maker.rng.normal(size=(13, 3)).astype(dtype)
    looked_up = maker.add(Lookup(table), maker.add(Columns((hours,)), 0))
    rest = maker.add(Columns(tuple(i for i in range(spec.width) if i != hours)), 0)
    row = maker.add(Concatenate(), looked_up, rest)
    ends = []
    for activation in FUNCTIONS:
        if activation == Activation("softplus", parameters=(5.0,)):  # no ONNX file can hold it
            continue
        if activation.name == "prelu":
            activation = Activation("prelu", parameters=(*activation.parameters, 0.3, -0.2))
        first = maker.affine(row, 3)
        second = maker.affine(maker.add(activation, maker.scale(first)), 3)
        ends.append(maker.add(activation, maker.add(Sum(), first, second)))
    maker.affine(maker.add(Concatenate(), *ends, looked_up), outputs)
    return Network.from_nodes(maker.nodes, closing)


def asked_network(
    outputs: int = 1,
    activation: str = "relu",
    regression: bool = False,
    dtype: str = "float32",
    hidden: tuple[int, ...] = (12, 7),
):
    """Return a network and its spec; a network that predicts classes ends in probabilities."""
    spec = every_kind(regression=regression, threshold=0.3 if outputs <= 2 else 0.5)
    closing = "none" if regression else {1: "sigmoid"}.get(outputs, "softmax")
    return network_for(spec, outputs, activation, hidden, dtype=dtype, closing=closing), spec


@cache
def asked_audit(outputs: int = 1, **options):
    """Return an audit's report, its network and its spec."""
    (net, spec), frame = asked_network(outputs, **options), people_of_every_kind(40)
    frame = frame if outputs <= 2 else frame.assign(good=np.arange(40) % outputs)
    return audit_report(fairmend.audit(net, spec, frame, pairs=0), net, spec, frame), net, spec
