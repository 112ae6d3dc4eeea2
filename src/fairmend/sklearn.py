"""scikit-learn: a classifier that trains a network, repairs it and proves it, in one `fit`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.network.formats.sklearn import read_estimator, to_estimator
from fairmend.repair.run import repair
from fairmend.spec import Feature, Spec
from fairmend.spec.draft.draft import require_columns
from fairmend.spec.draft.from_data import draft_from_data
from fairmend.spec.frames import is_frame

if TYPE_CHECKING:
    from fairmend.report import Report

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.utils import assert_all_finite, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise FairmendError('fairmend.sklearn needs scikit-learn 1.7 or later; pip install "fairmend[sklearn]"') from error

__all__ = ["FairRepairClassifier", "InputError", "RepairWarning"]


ENOUGH_ROWS = 50  # as for `fairmend repair`: with fewer left to calibrate, repair inputs are used for it too


class InputError(FairmendError, ValueError):
    """A `FairmendError` that scikit-learn knows as a ValueError."""


class RepairWarning(UserWarning):
    """What a repair says should be looked at before the network is used."""


class FairRepairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network that treats similar people alike, provably: trained, repaired and certified by `fit`.

    The people who count as similar are those who differ in nothing but the protected columns (and, by up to their
    tolerance, in columns that `spec` gives one). What is proven is in `certificate_` and in `result_`; it is about
    people within the ranges of `spec_`. Others get a prediction all the same.

    Parameters
    ----------
    estimator : an MLPClassifier, or a Pipeline that ends in one; an MLPClassifier of its own by default. What comes
        before the network in the pipeline must be something that `Spec.from_sklearn` can read. A fitted one that is to
        be repaired as it is goes in a `sklearn.frozen.FrozenEstimator`.
    spec : who counts as similar; `fairmend.Spec`. By default it is read from the pipeline, or guessed from X, with
        numbers standardized and categories one-hot. With a spec, X is a DataFrame that it encodes, or an array that is
        encoded already.
    protected : columns in which similar people may differ, by name or number; needed where there is no spec.
    method : of `fairmend.repair`.
    repair_rows, calibration_rows : how many rows of X are repaired, and how many others keep the accuracy.
    repair_options : further options of `fairmend.repair`, a dict.
    random_state : of training and of every other random choice.

    Attributes
    ----------
    network_, original_network_ : after and before the repair
    result_, certificate_ : what `fairmend.repair` gave back; `certificate_.save(path, model)` is for `fairmend check`
    report_ : the report as `fairmend.report.Report`, made when it is asked for, measured on the calibration rows;
        `report_.save("report.html")`
    spec_ : who counts as similar
    estimator_ : the estimator with the repaired weights, for use without fairmend; an MLPClassifier without a pipeline
        reads what `spec_.encode` gives
    repair_inputs_, calibration_inputs_, calibration_classes_ : what the network was repaired with, encoded
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Of scikit-learn's own checks, those of the score on test data do not apply (`poor_score`): the data there cannot be
    told apart without the column that is protected. All others hold.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        spec: Spec | None = None,
        protected: Sequence[str | int] | str | int | None = None,
        method: str = "auto",
        repair_rows: int = 100,
        calibration_rows: int = 500,
        repair_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.spec = spec
        self.protected = protected
        self.method = method
        self.repair_rows = repair_rows
        self.calibration_rows = calibration_rows
        self.repair_options = repair_options
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that scores can be low where the protected columns are all there is to learn from."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> FairRepairClassifier:
        """Train the network (unless it is frozen), repair it, and prove it."""
        with _value_errors():
            X = self._taken(X, reset=True)
            y = self._labels(X, y)
            draw = check_random_state(self.random_state)
            seed = int(draw.randint(2**31 - 1))
            estimator, self._before = self._chosen(seed), None
            self._fit_spec(estimator, X)
            if not isinstance(self.estimator, FrozenEstimator):
                estimator.fit(X if isinstance(estimator, Pipeline) else self._encoded(X, np.float64), y)
            self._before = estimator[:-1] if isinstance(estimator, Pipeline) else None
            self._fit_spec_of_pipeline(X)
            mlp = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
            self._fit_repair(read_estimator(mlp), mlp, X, y, seed)
            self.estimator_ = _with_last(estimator, to_estimator(self.network_, mlp))
        for warning in self.result_.warnings:
            warnings.warn(warning, RepairWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of each row (rows,)."""
        read = self._ready(X)
        chosen: npt.NDArray[Any] = self.classes_[self.network_.predict(read)]
        return chosen

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class (rows, classes)."""
        read = self._ready(X)
        found = self.network_.probabilities(read)
        return found if found.ndim == 2 else np.column_stack([1 - found, found])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the logit (rows,) of the second of two classes, or the logits (rows, classes) of more."""
        read = self._ready(X)
        return self.network_.logits(read)

    @property
    def report_(self) -> Report:
        """The report of the repair; accuracy and the like are of the calibration rows."""
        check_is_fitted(self)
        from fairmend.report import repair_report

        return repair_report(
            self.result_,
            self.spec_,
            self.original_network_,
            self.repair_inputs_,
            self.calibration_inputs_,
            self.calibration_classes_,
            title=f"a {type(self).__name__}'s network",
        )

    # What is given

    def _taken(self, X: Any, reset: bool) -> Any:
        """Return X as a DataFrame, or as an array of numbers; its columns are those of fit."""
        if is_frame(X) or self._has_pipeline():
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) == 0:
                raise InputError("X has 0 sample(s) and a minimum of 1 is required")
            return X
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def _has_pipeline(self) -> bool:
        return isinstance(_thawed(self.estimator), Pipeline)

    def _labels(self, X: Any, y: Any) -> npt.NDArray[Any]:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if len(y) != len(X):
            raise InputError(f"Found input variables with inconsistent numbers of samples: {len(X)} and {len(y)}")
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InputError(f"y has only 1 class, {self.classes_[0]!r}; a classifier needs at least two")
        return np.asarray(y)

    def _chosen(self, seed: int) -> Any:
        """Return the estimator to fit: a copy, unless it is frozen."""
        given = self.estimator
        if isinstance(given, FrozenEstimator):
            frozen = given.estimator
            check_is_fitted(frozen)
            _last(frozen)
            if not np.array_equal(frozen.classes_, self.classes_):
                raise InputError(f"the frozen model knows the classes {frozen.classes_}, and y holds {self.classes_}")
            return frozen
        made = MLPClassifier((32, 16), max_iter=500) if given is None else clone(given)
        last = _last(made)
        if last.random_state is None and (given is None or self.random_state is not None):
            last.set_params(random_state=seed)
        return made

    # Who counts as similar, and how the network reads X

    def _fit_spec(self, estimator: Any, X: Any) -> None:
        """Set `spec_`, unless a pipeline is to tell it."""
        if self.spec is None and self.protected is None:
            raise InputError("say who counts as similar: give spec, or the protected columns")
        if self.spec is not None:
            if self.protected is not None:
                raise InputError("give spec or protected, not both: the spec says what is protected")
            self.spec_ = self.spec
        elif not isinstance(estimator, Pipeline):
            frame, frozen = self._as_frame(X), isinstance(self.estimator, FrozenEstimator)
            texts = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name].dtype)]
            if frozen and texts:
                raise InputError(
                    f"how the frozen network reads {texts[0]} is not known; give its spec, or its pipeline"
                )
            scale = "none" if frozen else "standard"  # what a frozen network reads is what it was trained on: X itself
            self.spec_ = draft_from_data(frame, self._protected(X), scale=scale, leave_out=False).spec

    def _fit_spec_of_pipeline(self, X: Any) -> None:
        if self._before is None:
            return
        frame = self._as_frame(X)
        # Also beside a spec of the user's: a step that no spec can say (an imputer that looks at other columns, for
        # instance) may do nothing to X here, and let protected columns through later.
        protected = self._protected(X) if self.spec is None else [feature.name for feature in self.spec.protected]
        read = Spec.from_sklearn(self._before, protected, data=frame)
        if self.spec is None:
            self.spec_ = read
        elif {f.name: f.missing for f in read.features} != {f.name: f.missing for f in self.spec_.features}:
            raise InputError(
                "the spec and the pipeline disagree on what a missing value stands for; take the spec of the pipeline "
                "(Spec.from_sklearn)"
            )
        ours, theirs = self.spec_.encode(frame, np.float64), self._encoded(X, np.float64)
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-5, atol=1e-6):
            raise InputError(
                "the spec does not say what the pipeline does: they encode X differently. Take the spec of the "
                "pipeline (Spec.from_sklearn), or give the network alone, without the pipeline"
            )

    def _protected(self, X: Any) -> list[str]:
        """Return the names of the protected columns."""
        given = self.protected
        assert given is not None
        names = [str(name) for name in self._as_frame(X).columns]
        listed = [given] if isinstance(given, str | int | np.integer) else list(given)
        for entry in listed:
            if isinstance(entry, int | np.integer) and not -len(names) <= entry < len(names):
                raise InputError(f"protected column {entry}: X has only the columns 0 to {len(names) - 1}")
        found = [names[entry] if isinstance(entry, int | np.integer) else str(entry) for entry in listed]
        return require_columns(found, names, "protected")

    def _as_frame(self, X: Any) -> pd.DataFrame:
        if is_frame(X):
            return X.rename(columns=str)
        return pd.DataFrame(np.asarray(X), columns=[f"x{i}" for i in range(self.n_features_in_)])

    def _encoded(self, X: Any, dtype: npt.DTypeLike) -> FloatArray:
        """Return X as the network reads it; also where values lie beyond the ranges of the spec."""
        if self._before is not None:
            read = self._before.transform(X)
            return np.asarray(read.toarray() if hasattr(read, "toarray") else read, dtype=dtype)
        if self.spec is not None and not is_frame(X):
            if X.shape[1] != self.spec.width:
                columns = ", ".join(self.spec.column_names)
                raise InputError(f"X has {X.shape[1]} columns, and the spec describes {self.spec.width} ({columns})")
            return np.asarray(X, dtype=dtype)
        frame = self._as_frame(X)
        return Spec([_beyond(feature, frame) for feature in self.spec_.features]).encode(frame, dtype)

    def _ready(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        with _value_errors():
            return self._encoded(self._taken(X, reset=False), self.network_.dtype)

    # The repair

    def _fit_repair(self, network: Network, mlp: Any, X: Any, y: npt.NDArray[Any], seed: int) -> None:
        read, classes = self._encoded(X, network.dtype), np.searchsorted(self.classes_, y)
        if not np.array_equal(mlp.classes_, self.classes_):
            raise InputError(f"the model knows the classes {mlp.classes_}, and y holds {self.classes_}")
        order = np.random.default_rng(seed).permutation(len(read))
        chosen, rest = order[: self.repair_rows], order[self.repair_rows :]
        if len(rest) < min(self.calibration_rows, ENOUGH_ROWS):
            rest = order[::-1]
        kept = rest[: self.calibration_rows]
        self.original_network_ = network
        self.repair_inputs_, self.calibration_inputs_ = read[chosen], read[kept]
        self.calibration_classes_ = classes[kept]
        self.result_ = repair(
            network,
            self.spec_,
            self.repair_inputs_,
            self.calibration_inputs_,
            self.calibration_classes_,
            self.method,
            seed,
            **(self.repair_options or {}),
        )
        self.network_, self.certificate_ = self.result_.network, self.result_.certificate


def _thawed(estimator: Any) -> Any:
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def _last(estimator: Any) -> Any:
    """Return the network of an estimator, or say what kind of one is needed."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(last, MLPClassifier):
        raise InputError(
            f"{type(last).__name__} is no network that can be repaired; give an MLPClassifier or a Pipeline that ends "
            "in one (networks of PyTorch, Keras or ONNX are repaired by fairmend.repair)"
        )
    return last


def _with_last(estimator: Any, last: Any) -> Any:
    """Return the estimator with another network at its end."""
    if not isinstance(estimator, Pipeline):
        return last
    made = copy.copy(estimator)
    made.steps = [*estimator.steps[:-1], (estimator.steps[-1][0], last)]
    return made


def _beyond(feature: Feature, frame: pd.DataFrame) -> Feature:
    """Return the feature with a range that holds all numbers in the frame, to predict who is beyond what is proven."""
    if feature.categories or feature.name not in frame.columns:
        return feature
    values = pd.to_numeric(frame[feature.name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    low, high = feature.bounds
    ends = (float(min(low, values.min())), float(max(high, values.max()))) if values.size else (low, high)
    missing = None if feature.missing is None else float(feature.missing)
    return replace(feature, kind="continuous", range=ends, tolerance=0.0, missing=missing)


@contextmanager
def _value_errors() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FairmendError as error:
        raise InputError(str(error)) from error
