"""Signs that a spec does not match the data that a network was trained on.

With a wrong spec, every other figure describes a different network: often one that treats everyone equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairmend.base.text import shown

if TYPE_CHECKING:
    from fairmend.spec.spec import Spec


_MOST_VALUES = 4  # labels that a warning names

_FEWEST_ROWS = 20  # with fewer, a constant prediction or a low AUC can be chance
_LOWEST_AUC = 0.4

_CONSTANT = (
    "The network gives all {rows:,} people the same prediction ({prediction}). Check that the spec matches the "
    "training data: scale, encoding, order of columns."
)
_AGAINST_LABELS = (
    "The network ranks people against their labels (AUC {auc:.3f}). Check that the spec matches the training data: "
    "positive value (the one that the model calls class 1; in scikit-learn the last of the sorted values), scale, "
    "order of columns."
)


def spec_warnings(
    predictions: npt.NDArray[np.integer], auc: float | None = None, classes: Sequence[str] = ()
) -> list[str]:
    """Return a sentence for each sign that the spec is wrong, given the predictions (people,) and the AUC if known.

    `classes` are the names of the classes, if they have any.
    """
    found = []
    if len(predictions) >= _FEWEST_ROWS and (predictions == predictions[0]).all():
        number = int(predictions[0])
        name = shown(classes[number]) if number < len(classes) else f"class {number}"
        found.append(_CONSTANT.format(rows=len(predictions), prediction=name))
    if len(predictions) >= _FEWEST_ROWS and auc is not None and auc < _LOWEST_AUC:
        found.append(_AGAINST_LABELS.format(auc=auc))
    return found


def label_warnings(spec: Spec, positive_found: bool, values: Sequence[object], source: object) -> list[str]:
    """Return a sentence if no label is the positive one; `values` are the different labels of the data `source`."""
    if spec.label is None or positive_found:
        return []
    named = ", ".join(f'"{shown(value)}"' for value in values[:_MOST_VALUES])
    more = ", …" if len(values) > _MOST_VALUES else ""
    return [
        f'the label "{shown(spec.label.column)}" is never "{shown(spec.label.positive)}" in {source} (it is '
        f"{named}{more}); check `positive` in the spec"
    ]
