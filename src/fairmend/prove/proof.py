"""The re-check: which class every neighbourhood provably gets from the network as it is saved, and by what margin.

Nothing here trusts the solver, the margin it was asked for, or the arithmetic that step 2 ran in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.arrays import FloatArray, Floats, Ints
from fairmend.bounds.inference import inference_error
from fairmend.bounds.rigorous import rigorous_bounds, rigorous_differences, rigorous_point_logits
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

HEADROOM = 1.02
"""A proof counts as covering inference with this much room, so that a checker with its own bounds finds so too."""


@dataclass(frozen=True)
class Proof:
    """For each input the class its neighbourhood gets, the proven margin, and the error of inference; ``(count,)``.

    A margin above 0 proves the class for real arithmetic; above ``error``, for the network's own floating point too.
    A margin of 0 or less proves nothing.
    """

    classes: Ints
    margin: Floats
    error: Floats

    @staticmethod
    def by_blindness(classes: Ints) -> Proof:
        """What a network that ignores the protected columns gives: one output, so one answer, by any margin."""
        return Proof(classes, np.full(len(classes), np.inf), np.zeros(len(classes)))

    def subset(self, rows: Ints) -> Proof:
        """The proof of some of the inputs."""
        return Proof(self.classes[rows], self.margin[rows], self.error[rows])

    @property
    def holds(self) -> np.ndarray:
        """Where the class is proven in real arithmetic."""
        return np.asarray(self.margin > 0)

    @property
    def covers_inference(self) -> np.ndarray:
        """Where it is proven for inference in the network's own precision as well."""
        return np.asarray(self.margin > HEADROOM * self.error)


def prove_regions(network: Network, regions: Regions) -> Proof:
    """Prove over every piece of every neighbourhood, by rigorous linear bounds."""
    if network.outputs == 1:
        lower, upper = rigorous_bounds(network, regions.lower, regions.upper)
        slack = _slack_of_one(lower, upper)
    else:
        slack = _slack_of_many(rigorous_differences(network, regions.lower, regions.upper))
    error = inference_error(network, regions.lower, regions.upper)
    return _proof(slack, error, regions.owner, regions.count)


def prove_points(network: Network, spec: Spec, X: FloatArray) -> Proof:
    """Prove over the exact points of finite neighbourhoods, streamed."""
    classes = 2 if network.outputs == 1 else network.outputs
    slack, error = np.full((len(X), classes), np.inf), np.zeros((len(X), network.outputs))
    for rows, points in spec.points(X, dtype=network.dtype):
        lower, upper = rigorous_point_logits(network, points)
        if network.outputs == 1:
            here = _slack_of_one(lower, upper)
        else:
            here = _slack_of_many(lower[:, :, None] - upper[:, None, :])
            here = np.nextafter(here, -np.inf)
        np.minimum.at(slack, rows, here)
        np.maximum.at(error, rows, inference_error(network, points, points))
    return _proof(slack, error, np.arange(len(X)), len(X))


def _slack_of_one(lower: Floats, upper: Floats) -> Floats:
    """By how much each piece is negative and positive, ``(pieces, 2)``."""
    return np.concatenate([-upper, lower], axis=1)


def _slack_of_many(differences: Floats) -> Floats:
    """By how much each class leads all others, ``(pieces, outputs)``, from ``(pieces, outputs, outputs)``."""
    others = ~np.eye(differences.shape[1], dtype=bool)
    return np.asarray(np.where(others, differences, np.inf).min(axis=2))


def _proof(slack: Floats, error: Floats, owner: Ints, count: int) -> Proof:
    starts = np.searchsorted(owner, np.arange(count))
    slack = np.minimum.reduceat(slack, starts)
    # Two logits that compete can both be off.
    worst = np.maximum.reduceat(error, starts).max(axis=1) * (1.0 if error.shape[1] == 1 else 2.0)
    return Proof(slack.argmax(axis=1), slack.max(axis=1), worst)
