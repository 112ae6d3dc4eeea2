"""What runs models that get people in the user's own values: pipelines, and functions that take data frames."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, shown
from fairmend.models.known_values import DataValues, Known, as_fitted
from fairmend.models.run_model import Runner
from fairmend.spec import Spec
from fairmend.spec.draft.steps import is_missing

if TYPE_CHECKING:
    import pandas as pd


class PeopleRunner(Runner):
    """Gives categories as the model knows them: as its encoders were fitted on them, else as they are in the data."""

    fitted: Known
    encoders: list[NDArray[Any]]  # the categories of all encoders, whichever columns they read
    data: DataValues

    def fitted_of(self, spec: Spec) -> Known:
        """Return the values that the model was fitted on, as far as it shows them."""
        return self.fitted

    def known_of(self, spec: Spec) -> Known:
        """Return the values of categories that the model gets."""
        return {**self.data.values, **self.fitted_of(spec)}

    def with_data(self, spec: Spec, frames: Iterable[pd.DataFrame]) -> Self:
        """Return the runner that gives values as they are in data, where the model does not show what it knows."""
        if not self.takes_people(spec):
            return self
        other = copy(self)
        other.data = DataValues.of(spec, frames, self.fitted_of(spec))
        return other

    def require_values(self, spec: Spec, frame: pd.DataFrame) -> None:
        """Refuse data with values that the model would get as others."""
        if not self.takes_people(spec):
            return
        for name, (values,) in DataValues.of(spec, [frame], self.fitted_of(spec)).values.items():
            feature = spec.feature(name)
            given = dict(zip(feature.categories or (), as_fitted(feature, self.known_of(spec)).tolist(), strict=True))
            padded = [each for each in self._padded() if given.get(each.strip()) == each.strip()]
            for value in (each for each in (*padded, *values.tolist()) if not is_missing(each)):
                got = given.get(as_text(value), value)
                if got != value or isinstance(got, str) != isinstance(value, str):
                    where = "an encoder knows" if padded else "the data has"
                    raise FairmendError(
                        f'{self.name}: {where} {shown(repr(value))} in "{name}", and the model would get '
                        f"{shown(repr(got))}. It does not show which it was fitted on. In Python, pass the data as one "
                        "data frame; or make the column plain text, and fit the model on that"
                    )

    def _padded(self) -> list[str]:
        """Return the texts with spaces around them that encoders know: a table in a file may have lost the spaces."""
        values = (value for each in self.encoders for value in each.tolist() if isinstance(value, str))
        return [value for value in values if value != value.strip()]


def people_of(spec: Spec, X: FloatArray, known: Known, data: DataValues) -> pd.DataFrame:
    """Return rows as people with the user's own values; of categories, those that a model knows."""
    frame = spec.decode(X)
    for feature in spec.features:
        if feature.categories:
            values = data.typed(feature, as_fitted(feature, known))
            frame[feature.name] = values[spec.values_of(feature, X).astype(np.int64)]
    return frame
