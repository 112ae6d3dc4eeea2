"""A repaired model as a scikit-learn estimator: the canonical map in front of the user's own, the average behind it.

It takes what the original takes. Of a data frame with the user's values, only the columns that the map changes are
touched: whatever a pipeline does with the others, missing values included, it goes on doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.models.canonical import CanonicalMap, spec_port
from fairmend.models.estimator import EstimatorRunner
from fairmend.models.known_values import DataValues, Known, as_fitted
from fairmend.models.people_runner import PeopleRunner
from fairmend.models.repaired import average_logits
from fairmend.models.run_model import RunModel
from fairmend.network.model import scores_of
from fairmend.spec import Spec
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.models.repaired import RepairedModel


def as_estimator(model: RepairedModel) -> FairEstimator:
    """Return an estimator that takes what the original takes: a data frame with its columns, or a matrix."""
    if not isinstance(model.base, RunModel) or not isinstance(model.base.runner, EstimatorRunner):
        raise FairmendError("the original is no estimator, so there is none to put the repair around; use save()")
    return FairEstimator(model)


class FairEstimator(BaseEstimator):  # type: ignore[misc]
    """The user's estimator behind a canonical map: its output depends on a person only through their class.

    Protected columns on which no link depends are never read, so they may hold anything.
    """

    def __init__(self, model: RepairedModel) -> None:
        """Take a repaired model whose original is an estimator."""
        self.model = model
        classes = getattr(self._estimator, "classes_", None)
        if classes is not None:
            self.classes_ = np.asarray(classes)

    def fit(self, X: Any, y: Any = None) -> FairEstimator:
        """Return the estimator, which is fitted already."""
        return self

    def transform(self, X: Any) -> Any:
        """Return people as the representatives of their classes, in the form that the original takes."""
        return self._people(X).canonical() if self._takes_people else self._rows(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes (rows, classes)."""
        if not hasattr(self, "classes_"):
            raise FairmendError("a regression model has no classes; use predict")
        found = self._probabilities(X)
        order = np.arange(2) if not self._base.reversed else np.array([1, 0])
        return found if found.shape[1] > 2 else found[:, order]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels; of a regression, the numbers."""
        if not hasattr(self, "classes_"):
            return np.asarray(self._logits(X)[:, 0])
        found = self.predict_proba(X)
        best = (found[:, 1] >= found[:, 0]).astype(np.int64) if found.shape[1] == 2 else found.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def _base(self) -> RunModel:
        assert isinstance(self.model.base, RunModel)
        return self.model.base

    @property
    def _estimator(self) -> Any:
        return self._base.runner.estimator  # type: ignore[attr-defined]

    @property
    def _takes_people(self) -> bool:
        return bool(self._base.runner.takes_people(self.model.canonical.spec))

    def _probabilities(self, X: Any) -> Floats:
        """Return the probabilities of the spec's classes."""
        shares = scores_of(self._logits(X), "probability")
        return np.hstack([1 - shares, shares]) if shares.shape[1] == 1 else shares

    def _logits(self, X: Any) -> FloatArray:
        if not self._takes_people:
            found = self.model.logits(self._rows(X))
            return found[:, None] if found.ndim == 1 else found
        people = self._people(X)
        members = [self._base.logits_of(self._base.runner.scores(frame)) for frame in people.members()]  # type: ignore[attr-defined]
        average = self.model.average
        found = members[0] if average is None else average_logits(members, average, people.encoded())
        return found[:, None] if found.ndim == 1 else found

    def _rows(self, X: Any) -> Floats:
        """Return encoded rows, with the reference values in place of what is never read."""
        rows = np.array(X, dtype=np.float64)
        canonical = self.model.canonical
        return canonical.entry([spec_port(canonical.spec, "float64")]).apply([rows])[0]

    def _people(self, X: Any) -> _People:
        runner = self._base.runner
        assert isinstance(runner, PeopleRunner)
        return _People(X, self.model, runner.known_of(self.model.canonical.spec), runner.data)


class _People:
    """A data frame with the user's values, and what the canonical map makes of it."""

    def __init__(self, frame: pd.DataFrame, model: RepairedModel, known: Known, data: DataValues) -> None:
        canonical, average = model.canonical, model.average
        self.frame, self.spec, self.average = frame, canonical.spec, average
        self.known, self.data = known, data
        raw = Spec(
            [replace(f, encoding="ordinal", scale=None, dropped=None) for f in self.spec.features],
            self.spec.label,
            self.spec.claim,
            self.spec.links,
        )
        self.raw = CanonicalMap(raw, canonical.classes, canonical.reference, canonical.representative)
        classes = canonical.classes
        self.changed = [f for f in raw.features if f.name in {*classes.free, *classes.banded, *classes.linked}]
        self.port = spec_port(raw, "float64")
        (self.values,) = self.raw.entry([self.port]).apply([self._read()])

    def _read(self) -> Floats:
        """Return the values, or codes (rows, features), of all features; what is never read is 0."""
        free = self.raw.classes.free
        columns = [
            np.zeros(len(self.frame)) if self._is_free(f, free) else _codes(f, self.frame[f.name])
            for f in self.raw.spec.features
        ]
        return np.column_stack(columns)

    def _is_free(self, feature: Feature, free: tuple[str, ...]) -> bool:
        read = {name for linked in self.raw.classes.linked.values() for name in linked.when}
        return feature.name in free and feature.name not in read

    def canonical(self) -> pd.DataFrame:
        """Return the representatives."""
        return self._written(self.values)

    def members(self) -> Iterator[pd.DataFrame]:
        """Return the frame of each member, or of the representatives alone."""
        if self.average is None:
            yield self.canonical()
            return
        for k in range(self.average.members.count):
            (values,) = self.average.members.entry(k, self.raw, [self.port]).apply([self.values])
            yield self._written(values)

    def encoded(self) -> Floats:
        """Return the canonical rows as the spec encodes them; missing numbers have the mean of the data."""
        X = np.zeros((len(self.frame), self.spec.width))
        for k, feature in enumerate(self.spec.features):
            values = self.values[:, k]
            missing = ~np.isfinite(values)
            X[:, self.spec.columns(feature.name)] = feature.encode(np.where(missing, feature.bounds[0], values))
            if self.average is not None and feature.name in self.average.weights.numbers:
                mean = self.average.weights.mean[self.average.weights.numbers.index(feature.name)]
                X[missing, self.spec.columns(feature.name).start] = mean
        return X

    def _written(self, values: Floats) -> pd.DataFrame:
        found = self.frame.copy()
        for k, feature in enumerate(self.raw.spec.features):
            if feature in self.changed:
                found[feature.name] = self._decoded(feature, values[:, k])
        return found

    def _decoded(self, feature: Feature, values: Floats) -> Any:
        """Return values as the user's data has them."""
        if feature.categories:
            return self.data.typed(feature, as_fitted(feature, self.known))[values.astype(np.int64)]
        return np.rint(values).astype(np.int64) if feature.kind == "integer" else values


def _codes(feature: Feature, column: pd.Series[Any]) -> Floats:
    """Return the numbers of a column, or the codes of its categories; NaN for what is missing or unknown."""
    if not feature.categories:
        return np.asarray(column, dtype=np.float64)
    places = {name: float(code) for code, name in enumerate(feature.categories)}
    return np.array([places.get(as_text(value), np.nan) for value in column.tolist()], dtype=np.float64)
