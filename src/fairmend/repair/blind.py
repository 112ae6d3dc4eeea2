"""Blindness: fold a fixed value of the protected columns into the first bias, and set their weights to zero.

The output then does not depend on them at all, for every input there is: nothing has to be searched, solved or sampled
to see it. What it costs is what the network knew only from these columns; which value is folded in decides how much of
the rest stays, and the calibration set chooses it.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.metrics import balanced_accuracy
from fairmend.network import Affine, Network
from fairmend.spec import Spec
from fairmend.spec.features import Feature

MOST_REFERENCES = 1024
"""More combinations of protected values than this are not all tried: an even choice of each feature's is."""


def blind_columns(spec: Spec) -> list[int]:
    """The network's inputs that hold protected features."""
    return [column for feature in spec.protected for column in range(*spec.columns(feature.name).indices(spec.width))]


def is_blind(network: Network, columns: list[int]) -> bool:
    """Whether the first layer's weights are exactly 0 there."""
    return not network.affines[0].weight[:, columns].any()


def hide(X: FloatArray, columns: list[int]) -> FloatArray:
    """X with zeros in these columns: what a blind network sees, and what keeps its zero weights at zero in training."""
    hidden = X.copy()
    hidden[:, columns] = 0
    return hidden


def fold(network: Network, columns: list[int], reference: FloatArray) -> Network:
    """The network that always sees ``reference (len(columns),)`` in these columns."""
    first = network.affines[0]
    weight = first.weight.astype(np.float64)
    bias = first.bias + weight[:, columns] @ np.asarray(reference, dtype=np.float64)
    weight[:, columns] = 0
    folded = Affine(weight.astype(network.dtype), bias.astype(network.dtype))
    return network.with_affines([folded, *network.affines[1:]])


def blind(network: Network, spec: Spec, X_cal: FloatArray, y_cal: np.ndarray) -> Network:
    """Fold in the reference that keeps most on the calibration set: balanced accuracy, then answers unchanged."""
    columns = blind_columns(spec)
    before = network.predict(X_cal)
    best: tuple[float, float] | None = None
    chosen = None
    for reference in references(spec, X_cal):
        seen = X_cal.copy()
        seen[:, columns] = reference
        answers = network.predict(seen)
        score = (balanced_accuracy(y_cal, answers), float(np.mean(answers == before)))
        if best is None or score > best:
            best, chosen = score, reference
    if chosen is None:
        raise FairmendError("the spec has no protected feature to be blind to")
    return fold(network, columns, chosen)


def references(spec: Spec, X_cal: FloatArray) -> FloatArray:
    """Values of the protected columns worth trying, ``(references, columns)``: the mean first, then possible ones."""
    most = max(2, int(MOST_REFERENCES ** (1 / len(spec.protected))))
    combinations = product(*(_possible(feature, most) for feature in spec.protected))
    mean = X_cal[:, blind_columns(spec)].mean(axis=0)
    return np.stack([mean, *(np.concatenate(parts) for parts in combinations)]).astype(X_cal.dtype)


def _possible(feature: Feature, most: int) -> FloatArray:
    """Possible values of a feature as the network sees them, evenly chosen, ``(at most most, width)``."""
    if feature.one_hot:
        return feature.corners
    lo, hi = feature.bounds
    if feature.kind != "continuous":
        most = min(most, int(hi - lo) + 1)
    values = np.linspace(lo, hi, most)
    return feature.scaled(values if feature.kind == "continuous" else np.unique(np.round(values)))[:, None]
