"""The estimator around a network: an MLPClassifier, or a Pipeline that ends in one, frozen or not."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from fairmend.sklearn._errors import InputError

__all__ = ["choose_estimator", "find_mlp", "fit_pipeline", "is_pipeline", "preprocessing_of", "replace_mlp"]


def choose_estimator(given: Any, classes: npt.NDArray[Any], seed: int, set_seed: bool) -> Any:
    """Return the estimator to fit: the default one or a copy of the given one; a frozen one is returned as it is.

    ``seed`` becomes the random state of the network if it has none and ``set_seed`` is true, or by default.
    """
    if isinstance(given, FrozenEstimator):
        frozen = given.estimator
        check_is_fitted(frozen)
        find_mlp(frozen)
        if not np.array_equal(frozen.classes_, classes):
            raise InputError(f"the frozen model was trained on the classes {frozen.classes_}, but y has {classes}")
        return frozen
    estimator = MLPClassifier((32, 16), max_iter=500) if given is None else clone(given)
    mlp = find_mlp(estimator)
    if mlp.random_state is None and (given is None or set_seed):
        mlp.set_params(random_state=seed)
    return estimator


def is_pipeline(estimator: Any) -> bool:
    """Return whether an estimator is a pipeline, frozen or not."""
    return isinstance(estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator, Pipeline)


def fit_pipeline(pipeline: Pipeline, X: Any, y: npt.NDArray[Any], training: npt.NDArray[np.int64]) -> None:
    """Fit the steps before the network on all rows of X, and the network on the training rows.

    The steps then know every category, and see no label of the other rows unless they use labels.
    """
    before = pipeline[:-1]
    inputs = before.fit_transform(X, y) if len(before) else X
    pipeline.steps[:-1] = before.steps
    pipeline.steps[-1][1].fit(_safe_indexing(inputs, training), y[training])


def preprocessing_of(estimator: Any) -> Any:
    """Return the steps before the network, or None without a pipeline."""
    return estimator[:-1] if isinstance(estimator, Pipeline) else None


def find_mlp(estimator: Any) -> Any:
    """Return the MLPClassifier of an estimator; raise an error if it has none."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if hasattr(last, "best_estimator_"):
        raise InputError(f"{type(last).__name__} is not a network. Pass its best_estimator_.")
    if not isinstance(last, MLPClassifier):
        raise InputError(
            f"{type(last).__name__} is not a network that can be repaired. Pass an MLPClassifier, or a Pipeline that "
            "ends in one. For networks of PyTorch, Keras or ONNX, use fairmend.repair."
        )
    return last


def replace_mlp(estimator: Any, mlp: Any) -> Any:
    """Return a copy of the estimator with another MLPClassifier."""
    if not isinstance(estimator, Pipeline):
        return mlp
    replaced = copy.copy(estimator)
    replaced.steps = [*estimator.steps[:-1], (estimator.steps[-1][0], mlp)]
    return replaced
