"""Scores: what a claim about them is about, and how far apart those of a neighbourhood can be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.rounding import GENEROUS, LIBRARY, TINY, Array, Precision, down, gamma, up
from fairmend_check.kernel.spec import ScoreClaim

MAX_PROBABILITIES = 100  # of one model: the bounds of a softmax need memory for the cube of their number

_SIGMOID = function_of(Activation("sigmoid"))


@dataclass(frozen=True)
class Score:
    """A score of a model with this number of outputs: each raw output, its sigmoid, or each softmax of several."""

    name: str  # "output", "sigmoid" or "softmax"
    outputs: int

    @staticmethod
    def of(claim: ScoreClaim, outputs: int) -> Score:
        """Return the score that a claim is about; refuse a softmax of too many outputs."""
        if claim.on == "probability" and outputs > MAX_PROBABILITIES:
            raise CheckError(f"claims about more than {MAX_PROBABILITIES} probabilities cannot be checked")
        return Score("output" if claim.on != "probability" else "sigmoid" if outputs == 1 else "softmax", outputs)

    @property
    def forms(self) -> Array:
        """The linear forms of the outputs (forms, outputs) whose lower bounds `from_forms` needs.

        For a softmax these are all z_j - z_k, else z_k and -z_k.
        """
        each = np.eye(self.outputs)
        if self.name == "softmax":
            return np.asarray((each[:, None] - each[None]).reshape(-1, self.outputs))
        return np.concatenate([each, -each])

    def from_forms(self, least: Array) -> tuple[Array, Array]:
        """Return bounds of the scores over boxes (boxes, outputs), from lower bounds of the forms (boxes, forms)."""
        if self.name == "softmax":
            return _softmax(least.reshape(-1, self.outputs, self.outputs))
        return least[:, : self.outputs], -least[:, self.outputs :]

    def from_outputs(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Do the same from bounds of the outputs (boxes, outputs)."""
        if self.name != "softmax":
            return low, high
        return _softmax(down(low[:, :, None] - high[:, None, :]))

    def in_inference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> tuple[Array, Array]:
        """Return bounds of the scores that a program computes (boxes, outputs), from those that `from_forms` gives.

        ``error`` is that of each raw output in inference, where a probability is rounded as well; ``kind``
        is None for exact arithmetic. A softmax of outputs that are off by e is off by at most e / 2: the sizes of its
        derivatives, p (1 - p) and p q for each of the other probabilities q, add up to 2 p (1 - p).
        """
        with np.errstate(all="ignore"):
            if kind is not None and self.name != "softmax":
                low, high = down(low - error), up(high + error)
            if self.name == "sigmoid":
                low, high = _SIGMOID.value_range(low, high)
            if kind is None or self.name == "output":
                return low, high
            rounding = np.full((1, 1), 16 * kind.u + kind.tiny)
            if self.name == "softmax":
                rounding = rounding + 0.5 * error.max(axis=1, keepdims=True)
            return down(low - GENEROUS * rounding), up(high + GENEROUS * rounding)

    def difference(self, low: Array, high: Array, error: Array, kind: Precision | None) -> Array:
        """Return how far apart two scores can be (inputs,), from bounds of the scores as `in_inference` takes them."""
        low, high = self.in_inference(low, high, error, kind)
        with np.errstate(all="ignore"):
            most: Array = up(high - low).max(axis=1)
        return most


def _softmax(least: Array) -> tuple[Array, Array]:
    """Enclose each probability (boxes, outputs), from lower bounds of z_j - z_k (boxes, j, k) for j != k."""
    slip = LIBRARY + gamma(least.shape[1] + 4)
    others = ~np.eye(least.shape[1], dtype=np.bool_)
    with np.errstate(all="ignore"):
        below = np.where(others, np.exp(least), 0.0).sum(axis=1) * (1 - slip)  # of the others' sum of exp(z_j - z_k)
        # z_j - z_k is at most minus the lower bound of z_k - z_j.
        above = np.where(others, np.exp(-least), 0.0).sum(axis=2) * (1 + slip) + TINY
        return np.maximum(down(1 / up(1 + above)), 0.0), np.minimum(up(1 / down(1 + below)), 1.0)
