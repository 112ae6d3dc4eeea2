"""Scores: what a claim about scores compares: the outputs of a network as they are, or as probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairmend.base.arrays import FloatArray, Floats, Ints
from fairmend.network.model import Model


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with what a network computed for them, so that it is computed once.

    Attributes
    ----------
    net : the network
    X : (rows, inputs)
    logits : (rows,) or (rows, outputs)
    """

    net: Model
    X: FloatArray = field(repr=False)
    logits: FloatArray = field(repr=False)

    @classmethod
    def of(cls, net: Model, X: FloatArray) -> ScoredRows:
        """Run the network on X (rows, inputs)."""
        return cls(net, X, net.logits(X))

    @cached_property
    def classes(self) -> Ints:
        """The predictions (rows,)."""
        return self.net.decide(self.logits)

    def probability(self, classes: Ints | None = None) -> Floats:
        """Return the `class_probability` (rows,) of these classes, by default of the predictions."""
        return class_probability(self.logits, self.classes if classes is None else classes)

    def take(self, rows: Ints) -> ScoredRows:
        """Return some of the rows, in the given order."""
        return ScoredRows(self.net, self.X[rows], self.logits[rows])


def compute_scores(net: Model, X: FloatArray, on: str | None) -> Floats:
    """Return the scores (rows, outputs) of X (rows, inputs); ``on`` is that of the spec's claim."""
    return scores_of(net.logits(X), on)


def scores_of(outputs: FloatArray, on: str | None) -> Floats:
    """Return the scores (rows, outputs), float64, of a network's outputs (rows,) or (rows, outputs).

    They are the outputs themselves for "logit" and "output". For "probability" they are the sigmoid of one output, or
    the softmax of several.
    """
    values = outputs.astype(np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if on != "probability":
        return values
    with np.errstate(over="ignore"):
        if values.shape[1] == 1:
            return np.asarray(1 / (1 + np.exp(-values)))
        shares = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def class_probability(outputs: FloatArray, classes: Ints) -> Floats:
    """Return the probability (rows,) by which pairs of people are compared, from outputs (rows,) or (rows, outputs).

    With one or two outputs, it is that of class 1. With more, it is that of one of the classes (rows,) for each row.
    """
    shares = scores_of(outputs, "probability")
    return np.asarray(shares[:, -1] if shares.shape[1] <= 2 else shares[np.arange(len(shares)), classes])
