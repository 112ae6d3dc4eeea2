"""The activations that fairmend knows: their names, and what they compute.

To add one, write its function here and enter it in `_FUNCTIONS`. Then give it bounds (fairmend.bounds: relaxation,
rigorous, enclosure, inference) and a line in `report/templates/what_if_model.js`, and name it in the tables of the
formats that have it (`formats/onnx/nodes.py` and `file.py`, `formats/keras/layers.py` and `write.py`,
`formats/torch/module.py`, `formats/sklearn.py`). The checker, fairmend_check, has its own. docs/formats.md lists all of
these places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network.operations.base import require_sources

__all__ = ["ACTIVATIONS", "Activation", "parse_activation"]

_TORCH_SLOPE = 0.01  # torch.nn.LeakyReLU's default


def _relu(values: FloatArray, slope: float) -> None:
    np.maximum(values, 0, out=values)


def _leaky_relu(values: FloatArray, slope: float) -> None:
    np.maximum(values, values * values.dtype.type(slope), out=values)


def _tanh(values: FloatArray, slope: float) -> None:
    np.tanh(values, out=values)


def _sigmoid(values: FloatArray, slope: float) -> None:
    # exp overflows to inf for very negative values, and 1/inf = 0 is then the right answer.
    with np.errstate(over="ignore"):
        np.exp(np.negative(values, out=values), out=values)
    values += 1
    np.reciprocal(values, out=values)


def _identity(values: FloatArray, slope: float) -> None:
    pass


# Each replaces an array of any shape by its activation, in place.
_FUNCTIONS: dict[str, Callable[[FloatArray, float], None]] = {
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "identity": _identity,
}
ACTIVATIONS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Activation:
    """An elementwise function between two affine layers; `slope` is the factor of leaky ReLU on negative values."""

    name: str
    slope: float = 0.0

    def __post_init__(self) -> None:
        """Refuse names and slopes for which no bound is implemented."""
        if self.name not in ACTIVATIONS:
            raise FairmendError(f"unknown activation {self.name!r}; supported: {', '.join(ACTIVATIONS)}")
        if self.name == "leaky_relu":
            if not 0 <= self.slope < 1:
                raise FairmendError(f"leaky_relu has slope {self.slope}; it must satisfy 0 ≤ slope < 1")
        elif self.slope != 0.0:
            raise FairmendError(f"{self.name} takes no slope (got {self.slope}); only leaky_relu does")

    def __str__(self) -> str:
        """Return the form that `parse_activation` reads: relu, leaky_relu(0.01)."""
        return f"{self.name}({self.slope:g})" if self.name == "leaky_relu" else self.name

    @property
    def piecewise_linear(self) -> bool:
        """Whether the function is linear on either side of 0; each place that bounds functions names those it knows."""
        return self.name in ("relu", "leaky_relu", "identity")

    @property
    def increasing(self) -> bool:
        """Whether the function never falls."""
        return True

    @property
    def kind(self) -> str:
        """The word for it in messages and files."""
        return self.name

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of its source."""
        require_sources(self.kind, widths, 1, 1)
        return widths[0]

    def compute(self, values: Sequence[FloatArray], out: FloatArray) -> None:
        """Compute the function of each number; ``out`` may be the array of the source."""
        if values[0] is not out:
            out[...] = values[0]
        self.apply(out)

    def astype(self, dtype: npt.DTypeLike) -> Activation:
        """Return the function with its numbers rounded to another dtype."""
        return Activation(self.name, float(np.asarray(self.slope, dtype)))

    def apply(self, values: FloatArray) -> None:
        """Replace `values`, of any shape, by their activation, in place."""
        _FUNCTIONS[self.name](values, self.slope)


def parse_activation(activation: str | Activation) -> Activation:
    """Return 'relu', 'leaky_relu' (with PyTorch's slope) or 'leaky_relu(0.2)' as an Activation."""
    if isinstance(activation, Activation):
        return activation
    leaky = re.fullmatch(r"leaky_relu(?:\(([^()]*)\))?", activation)
    if leaky is None:
        return Activation(activation)
    try:
        return Activation("leaky_relu", float(leaky[1]) if leaky[1] is not None else _TORCH_SLOPE)
    except ValueError as error:
        raise FairmendError(f"{activation!r} has no number in its brackets; write leaky_relu(0.01)") from error
