"""People in the user's own values: as they stand in the data, or the shortest numbers that a network reads the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Bools, FloatArray
from fairmend.base.text import as_text
from fairmend.spec.encoding import decode_columns
from fairmend.spec.features import Feature
from fairmend.spec.read_values import find_column, has_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import DTypeLike

    from fairmend.spec.spec import Spec


_DIGITS = 17  # of a float64


class OwnValues:
    """The values of some people as they stand in the data, and as a network reads them.

    A missing value that the spec replaces is None: it is imputed. A feature without a column, such as one that marks
    missing values, has the values that the network reads.
    """

    def __init__(self, spec: Spec, frame: pd.DataFrame, dtype: DTypeLike) -> None:
        """Take the values of data that is in range (people, columns)."""
        self._spec, self._X = spec, spec.as_inputs(frame, dtype)
        stated = {f.name: f for f in spec.features if has_column(frame, f.name)}
        self._values = {
            name: _stated_values(f, find_column(frame, name, f'feature "{name}"')) for name, f in stated.items()
        }

    def is_own(self, feature: Feature, X: FloatArray) -> Bools:
        """Return which of X (people, width) have the value of this feature that the data has (people,)."""
        columns = self._spec.columns(feature.name)
        return np.asarray((X[:, columns] == self._X[:, columns]).all(axis=1) & (feature.name in self._values))

    def stated(self, feature: Feature) -> NDArray[Any]:
        """Return the values of a feature that has a column, objects (people,); None if the value is imputed."""
        return self._values[feature.name]


def user_values(spec: Spec, X: FloatArray, own: OwnValues | None = None) -> dict[str, list[Any]]:
    """Return X (people, width) in the user's own values, by feature.

    Where the people have the value that the data has, it is the one that stands there, and None if it is missing there;
    elsewhere the shortest one that the network reads the same.
    """
    found = {}
    for feature in spec.features:
        same = np.zeros(len(X), dtype=bool) if own is None else own.is_own(feature, X)
        values = np.empty(len(X), dtype=object)
        values[~same] = shortest_values(feature, X[~same][:, spec.columns(feature.name)])
        if own is not None and same.any():
            values[same] = own.stated(feature)[same]
        found[feature.name] = values.tolist()
    return found


def imputed_values(spec: Spec, values: dict[str, Any]) -> dict[str, Any]:
    """Return what replaces the missing values of a person, by feature."""
    return {f.name: f.missing for f in spec.features if f.name in values and values[f.name] is None}


def shortest_values(feature: Feature, x: FloatArray) -> list[Any]:
    """Return the values (people,) of encoded columns x (people, columns of the feature).

    The user wrote 34.7, and float32 holds 34.70000076: of all numbers that are encoded to the same columns, the
    shortest is what was written. A number that no short one is encoded to stays as it is.
    """
    decoded = decode_columns(feature, x)
    if feature.as_is:
        return [_with_own_digits(value, x) for value in decoded.tolist()]
    if feature.kind != "continuous" or not len(x):
        return list(decoded.tolist())
    low, high = feature.bounds
    places = -int(np.ceil(np.log10(max(abs(low), abs(high), np.finfo(np.float64).tiny))))
    found, open_ones = decoded.astype(np.float64), np.ones(len(x), dtype=bool)
    for digits in range(_DIGITS + 1):
        rows = np.flatnonzero(open_ones)
        if not len(rows):
            break
        candidate = np.round(found[rows], places + digits)
        same = feature.scaled(candidate).astype(x.dtype) == x[rows, 0]
        same &= (low <= candidate) & (candidate <= high)
        found[rows[same]] = candidate[same]
        open_ones[rows[same]] = False
    # What is far below the range's ends, such as 1e-30 of 0 to 1, has few digits of its own.
    for row in np.flatnonzero(open_ones):
        found[row] = _with_own_digits(found[row], x)
    return [value + 0.0 for value in found.tolist()]  # no -0.0


def _with_own_digits(value: float, x: FloatArray) -> float:
    """Return a number with as many digits as numbers of x have."""
    return float(f"{value:.{np.finfo(x.dtype).precision + 1}g}")


def _stated_values(feature: Feature, series: pd.Series[Any]) -> NDArray[Any]:
    """Return the values of a column as they stand there, objects (people,); None for a missing one."""
    values = np.empty(len(series), dtype=object)
    missing = series.isna().to_numpy(bool)
    for place, value in enumerate(series.tolist()):
        values[place] = None if missing[place] else _plain(feature, value)
    return values


def _plain(feature: Feature, value: Any) -> Any:
    """Return a value as plain data: the text of a category, or a number."""
    if feature.categories:
        return as_text(value)
    number = float(value)
    return int(number) if feature.kind == "integer" or isinstance(value, int | np.integer) else number
