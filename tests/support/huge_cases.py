"""Specs whose neighbourhoods are far too large to list or to cut into pieces, with a network and people for each."""

import numpy as np

from fairmend import Feature, Network, Spec
from fairmend.network import Activation, Affine


def one_hot(name: str, categories: int = 50) -> Feature:
    names = tuple(f"c{i}" for i in range(categories))
    return Feature(name, "categorical", categories=names, encoding="one-hot", protected=True)


PAY = Feature("pay", "integer", range=(0, 10**12), scale={"mean": 5e11, "std": 3e11}, protected=True)
JOBS = tuple(one_hot(f"job{i}") for i in range(10))
HOURS = Feature("hours", "integer", range=(0, 9))
NEAR = tuple(Feature(f"near{i}", "integer", range=(0, 99), tolerance=20) for i in range(30))

SPECS = {
    "ten one-hot features of fifty values": Spec([*JOBS, HOURS]),
    "three hundred one-hot features": Spec([*(one_hot(f"sex{i}", 12) for i in range(300)), HOURS]),
    "a range of 10^12": Spec([PAY, HOURS]),
    "thirty tolerances": Spec([Feature("age", "integer", range=(0, 5), protected=True), *NEAR]),
}
ONE_HOT = SPECS["ten one-hot features of fifty values"]


def people(spec: Spec, count: int = 12) -> tuple[Network, np.ndarray, np.ndarray]:
    """Return a random network that depends on everything, inputs (count, width) and classes (count,)."""
    rng = np.random.default_rng(0)
    first = Affine((0.3 * rng.normal(size=(4, spec.width))).astype(np.float32), rng.normal(size=4).astype(np.float32))
    last = Affine(rng.normal(size=(1, 4)).astype(np.float32), np.zeros(1, np.float32))
    X = spec.sample_inputs(count, rng)
    return Network([first, last], [Activation("relu")]), X, np.arange(count) % 2
