"""The threshold of a classifier: from its parameter, its spec or its estimator, which must agree."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from sklearn.model_selection import FixedThresholdClassifier

from fairmend.base.text import as_text
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.network.decision import DEFAULT_THRESHOLD, as_threshold
from fairmend.sklearn._errors import InputError
from fairmend.spec import Spec


def agree_on_threshold(parameter: Any, spec: Spec, estimator: Any, classes: npt.NDArray[Any]) -> Spec:
    """Return the spec with the threshold that the parameter, the spec or the fitted estimator gives.

    Without a label, the spec gets one: it has the place for a threshold.
    """
    given: dict[str, float] = {} if parameter is None else {"the parameter threshold": as_threshold(parameter)}
    decided = open_threshold_classifier(estimator)
    if decided is not None:
        given[f"the {decided.name}"] = decided.threshold
    if spec.threshold != DEFAULT_THRESHOLD:
        given["the spec"] = spec.threshold
    if len(set(given.values())) > 1:
        (one, first), (other, second) = next((a, b) for a in given.items() for b in given.items() if a[1] != b[1])
        raise InputError(f"{one} says {first:g}, but {other} {second:g}. Give one threshold.")
    threshold = next(iter(given.values()), DEFAULT_THRESHOLD)
    if threshold == spec.threshold:
        return spec
    if len(classes) > 2:
        raise InputError(f"a threshold needs two classes, but y has {len(classes)}. Leave it out.")
    if spec.label is not None:
        return spec.at_threshold(threshold)
    taken = {spec.id_column, *(feature.name for feature in spec.features)}
    column = next(name for name in ("y", *(f"y{i}" for i in range(len(taken)))) if name not in taken)
    label = {"column": column, "positive": as_text(classes[1]), "threshold": threshold}
    return Spec.from_dict({**spec.to_dict(), "label": label})


def with_threshold(estimator: Any, threshold: float, classes: npt.NDArray[Any]) -> Any:
    """Return an estimator that decides at a threshold: itself if it does, else in a FixedThresholdClassifier."""
    if threshold == DEFAULT_THRESHOLD or open_threshold_classifier(estimator) is not None:
        return estimator
    return FixedThresholdClassifier(
        estimator, threshold=threshold, pos_label=classes[1], response_method="predict_proba"
    )
