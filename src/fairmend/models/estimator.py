"""Fitted estimators in the manner of scikit-learn, and pipelines: on a matrix, encoded columns, or the user's values.

The names of the columns that an estimator was fitted on say what it reads. If they are those of the spec's features, it
gets the user's own values; if they are those of the spec's encoded columns, these; without names, the encoded matrix.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, listed
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.models.known_values import (
    DataValues,
    Known,
    all_categories,
    has_whole_categories,
    known_values,
)
from fairmend.models.people_runner import PeopleRunner, people_of
from fairmend.models.ports import InputSignature, Port, spelled_alike
from fairmend.network.formats.sklearn import is_net
from fairmend.spec import Spec
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd

_PACKAGES = {
    "sklearn": ("scikit-learn", "scikit-learn"),
    "xgboost": ("XGBoost", "xgboost"),
    "lightgbm": ("LightGBM", "lightgbm"),
    "catboost": ("CatBoost", "catboost"),
    "pytorch_tabnet": ("pytorch-tabnet", "pytorch-tabnet"),
}
_NAMES = ("feature_names_in_", "feature_name_", "feature_names_")
_AUTOMATIC = re.compile(r"(Column_|feature_?|f|x)?\d+")  # the names that libraries give the columns of a matrix
_FLOAT32 = ("skorch", "pytorch_tabnet")  # networks, which take float32 alone
_CATEGORIES = ("lightgbm", "xgboost")  # they read text as categories of pandas alone
_METHODS = ("predict_proba", "decision_function", "predict")


def is_estimator(source: Any) -> bool:
    """Return whether an object looks like a fitted estimator that gives scores or predictions."""
    return not isinstance(source, type) and callable(getattr(source, "predict", None))


class EstimatorRunner(PeopleRunner):
    """Runs a fitted estimator by predict_proba, else decision_function, else predict."""

    batch = 65_536
    sure = True

    def __init__(self, estimator: Any) -> None:
        """Take an estimator, which is not changed."""
        self.name, self._estimator = type(estimator).__name__, estimator
        self._package = type(estimator).__module__.partition(".")[0]
        self.runtime = _describe(self._package)
        last = last_step(estimator)
        single = is_net(last) or type(last).__module__.partition(".")[0] in _FLOAT32
        self.dtype = np.dtype(np.float32 if single else np.float64)
        classes = getattr(estimator, "classes_", None)
        self._classes = None if classes is None or np.ndim(classes) != 1 else np.asarray(classes)
        methods = _METHODS[2:] if self._classes is not None and _votes(last, len(self._classes)) else _METHODS
        self._method = next(name for name in methods if _has(estimator, name))
        self.labels = () if self._classes is None else tuple(as_text(each) for each in self._classes.tolist())
        decides = self._method == "predict" and self._classes is None
        self.kind = {"predict_proba": "probability", "decision_function": "logit"}.get(
            self._method, "number" if decides else "probability"
        )
        decided = open_threshold_classifier(_decider(estimator))
        self.threshold = None if decided is None else decided.threshold
        self.ties_are_first = decided is None and self._classes is not None
        self._names = fitted_names(estimator)
        self.fitted, self.data = known_values(estimator, self._names), DataValues()
        self.encoders = all_categories(estimator)

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the one port that reads all columns of the spec."""
        self._takes(spec)
        self._require_codes(spec)
        self._require_no_scale(spec)
        if self._names is None and self.width not in (None, spec.width):
            spec.require_inputs(self.width, self.name)
        return (Port("X", self.dtype.name, 2, tuple(f.name for f in spec.features)),)

    def _require_codes(self, spec: Spec) -> None:
        """Refuse a feature whose categories the estimator knows, but of which a matrix without names holds codes."""
        if self._names is not None:
            return
        known = [set(map(as_text, each.tolist())) for each in self.encoders]
        for feature in spec.features:
            texts = set(feature.categories or ())
            if not texts or feature.one_hot:
                continue
            codes = set(map(as_text, feature.encode(np.arange(len(texts), dtype=np.float64))[:, 0].tolist()))
            mixed = any(texts <= each and codes != each for each in known)
            if codes != texts and (mixed or (self.width is None and has_whole_categories(feature))):
                what = "knows" if mixed else "does not show its columns, and may know"
                raise FairmendError(
                    f'{self.name} {what} {listed(sorted(texts))} in "{feature.name}", and gets their codes in a matrix '
                    "without names. Fit it on a data frame, or give a function of people: "
                    'load_model(model.predict_proba, takes="people")'
                )

    def _require_no_scale(self, spec: Spec) -> None:
        """Refuse a model fitted on columns with the names of scaled features: are its numbers scaled, or the user's?"""
        scaled = [feature.name for feature in spec.features if feature.scale is not None]
        if scaled and not has_steps(self._estimator) and self.takes_people(spec):
            raise FairmendError(
                f'{self.name} was fitted on a column "{scaled[0]}", and the spec scales it. If the model reads the '
                "values of your data, remove the scale; if it reads scaled ones, give a function of encoded rows: "
                "load_model(model.predict_proba)"
            )

    @property
    def named_columns(self) -> tuple[InputSignature, ...]:
        """The columns that it was fitted on, if they had names."""
        return tuple(InputSignature(name, "") for name in self._names or ())

    @property
    def width(self) -> int | None:
        """The number of columns that it was fitted on."""
        given = getattr(self._estimator, "n_features_in_", None)
        return int(given) if isinstance(given, int | np.integer) else None

    def takes_people(self, spec: Spec) -> bool:
        """Return whether the columns that it was fitted on are the features of a spec."""
        return bool(columns_of(self._estimator, spec)) and not any(f.columns for f in spec.features)

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        """Return probabilities, decision values, predictions, or 1 for the predicted class and 0 for the others."""
        return self.scores(self._takes(spec)(X))

    def scores(self, people: Any) -> NDArray[Any]:
        """Return the same for what the estimator takes."""
        if self._package in _CATEGORIES:
            people = _with_categories(people)
        given = np.asarray(getattr(self._estimator, self._method)(people))
        if self._method != "predict" or self._classes is None:
            return given
        return np.asarray(given.reshape(-1, 1) == self._classes, dtype=np.float64)

    def predictions(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> Ints | None:
        """Return the number of the class that predict() gives; None without classes or other scores."""
        if self._classes is None or self._method == "predict":
            return None
        people = self._takes(spec)(X)
        given = self._estimator.predict(_with_categories(people) if self._package in _CATEGORIES else people)
        same = np.asarray(given).reshape(len(X), -1)[:, :1] == self._classes
        return same.argmax(axis=1) if same.any(axis=1).all() else None

    def exports(self, spec: Spec, ports: Sequence[Port]) -> Sequence[Callable[[Path], None]]:
        """Return ways to write the estimator to an ONNX file, in single and double precision."""
        from fairmend.models.export_estimator import export_estimator, module_of, precisions

        module = module_of(self._estimator)
        if module is not None:
            from fairmend.models.module import ModuleRunner

            return ModuleRunner(module).exports(spec, ports)
        known = self.fitted_of(spec) if self.takes_people(spec) else None
        return [partial(export_estimator, self._estimator, spec, known, each) for each in precisions(self._estimator)]

    @property
    def estimator(self) -> Any:
        """The estimator itself."""
        return self._estimator

    def fitted_of(self, spec: Spec) -> Known:
        """Return the values that its encoders know, and the categories of pandas that a LightGBM was fitted on."""
        held = getattr(getattr(self._estimator, "booster_", None), "pandas_categorical", None) or ()
        features = columns_of(self._estimator, spec)
        texts = [f.name for f in features if f.categories and not has_whole_categories(f)]
        own = zip(texts, held, strict=True) if len(texts) == len(held) else ()
        return {**self.fitted, **{name: [np.array(each, dtype=object)] for name, each in own}}

    def _takes(self, spec: Spec) -> Any:
        """Return what makes of rows X what the estimator was fitted on."""
        names = self._names
        if names is None:
            return lambda X: X.copy()
        if self.takes_people(spec):
            return lambda X: people_of(spec, X, self.known_of(spec), self.data)[
                [f.name for f in columns_of(self._estimator, spec)]
            ]
        for columns in (spec.column_names, _dummy_names(spec)):
            if set(names) == set(columns) and len(names) == len(columns):
                return lambda X, columns=columns: _frame(X, columns)[list(names)]
        raise FairmendError(
            f"{self.name} was fitted on the columns {listed(names)}; these are neither the features of the spec "
            f"({listed([f.name for f in spec.features])}) nor its encoded columns. Name the features as the columns"
        )


def _votes(model: Any, classes: int) -> bool:
    """Return whether a model predicts the class with most votes of pairs, which its scores do not say: ties differ."""
    of_pairs = type(model).__name__ in ("SVC", "NuSVC") and type(model).__module__.startswith("sklearn.")
    breaks_ties = getattr(model, "break_ties", False)
    return of_pairs and classes > 2 and not breaks_ties and not _has(model, "predict_proba")


def has_steps(estimator: Any) -> bool:
    """Return whether there are steps before the model at the end: of a pipeline, or of one in a search or the like."""
    steps = getattr(estimator, "steps", None)
    if isinstance(steps, list):
        return not all(_is_nothing(step) for _, step in steps[:-1]) or has_steps(steps[-1][1])
    inner = getattr(estimator, "best_estimator_", getattr(estimator, "estimator", None))
    return inner is not None and not isinstance(estimator, type) and has_steps(inner)


def _decider(estimator: Any) -> Any:
    """Return the estimator that decides: at the end of a pipeline, in a search, or frozen."""
    inner = getattr(estimator, "best_estimator_", None)
    inner = estimator.estimator if type(estimator).__name__ == "FrozenEstimator" else inner
    last = last_step(estimator) if inner is None else inner
    return estimator if last is estimator else _decider(last)


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return last_step(steps[-1][1]) if isinstance(steps, list) and steps else estimator


def columns_of(estimator: Any, spec: Spec) -> list[Feature]:
    """Return the features that the columns are which an estimator was fitted on, in order; none if they are others.

    LightGBM writes _ in place of a space.
    """
    names = fitted_names(estimator) or ()
    found = spelled_alike(names, [f.name for f in spec.features]) if len(names) == len(spec.features) else []
    return [spec.feature(name) for name in found]


def _with_categories(people: Any) -> Any:
    """Return a data frame whose columns of text are categories; anything else as it is."""
    if not hasattr(people, "select_dtypes"):
        return people
    import pandas as pd

    text = [name for name in people if not pd.api.types.is_numeric_dtype(people[name].dtype)]
    return people.astype(dict.fromkeys(text, "category"))


def _frame(X: FloatArray, columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(X.copy(), columns=list(columns))


def _dummy_names(spec: Spec) -> list[str]:
    """Return the names of one-hot columns in the data, or that pandas.get_dummies and OneHotEncoder give them."""
    return [name for f in spec.features for name in f.columns or _dummies(f)]


def _dummies(f: Feature) -> list[str]:
    """Return names such as "race_White"."""
    return [f"{f.name}_{each}" for each in f.categories or () if each != f.dropped] if f.one_hot else [f.name]


def fitted_names(estimator: Any) -> tuple[str, ...] | None:
    """Return the names of the columns that an estimator was fitted on; None for a matrix."""
    for attribute in _NAMES:
        names = getattr(estimator, attribute, None)
        if names is not None and not callable(names):
            found = tuple(map(str, names))
            return None if not found or all(map(_AUTOMATIC.fullmatch, found)) else found
    steps = getattr(estimator, "steps", None)  # a pipeline has the names of its first step, and none of "passthrough"
    if not isinstance(steps, list):
        return None
    first = next((step for _, step in steps if not _is_nothing(step)), None)
    return fitted_names(first) if steps and _is_nothing(steps[0][1]) else None


def _is_nothing(step: Any) -> bool:
    """Return whether a step of a pipeline leaves everything as it is."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def _has(estimator: Any, method: str) -> bool:
    """Return whether an estimator has a method; some raise an error if their settings do not allow it."""
    try:
        return callable(getattr(estimator, method, None))
    except Exception:  # the estimator says so in whatever way it likes, and another method follows
        return False


def _describe(package: str) -> str:
    """Return the library and its version."""
    name, distribution = _PACKAGES.get(package, (package, package))
    try:
        return f"{name} {version(distribution)}"
    except PackageNotFoundError:
        found = getattr(sys.modules.get(package), "__version__", "")
        return f"{name} {found}".strip()
