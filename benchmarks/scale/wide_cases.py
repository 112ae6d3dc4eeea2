"""Wide and deep networks, trained from a seed on synthetic people, for `wide` and `gpu`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairmend import Feature, Spec
from fairmend.network import Activation, Affine, Network
from fairmend.repairing.calibrate import calibrate
from fairmend.spec.neighbourhoods import Regions

INPUTS, ROWS, TRAINING_STEPS = 13, 1000, 60
SHAPES = {"3 x 200": (200,) * 3, "10 x 200": (200,) * 10, "4 x 1000": (1000,) * 4}


@dataclass(frozen=True)
class Case:
    """A network, and people: those to calibrate with, and those to repair for."""

    network: Network
    spec: Spec
    X: np.ndarray
    y: np.ndarray
    to_repair: np.ndarray

    def regions(self, count: int) -> Regions:
        """Return the neighbourhoods of the first people to repair for."""
        return self.spec.regions(self.to_repair[:count], self.network.dtype)


def case(hidden: tuple[int, ...], people: int = 100, seed: int = 0) -> Case:
    """Return a network with ReLU, trained on people whose label depends on their numbers, and a little on their sex."""
    rng = np.random.default_rng([seed, 13])
    rows = np.column_stack(
        [rng.integers(0, 2, ROWS + people), rng.normal(size=(ROWS + people, INPUTS - 1)).clip(-4, 4)]
    )
    rows = rows.astype(np.float32)
    odds = rows[:, 1:] @ rng.normal(size=INPUTS - 1) + 0.5 * rows[:, 0] + np.sin(2 * rows[:, 1])
    y = (odds[:ROWS] > 0).astype(np.int64)
    widths = (INPUTS, *hidden, 1)
    affines = [
        Affine((rng.normal(size=(n, m)) * np.sqrt(2 / m)).astype(np.float32), np.zeros(n, np.float32))
        for m, n in pairwise(widths)
    ]
    network = Network(affines, [Activation("relu")] * len(hidden))
    nobody = Regions(rows[:1], rows[:1], np.zeros(1, np.int64), 1)
    trained = calibrate(
        network, nobody, rows[:ROWS], y, steps=TRAINING_STEPS, fairness_weight=0.0, batch_size=256, learning_rate=3e-4
    )
    numbers = [Feature(f"x{i}", "continuous", range=(-4, 4)) for i in range(1, INPUTS)]
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True), *numbers])
    return Case(trained.network, spec, rows[:ROWS], y, rows[ROWS:])
