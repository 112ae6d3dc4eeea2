"""FairRepairClassifier: train a network, repair it and prove individual fairness, in one `fit`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.text import printable
from fairmend.network import Network
from fairmend.network.formats.sklearn import read_estimator, to_estimator
from fairmend.repairing.options import methods_with
from fairmend.repairing.run import repair
from fairmend.sklearn._estimators import (
    InputError,
    ProtectedColumns,
    agree_on_threshold,
    as_frame,
    as_input_errors,
    can_train_on_some_rows,
    choose_estimator,
    encode_any_value,
    find_mlp,
    fit_pipeline,
    guess_spec,
    is_frozen,
    is_pipeline,
    preprocessing_of,
    replace_mlp,
    spec_of_pipeline,
    transform,
    with_threshold,
)
from fairmend.spec import Spec
from fairmend.spec.read_values import is_frame

if TYPE_CHECKING:
    from fairmend.report import Report


_ENOUGH_ROWS = 50  # as in `fairmend repair`: with fewer rows left, repair inputs are also used for calibration


class RepairWarning(UserWarning):
    """A warning about the repair that you should read before you use the network."""


class FairRepairClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network that provably treats similar people equally: `fit` trains, repairs and certifies it.

    Two people are similar if they differ only in the protected columns (and, up to their tolerance, in the columns to
    which `spec` gives one). `certificate_` and `result_` hold what is proven. The guarantee covers people within the
    ranges of `spec_`; others get a prediction too.

    Parameters
    ----------
    estimator : an MLPClassifier, or a Pipeline that ends in one; by default a new MLPClassifier. `Spec.from_sklearn`
        must be able to read the steps before the network. To repair a fitted network without training it, wrap it in a
        `sklearn.frozen.FrozenEstimator`. A `FixedThresholdClassifier` or `TunedThresholdClassifierCV` around it sets
        the threshold.
    spec : a `fairmend.Spec` that says who is similar. By default it is read from the pipeline, or guessed from X with
        numbers standardized and categories one-hot. If you pass a spec, X is a DataFrame that the spec encodes, or an
        array that is already encoded.
    protected : the protected columns, by name or position; required without a spec.
    threshold : the probability of the second class from which it is predicted; by default that of the estimator or of
        the spec, or 0.5. Two of them that differ are an error.
    method : the repair method, as in `fairmend.repair`.
    keep, guarantee, prefer : for the method "auto", what it may give up and what it must not; see
        `fairmend.repairing.options.Policy`. `fit` raises ValueError if no candidate meets what you give here.
    repair_rows, calibration_rows : the number of rows of X to repair, and of other rows to keep the accuracy. The
        methods "auto" and "blind" use the remaining rows without their labels, to keep the predictions of the network.
        If `fit` trains the network, it does so without the calibration rows, which are then at most a fifth of X: a
        network is better on its training rows than elsewhere. Of fewer than 250 rows, and if a pipeline is inside of
        a classifier with a threshold, none is held out.
    repair_options : a dict of further arguments of `fairmend.repair`, such as ``training`` and ``head``.
    random_state : random seed of the training and of the repair.

    Attributes
    ----------
    network_, original_network_ : the network after and before the repair
    result_, certificate_ : the result of `fairmend.repair`; `certificate_.save(path, model)` writes a certificate for
        `fairmend check`
    report_ : the report, a `fairmend.report.Report`, created on access and measured on the calibration rows;
        `report_.save("report.html")` writes it
    spec_ : the spec that says who is similar
    estimator_ : the estimator with the repaired weights, for use without fairmend; without a pipeline, an MLPClassifier
        that reads what `spec_.encode` returns, in a FixedThresholdClassifier if there is a threshold other than 0.5
    repair_inputs_, calibration_inputs_, calibration_classes_ : the encoded data of the repair
    calibration_held_out_ : whether the network was trained without the calibration rows; False for a frozen network,
        whose training rows are not known
    classes_, n_features_in_, feature_names_in_ : as in other scikit-learn estimators

    All of scikit-learn's estimator checks pass, except that the tag `poor_score` turns off the check of the score: its
    data cannot be classified without the column that is protected.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        spec: Spec | None = None,
        protected: ProtectedColumns | None = None,
        threshold: float | None = None,
        method: str = "auto",
        keep: float | None = None,
        guarantee: str | None = None,
        prefer: str | None = None,
        repair_rows: int = 100,
        calibration_rows: int = 500,
        repair_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.spec = spec
        self.protected = protected
        self.threshold = threshold
        self.method = method
        self.keep = keep
        self.guarantee = guarantee
        self.prefer = prefer
        self.repair_rows = repair_rows
        self.calibration_rows = calibration_rows
        self.repair_options = repair_options
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare that scores can be low if only the protected columns are informative."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> FairRepairClassifier:
        """Train the network (unless it is frozen), repair it and prove the result."""
        with as_input_errors():
            X = self._validate_inputs(X, reset=True)
            y = self._validate_labels(X, y)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            estimator = choose_estimator(self.estimator, self.classes_, seed, self.random_state is not None)
            calibration = self._choose_held_out(y, seed)
            self._fit_estimator(estimator, X, y, np.setdiff1d(np.arange(len(y)), calibration))
            self._fit_threshold(estimator)
            self._fit_repair(find_mlp(estimator), X, y, seed, calibration)
            repaired = replace_mlp(estimator, to_estimator(self.network_, find_mlp(estimator)))
            self.estimator_ = with_threshold(repaired, self.spec_.threshold, self.classes_)
        for warning in self.result_.warnings:
            warnings.warn(printable(warning), RepairWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of each row (rows,)."""
        inputs = self._validate_and_encode(X)
        predicted: npt.NDArray[Any] = self.classes_[self.network_.predict(inputs)]
        return predicted

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class (rows, classes)."""
        inputs = self._validate_and_encode(X)  # first: it raises NotFittedError
        probabilities = self.network_.probabilities(inputs)
        return probabilities if probabilities.ndim == 2 else np.column_stack([1 - probabilities, probabilities])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the logit of the second class (rows,); with more than two classes, all logits (rows, classes)."""
        inputs = self._validate_and_encode(X)
        logits: FloatArray = self.network_.logits(inputs)
        return logits

    @property
    def report_(self) -> Report:
        """The report of the repair; accuracy and similar figures are those of the calibration rows."""
        check_is_fitted(self)
        from fairmend.report import repair_report

        return repair_report(
            self.result_,
            self.spec_,
            self.original_network_,
            self.repair_inputs_,
            self.calibration_inputs_,
            self.calibration_classes_,
            held_out=self.calibration_held_out_,
            title=f"the network of a {type(self).__name__}",
        )

    def _validate_inputs(self, X: Any, reset: bool) -> Any:
        """Return X as a DataFrame or an array of numbers, with the columns of `fit`."""
        if is_frame(X) or is_pipeline(self.estimator):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) == 0:
                raise InputError("X has 0 sample(s) and a minimum of 1 is required")
            return X
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def _validate_labels(self, X: Any, y: Any) -> npt.NDArray[Any]:
        """Return y as an array (rows,) of at least two classes, and set `classes_`."""
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

    def _choose_held_out(self, y: npt.NDArray[Any], seed: int) -> Ints:
        """Return the rows to calibrate with and not to train on: none for a frozen network, or if there are too few.

        The first row of each class is left for the training.
        """
        rows = min(self.calibration_rows, len(y) // 5)
        self.calibration_held_out_ = can_train_on_some_rows(self.estimator) and rows >= _ENOUGH_ROWS
        if not self.calibration_held_out_:
            return np.zeros(0, dtype=np.int64)
        order = np.random.default_rng(seed).permutation(len(y)).astype(np.int64)
        _, first = np.unique(y[order], return_index=True)
        return np.delete(order, first)[:rows]

    def _fit_estimator(self, estimator: Any, X: Any, y: npt.NDArray[Any], training: Ints) -> None:
        """Train the estimator on some rows unless it is frozen, and set `spec_`."""
        if self.spec is None and self.protected is None:
            raise InputError("nothing says which features are protected. Pass spec or protected.")
        if self.spec is not None and self.spec.regression:
            raise InputError(f"{type(self).__name__} repairs classifiers, but the spec predicts a number")
        if self.spec is not None and self.protected is not None:
            raise InputError("pass spec or protected, not both: the spec says which features are protected")
        frozen, self._preprocessing = isinstance(self.estimator, FrozenEstimator), None
        if is_pipeline(estimator):
            if not frozen:
                fit_pipeline(estimator, X, y, training)
            self._preprocessing = preprocessing_of(estimator)
            self.spec_ = spec_of_pipeline(self._preprocessing, X, self.spec, self.protected)
            return
        if self.spec is not None:
            self.spec_ = self.spec
        elif self.protected is not None:
            self.spec_ = guess_spec(as_frame(X), self.protected, is_frozen(self.estimator))
        if not frozen:
            estimator.fit(self._encode(X, np.float64)[training], y[training])

    def _fit_threshold(self, estimator: Any) -> None:
        """Set the threshold of `spec_` to that of the parameter, the spec or the fitted estimator."""
        self.spec_ = agree_on_threshold(self.threshold, self.spec_, estimator, self.classes_)

    def _encode(self, X: Any, dtype: npt.DTypeLike) -> FloatArray:
        """Return X as the network reads it, including values beyond the ranges of the spec."""
        if self._preprocessing is not None:
            return transform(self._preprocessing, X, dtype)
        if self.spec is not None and not is_frame(X):
            if X.shape[1] != self.spec_.width:
                columns = ", ".join(self.spec_.column_names)
                raise InputError(f"X has {X.shape[1]} columns, but the spec describes {self.spec_.width} ({columns})")
            return np.asarray(X, dtype=dtype)
        return encode_any_value(self.spec_, as_frame(X), dtype)

    def _validate_and_encode(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        with as_input_errors():
            return self._encode(self._validate_inputs(X, reset=False), self.network_.dtype)

    def _fit_repair(self, mlp: Any, X: Any, y: npt.NDArray[Any], seed: int, held_out: Ints) -> None:
        """Repair the network of a fitted MLPClassifier, and set the attributes of the repair.

        `held_out` are the rows that it was not trained on, to calibrate with; without any, other rows are drawn.
        """
        if not np.array_equal(mlp.classes_, self.classes_):
            raise InputError(f"the model was trained on the classes {mlp.classes_}, but y has {self.classes_}")
        network = read_estimator(mlp)
        inputs, classes = self._encode(X, network.dtype), np.searchsorted(self.classes_, y)
        order = np.random.default_rng(seed).permutation(len(inputs))
        order = order[~np.isin(order, held_out)]
        chosen, rest = order[: self.repair_rows], order[self.repair_rows :]
        if len(rest) < min(self.calibration_rows, _ENOUGH_ROWS):
            rest = order[::-1]
        calibration = held_out if len(held_out) else rest[: self.calibration_rows]
        self.original_network_ = network
        self.repair_inputs_, self.calibration_inputs_ = inputs[chosen], inputs[calibration]
        self.calibration_classes_ = classes[calibration]
        self.result_ = repair(
            network,
            self.spec_,
            self.repair_inputs_,
            self.calibration_inputs_,
            self.calibration_classes_,
            self.method,
            seed,
            **self._repair_options(inputs[np.setdiff1d(order, [*chosen, *calibration])]),
            keep_form=True if self.method == "auto" else None,
        )
        if not isinstance(self.result_.network, Network):
            raise InputError(f"method {self.method} puts nodes in front of the network; use fairmend.repair for it")
        self.network_, self.certificate_ = self.result_.network, self.result_.certificate

    def _repair_options(self, unlabelled: FloatArray) -> dict[str, Any]:
        """Return the further options of the repair; the rows that are left over help the methods that can use them."""
        options = dict(self.repair_options or {})
        for name in ("keep", "guarantee", "prefer"):
            if getattr(self, name) is None:
                continue
            if name in options:
                raise InputError(f"{name} is given twice: as a parameter and in repair_options; leave one of them out")
            options[name] = getattr(self, name)
        if len(unlabelled) and self.method in methods_with("X_unlabelled"):
            options.setdefault("X_unlabelled", unlabelled)
        return options
