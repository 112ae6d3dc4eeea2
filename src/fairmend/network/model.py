"""Model: what audits, figures and reports need of a model: its scores and its decisions.

A `Network` has them, and so has a model that is only run (`fairmend.models.RunModel`). What needs the graph asks for a
`Network`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Ints


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
