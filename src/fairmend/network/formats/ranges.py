"""Between which numbers the values of a step surely are: of one sign, as probabilities, they are no logits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairmend.network import Activation, Columns, Concatenate, Operation, Product, Softmax, Sum
from fairmend.network.folding import Norm

Range = tuple[float, float]
ALL: Range = (-math.inf, math.inf)

_FUNCTIONS: dict[str, Range] = {
    **dict.fromkeys(("sigmoid", "hardsigmoid"), (0.0, 1.0)),
    **dict.fromkeys(("tanh", "softsign", "sin", "cos"), (-1.0, 1.0)),
    **dict.fromkeys(("relu", "square", "abs", "exp", "softplus", "sqrt", "rsqrt"), (0.0, math.inf)),
}


def range_of(operation: Operation, reads: Sequence[Range]) -> Range:
    """Return the range of an operation, from those of what it reads; the whole line where that is not known."""
    if isinstance(operation, Activation):
        if operation.name == "reciprocal":
            return (0.0, math.inf) if reads[0][0] >= 0 else ALL
        return operation.parameters if operation.name == "clip" else _FUNCTIONS.get(operation.name, ALL)  # type: ignore[return-value]
    if isinstance(operation, Softmax):
        return 0.0, 1.0
    if isinstance(operation, Columns | Concatenate):
        return min(low for low, _ in reads), max(high for _, high in reads)
    if isinstance(operation, Sum):
        return sum(low for low, _ in reads), sum(high for _, high in reads)
    if isinstance(operation, Product):
        ends = [operation.length * _times(a, b) for a in reads[0] for b in reads[1]]
        return min(ends), max(ends)
    return ALL


def range_of_norms(norms: Sequence[Norm], read: Range) -> Range:
    """Return the range after scalings; the whole line after batch normalisation."""
    for norm in norms:
        if norm.variance is not None:
            return ALL
        gain, shift = (
            np.asarray(default if part is None else part) for part, default in ((norm.gain, 1), (norm.shift, 0))
        )
        parts = np.broadcast_arrays(np.asarray(norm.mean, np.float64).reshape(-1), gain.reshape(-1), shift.reshape(-1))
        ends = [
            _times(end - m, g) + s for m, g, s in zip(*(part.tolist() for part in parts), strict=True) for end in read
        ]
        read = min(ends), max(ends)
    return read


def _times(a: float, b: float) -> float:
    return 0.0 if 0 in (a, b) else a * b
