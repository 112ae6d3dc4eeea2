"""Classifiers of scikit-learn that decide at a threshold of their own: the estimator in them, and the threshold.

`FixedThresholdClassifier` and `TunedThresholdClassifierCV` predict the second class where its probability is at least
the threshold, which is what a threshold means here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairmend.base.errors import FairmendError

_NAMES = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")


class ThresholdClassifier(NamedTuple):
    """What a classifier with a threshold consists of, and its own name."""

    name: str
    estimator: Any
    threshold: float


def open_threshold_classifier(source: Any) -> ThresholdClassifier | None:
    """Return the parts of a classifier with a threshold; None for any other object.

    Raise FairmendError for one whose decision is not a threshold of the second class's probability.
    """
    name = type(source).__name__
    if name not in _NAMES or type(source).__module__.partition(".")[0] != "sklearn":
        return None
    tuned = name == "TunedThresholdClassifierCV"
    if tuned and not hasattr(source, "best_threshold_"):
        raise FairmendError(f"{name}: is not fitted; call fit first")
    estimator = getattr(source, "estimator_", source.estimator)
    if type(estimator).__name__ == "FrozenEstimator":
        estimator = estimator.estimator
    threshold = source.best_threshold_ if tuned else source.threshold
    positive = source._curve_scorer._get_pos_label() if tuned else source.pos_label
    classes = getattr(estimator, "classes_", None)
    if positive is not None and classes is not None and positive != classes[-1]:
        raise FairmendError(
            f"{name}: its threshold is of the probability of {positive!r}, the first class. Set pos_label to the "
            f"second class, {classes[-1]!r}, and the threshold to 1 minus this one."
        )
    if source.response_method == "decision_function" or not hasattr(estimator, "predict_proba"):
        raise FairmendError(
            f"{name}: its threshold is of decision_function, not of a probability. Set "
            'response_method="predict_proba", and the threshold to a probability.'
        )
    return ThresholdClassifier(name, estimator, 0.5 if threshold == "auto" else _probability(threshold, name))


def _probability(threshold: Any, name: str) -> float:
    if not 0 < float(threshold) < 1:
        raise FairmendError(
            f"{name}: its threshold is {float(threshold):g}, so it gives everyone the same answer. Set a threshold "
            "above 0 and below 1."
        )
    return float(threshold)
