"""Signs that a spec does not match the data that a network was trained on.

With a wrong spec, every other figure describes a different network: often one that treats everyone equally.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["spec_warnings"]

_FEWEST_ROWS = 20  # with fewer, a constant prediction or a low AUC can be chance
_LOWEST_AUC = 0.4

_CONSTANT = (
    "The network gives all {rows:,} people the same prediction (class {prediction}). Check that the spec matches the "
    "training data: scale, encoding, order of columns."
)
_AGAINST_LABELS = (
    "The network ranks people against their labels (AUC {auc:.3f}). Check that the spec matches the training data: "
    "positive value, scale, order of columns."
)


def spec_warnings(predictions: npt.NDArray[np.integer], auc: float | None = None) -> list[str]:
    """Return a sentence for each sign that the spec is wrong, given the predictions (people,) and the AUC if known."""
    found = []
    if len(predictions) >= _FEWEST_ROWS and (predictions == predictions[0]).all():
        found.append(_CONSTANT.format(rows=len(predictions), prediction=int(predictions[0])))
    if len(predictions) >= _FEWEST_ROWS and auc is not None and auc < _LOWEST_AUC:
        found.append(_AGAINST_LABELS.format(auc=auc))
    return found
