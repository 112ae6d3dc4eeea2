"""Prove that the scores of whole neighbourhoods differ by at most delta, for the network as saved.

As in `proof`, nothing here relies on the solver or on the width that step 2 asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.bounds.inference import inference_error
from fairmend.bounds.rigorous import bounds_and_layers, differences_and_layers, rigorous_point_logits
from fairmend.network import Network
from fairmend.prove.proof import HEADROOM, checker_loss
from fairmend.prove.score_bounds import sigmoid_bounds, softmax_bounds
from fairmend.spec import Spec
from fairmend.spec.claim import Claim
from fairmend.spec.neighbourhoods import Regions

_AGREE = 1 + 1e-12
"""A difference is taken to be larger by this factor, so that the checker, which rounds differently, agrees."""


@dataclass(frozen=True)
class ScoreProof:
    """How much the scores of each neighbourhood differ.

    ``low`` and ``high (count, outputs)`` are bounds, in real arithmetic, of each raw output over the neighbourhood; of
    each probability if the claim is about the probabilities of several outputs. ``spread (count,)`` bounds the
    difference of the scores of any two members, and is proven to be allowed where it is at most ``delta``. ``error
    (count,)`` is what inference in the network's own precision can add to a difference.
    """

    low: Floats
    high: Floats
    spread: Floats
    error: Floats
    delta: float

    @staticmethod
    def by_blindness(outputs: Floats, claim: Claim) -> ScoreProof:
        """Return the proof for a network that ignores all that varies: the outputs of a neighbourhood are equal."""
        values = outputs.reshape(len(outputs), -1)
        nothing = np.zeros(len(values))
        return ScoreProof(values, values, nothing, nothing, claim.limit)

    def subset(self, rows: Ints) -> ScoreProof:
        """Return the proof for some of the inputs."""
        return ScoreProof(self.low[rows], self.high[rows], self.spread[rows], self.error[rows], self.delta)

    @property
    def margin(self) -> Floats:
        """How far each difference is below delta, ``(count,)``; negative where nothing is proven."""
        return np.asarray(self.delta - self.spread)

    @property
    def holds(self) -> np.ndarray:
        """Where the claim is proven in real arithmetic, bool ``(count,)``."""
        return np.asarray(self.spread <= self.delta)

    @property
    def covers_inference(self) -> np.ndarray:
        """Where the claim is proven for inference in the network's own precision as well, bool ``(count,)``."""
        return np.asarray(self.margin >= HEADROOM * self.error)


def prove_scores_over_regions(network: Network, regions: Regions, claim: Claim) -> ScoreProof:
    """Prove each neighbourhood by rigorous linear bounds over all of its pieces."""
    starts = np.searchsorted(regions.owner, np.arange(regions.count))
    loss = checker_loss(network, regions.lower, regions.upper)
    if _bounds_probabilities(network, claim):
        differences, layers = differences_and_layers(network, regions.lower, regions.upper)
        low, high = softmax_bounds(differences - 2 * loss[:, :, None])
    else:
        low, high, layers = bounds_and_layers(network, regions.lower, regions.upper)
        low, high = low - loss, high + loss
    error = inference_error(network, regions.lower, regions.upper, layers, thorough=True)
    return _proof(
        network,
        claim,
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        np.maximum.reduceat(error, starts),
    )


def prove_scores_at_points(network: Network, spec: Spec, X: FloatArray, claim: Claim) -> ScoreProof:
    """Prove each finite neighbourhood point by point."""
    shape = len(X), network.outputs
    low, high, error = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    for rows, points in spec.points(X, dtype=network.dtype):
        lower, upper = rigorous_point_logits(network, points)
        loss = checker_loss(network, points, points)
        lower, upper = lower - loss, upper + loss
        if _bounds_probabilities(network, claim):
            lower, upper = softmax_bounds(np.nextafter(lower[:, :, None] - upper[:, None, :], -np.inf))
        np.minimum.at(low, rows, lower)
        np.maximum.at(high, rows, upper)
        np.maximum.at(error, rows, inference_error(network, points, points))
    return _proof(network, claim, low, high, error)


def _bounds_probabilities(network: Network, claim: Claim) -> bool:
    """Return whether the bounds are of probabilities: a sigmoid keeps the order of raw outputs, a softmax does not."""
    return claim.on == "probability" and network.outputs > 1


@np.errstate(all="ignore")
def _proof(network: Network, claim: Claim, low: Floats, high: Floats, error: Floats) -> ScoreProof:
    least, most = low, high
    if claim.on == "probability":
        # A sigmoid moves by at most a quarter of what its input moves, a softmax by half; both are computed to 16 u.
        unit = float(np.finfo(network.dtype).eps) / 2
        error = (error if network.outputs == 1 else error.max(axis=1, keepdims=True) * 2) / 4 + 16 * unit
        if network.outputs == 1:
            least, most = sigmoid_bounds(low, high)
    spread = np.nextafter((most - least) * _AGREE, np.inf)
    finite = np.isfinite(low) & np.isfinite(high)  # what overflows has no bounds to write down
    spread = np.where(finite, spread, np.inf).max(axis=1)
    return ScoreProof(low, high, spread, 2 * error.max(axis=1), claim.limit)
