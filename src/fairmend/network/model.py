"""Model: what audits, figures and reports need of a model: its scores and its decisions.

A `Network` has them, and so has a model that is only run (`fairmend.models.RunModel`). What needs the graph asks for a
`Network`.

Scores: what a claim about scores compares: the outputs of a network as they are, or as probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints


@runtime_checkable
class Model(Protocol):
    """A function of rows (rows, inputs) whose logits decide."""

    @property
    def inputs(self) -> int:
        """The number of columns of X."""

    @property
    def outputs(self) -> int:
        """The number of logits for each row; 1 for a binary classifier."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of rows: float32 or float64."""

    @property
    def threshold(self) -> float:
        """The probability of class 1 from which it is predicted."""

    @property
    def offset(self) -> float:
        """The log-odds of the threshold."""

    @property
    def closing(self) -> str:
        """What comes after the logits: "none", "sigmoid" or "softmax"."""

    @property
    def read_columns(self) -> Bools:
        """Which input columns the outputs can depend on, bool (inputs,)."""

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs): (rows,) for one output, (rows, N) for N."""

    def predict(self, X: npt.ArrayLike) -> Ints:
        """Return the predicted class of each row (rows,)."""

    def decide(self, logits: FloatArray) -> Ints:
        """Return the predicted classes of logits."""

    def centre(self, logits: FloatArray) -> FloatArray:
        """Return logits that decide at 0."""

    def probabilities_of(self, logits: FloatArray) -> FloatArray:
        """Return the probability of class 1 (rows,), or of every class (rows, N), of logits."""


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
