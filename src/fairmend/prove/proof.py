"""Prove a class for whole neighbourhoods: the network as saved predicts it, and by which margin.

A repair calls this last. It does not rely on the solver, on the margin that step 2 asked for, or on its arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.bounds.inference import closing_error, lead_error, summation_error
from fairmend.bounds.rigorous import bounds_and_layers, differences_and_layers, rigorous_point_logits
from fairmend.network import Network
from fairmend.network.decision import lower_margins
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions

HEADROOM = 1.02
"""A proof covers inference if the margin exceeds the error by this factor, so that the checker's own bounds agree."""

# The checker bounds margins in float64 with roundings of its own. A margin that is proven here is less by this multiple
# of what an evaluation in float64 can lose, so that the checker confirms it. It matters for float64 networks only.
_CHECKER_LOSS = 32

_MOST_WORK = 5 * 10**11  # half of what the checker allows


@dataclass(frozen=True)
class Proof:
    """For each input the class of its neighbourhood, the proven margin and the inference error, each ``(count,)``.

    A margin above 0 proves the class in real arithmetic, and a margin above ``error`` in the network's own precision
    as well, whether you decide on logits or on the probabilities of a closing sigmoid or softmax. A margin of 0 or less
    proves nothing. Margins and errors are about the threshold of the network.
    """

    classes: Ints
    margin: Floats
    error: Floats

    @staticmethod
    def by_blindness(classes: Ints) -> Proof:
        """Return the proof for a network that ignores the protected columns: equal outputs, so an infinite margin."""
        return Proof(classes, np.full(len(classes), np.inf), np.zeros(len(classes)))

    def subset(self, rows: Ints) -> Proof:
        """Return the proof for some of the inputs."""
        return Proof(self.classes[rows], self.margin[rows], self.error[rows])

    @property
    def holds(self) -> np.ndarray:
        """Where the class is proven in real arithmetic, bool ``(count,)``."""
        return np.asarray(self.margin > 0)

    @property
    def covers_inference(self) -> np.ndarray:
        """Where the class is proven for inference in the network's own precision as well, bool ``(count,)``."""
        return np.asarray(self.margin > HEADROOM * self.error)


def prove_regions(network: Network, regions: Regions) -> Proof:
    """Prove each neighbourhood by rigorous linear bounds over all of its pieces."""
    if network.outputs == 1:
        lower, upper, layers = bounds_and_layers(network, regions.lower, regions.upper)
        leads = _leads_of_one_output(lower, upper)
    else:
        differences, layers = differences_and_layers(network, regions.lower, regions.upper)
        leads = _leads_of_outputs(differences)
    margins = _margins(network, leads) - checker_loss(network, regions.lower, regions.upper)
    starts = np.searchsorted(regions.owner, np.arange(regions.count))
    margins = np.minimum.reduceat(margins, starts)
    classes, margin = margins.argmax(axis=1)[regions.owner], margins.max(axis=1)[regions.owner]
    error = _error(network, regions.lower, regions.upper, classes, layers, margin)
    return _proof(network, margins, np.maximum.reduceat(error, starts))


def most_points(network: Network) -> int:
    """Return how many points all neighbourhoods of a certificate may have together: minutes of work for the checker."""
    work = sum(affine.weight.size + 200 * sum(affine.weight.shape) for affine in network.affines)
    return _MOST_WORK // (network.outputs * work)


def prove_points(network: Network, spec: Spec, X: FloatArray) -> Proof:
    """Prove each finite neighbourhood point by point."""
    classes = 2 if network.outputs == 1 else network.outputs
    margins, error = np.full((len(X), classes), np.inf), np.zeros((len(X), classes))
    for rows, points in spec.points(X, dtype=network.dtype):
        lower, upper = rigorous_point_logits(network, points)
        if network.outputs == 1:
            leads = _leads_of_one_output(lower, upper)
        else:
            leads = np.nextafter(_leads_of_outputs(lower[:, :, None] - upper[:, None, :]), -np.inf)
        here = _margins(network, leads)
        np.minimum.at(margins, rows, here - checker_loss(network, points, points))
        best = here.argmax(axis=1)
        np.maximum.at(error, (rows, best), _error(network, points, points, best, None, here.max(axis=1)))
    return _proof(network, margins, error[np.arange(len(X)), margins.argmax(axis=1)])


def _error(
    network: Network,
    lower: FloatArray,
    upper: FloatArray,
    classes: Ints,
    layers: list[tuple[Floats, Floats]] | None,
    margin: Floats,
) -> Floats:
    """Return the error of the margin of classes ``(pieces,)``; a tight bound, which takes longer, where it matters."""
    error = lead_error(network, lower, upper, classes, layers)
    close = ~(margin > HEADROOM * (error + closing_error(network, classes)))
    if close.any():
        near = None if layers is None else [(low[close], high[close]) for low, high in layers]
        error[close] = lead_error(network, lower[close], upper[close], classes[close], near, thorough=True)
    return error


def _margins(network: Network, leads: Floats) -> Floats:
    """Return the margins of each class at the network's threshold, ``(pieces, classes)``, from their leads."""
    return lower_margins(leads, np.arange(leads.shape[1]), network.threshold)


def _leads_of_one_output(lower: Floats, upper: Floats) -> Floats:
    """Return the leads of the classes 0 and 1, ``(pieces, 2)``, from bounds of the logit."""
    return np.concatenate([-upper, lower], axis=1)


def _leads_of_outputs(differences: Floats) -> Floats:
    """Return the lead of each class over all others, ``(pieces, outputs)``, from ``(pieces, outputs, outputs)``."""
    others = ~np.eye(differences.shape[1], dtype=bool)
    return np.asarray(np.where(others, differences, np.inf).min(axis=2))


def checker_loss(network: Network, lower: FloatArray, upper: FloatArray) -> Floats:
    """Return what the checker's own roundings may take from a margin over each box: ``(pieces, 1)``."""
    offset = abs(network.offset) * float(np.finfo(np.float64).eps)
    return np.asarray(_CHECKER_LOSS * (summation_error(network, lower, upper) + offset)[:, None])


def _proof(network: Network, margins: Floats, error: Floats) -> Proof:
    classes = margins.argmax(axis=1)
    return Proof(classes, margins.max(axis=1), error + closing_error(network, classes))
