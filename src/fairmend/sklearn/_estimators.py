"""What surrounds a network in scikit-learn: its estimator or pipeline, its spec and its threshold, which must agree."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.network.decision import DEFAULT_THRESHOLD, as_threshold
from fairmend.spec import Feature, Spec
from fairmend.spec.draft.draft import require_columns
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.read_values import is_frame

ProtectedColumns = Sequence[str | int] | str | int


_WRAPPERS = (FrozenEstimator, FixedThresholdClassifier, TunedThresholdClassifierCV)


class InputError(FairmendError, ValueError):
    """A `FairmendError` that is also a ValueError, as scikit-learn expects of wrong input."""


@contextmanager
def as_input_errors() -> Iterator[None]:
    """Raise every `FairmendError` as an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except FairmendError as error:
        raise InputError(str(error)) from error


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


def as_frame(X: Any) -> pd.DataFrame:
    """Return X as a data frame with text as column names; the columns of an array are x0, x1, ..."""
    if is_frame(X):
        return X.rename(columns=str)
    values = np.asarray(X)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])


def _protected_names(protected: ProtectedColumns, columns: Sequence[str]) -> list[str]:
    """Return the names of the protected columns, given by name or position."""
    listed = [protected] if isinstance(protected, str | int | np.integer) else list(protected)
    for entry in listed:
        if isinstance(entry, int | np.integer) and not -len(columns) <= entry < len(columns):
            raise InputError(f"protected column {entry}: X has only the columns 0 to {len(columns) - 1}")
    found = [columns[entry] if isinstance(entry, int | np.integer) else str(entry) for entry in listed]
    return require_columns(found, columns, "protected")


def guess_spec(frame: pd.DataFrame, protected: ProtectedColumns, frozen: bool) -> Spec:
    """Return a spec guessed from X: numbers standardized, text one-hot; a frozen network reads X unchanged."""
    texts = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
    if frozen and texts:
        raise InputError(f'it is unknown how the frozen network reads "{texts[0]}". Pass its spec or its pipeline.')
    names = _protected_names(protected, [str(name) for name in frame.columns])
    return draft_from_data(frame, names, scale="none" if frozen else "standard", leave_out=False).spec


def spec_of_pipeline(preprocessing: Any, X: Any, given: Spec | None, protected: ProtectedColumns | None) -> Spec:
    """Return the given spec, or the one read from a fitted pipeline; raise an error if they encode X differently.

    The pipeline is read even if a spec is given: a step that no spec can express, such as an imputer that uses other
    columns, may do nothing to this X and still let protected columns through later.
    """
    frame = as_frame(X)
    if given is not None:
        names = [feature.name for feature in given.protected]
    else:
        assert protected is not None
        names = _protected_names(protected, [str(name) for name in frame.columns])
    read = Spec.from_sklearn(preprocessing, names, data=frame)
    spec = read if given is None else given
    if {f.name: f.missing for f in read.features} != {f.name: f.missing for f in spec.features}:
        raise InputError(
            "the spec and the pipeline replace missing values differently. Use the spec of the pipeline "
            "(Spec.from_sklearn)."
        )
    ours, theirs = spec.encode(frame, np.float64), transform(preprocessing, X, np.float64)
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-5, atol=1e-6):
        raise InputError(
            "the spec and the pipeline encode X differently. Use the spec of the pipeline (Spec.from_sklearn), or pass "
            "the network without the pipeline."
        )
    return spec


def transform(preprocessing: Any, X: Any, dtype: npt.DTypeLike) -> FloatArray:
    """Return what a fitted pipeline gives the network, as a dense array."""
    columns = preprocessing.transform(X)
    return np.asarray(columns.toarray() if hasattr(columns, "toarray") else columns, dtype=dtype)


def encode_any_value(spec: Spec, frame: pd.DataFrame, dtype: npt.DTypeLike) -> FloatArray:
    """Return the frame encoded by the spec, including numbers beyond its ranges."""
    return Spec([_widened(feature, frame) for feature in spec.features]).encode(frame, dtype)


def _widened(feature: Feature, frame: pd.DataFrame) -> Feature:
    """Return the feature with a range that contains all numbers in the frame."""
    if feature.categories or feature.as_is or feature.name not in frame.columns:
        return feature
    values = pd.to_numeric(frame[feature.name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    low, high = feature.bounds
    ends = (float(min(low, values.min())), float(max(high, values.max()))) if values.size else (low, high)
    missing = None if feature.missing is None else float(feature.missing)
    return replace(feature, kind="continuous", range=ends, tolerance=0.0, missing=missing)


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
