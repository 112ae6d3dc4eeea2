"""The estimator around a network: an MLPClassifier, or a Pipeline that ends in one; frozen, or with a threshold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from fairmend.sklearn._errors import InputError


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


_WRAPPERS = (FrozenEstimator, FixedThresholdClassifier, TunedThresholdClassifierCV)


def _inside(estimator: Any) -> Any:
    """Return the pipeline or network inside of frozen estimators and classifiers with a threshold."""
    while isinstance(estimator, _WRAPPERS):
        estimator = getattr(estimator, "estimator_", estimator.estimator)
    return estimator


def is_frozen(estimator: Any) -> bool:
    """Return whether the network was trained before: it, or the pipeline around it, is in a FrozenEstimator."""
    while isinstance(estimator, _WRAPPERS):
        if isinstance(estimator, FrozenEstimator):
            return True
        estimator = estimator.estimator
    return False


def is_pipeline(estimator: Any) -> bool:
    """Return whether an estimator is a pipeline, frozen, with a threshold, or neither."""
    return isinstance(_inside(estimator), Pipeline)


def can_train_on_some_rows(estimator: Any) -> bool:
    """Return whether the network can be trained on some rows of X, and the steps before it on all.

    A frozen network is not trained, and a classifier with a threshold trains a pipeline inside of it as a whole.
    """
    return not is_frozen(estimator) and not (isinstance(estimator, _WRAPPERS) and is_pipeline(estimator))


def fit_pipeline(estimator: Any, X: Any, y: npt.NDArray[Any], training: npt.NDArray[np.int64]) -> None:
    """Fit the steps before the network on all rows of X, and the network on the training rows.

    The steps then know every category, and see no label of the other rows unless they use labels.
    """
    if not isinstance(estimator, Pipeline):
        estimator.fit(X, y)
        return
    before = estimator[:-1]
    inputs = before.fit_transform(X, y) if len(before) else X
    estimator.steps[:-1] = before.steps
    estimator.steps[-1][1].fit(_safe_indexing(inputs, training), y[training])


def preprocessing_of(estimator: Any) -> Any:
    """Return the steps before the network, or None without a pipeline."""
    inner = _inside(estimator)
    return inner[:-1] if isinstance(inner, Pipeline) else None


def find_mlp(estimator: Any) -> Any:
    """Return the MLPClassifier of an estimator; raise an error if it has none."""
    inner = _inside(estimator)
    last = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
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
    if isinstance(estimator, _WRAPPERS):
        wrapper = copy.copy(estimator)
        name = "estimator_" if hasattr(estimator, "estimator_") else "estimator"
        setattr(wrapper, name, replace_mlp(getattr(estimator, name), mlp))
        return wrapper
    if not isinstance(estimator, Pipeline):
        return mlp
    replaced = copy.copy(estimator)
    replaced.steps = [*estimator.steps[:-1], (estimator.steps[-1][0], mlp)]
    return replaced
