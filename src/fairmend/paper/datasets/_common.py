"""What the data sets share: read a raw file, encode its columns, split its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.spec import Spec


Column = NDArray[np.float32]


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Encoded data, as the networks of the paper read it, with the range of each column.

    X_train, X_test  (rows, features) float32, whole numbers
    y_train, y_test  (rows,) int8; 1 is the favourable outcome, or in compas the high risk
    columns          the features' names, in order
    bounds           (features, 2) float32, lowest and highest value of the published input space
    ranges           (features, 2) float32, the bounds, widened where the data exceeds them
    """

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int8]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int8]
    columns: tuple[str, ...]
    bounds: NDArray[np.float32]
    ranges: NDArray[np.float32]

    def __repr__(self) -> str:
        """Show the sizes."""
        return (
            f"Dataset({self.name}: {len(self.X_train)} rows to train, {len(self.X_test)} to test, "
            f"{len(self.columns)} features)"
        )

    def spec(self, protected: Sequence[str], tolerance: Mapping[str, float] | None = None) -> Spec:
        """Return the spec of this data; every feature is an integer within its range.

        protected  names of the protected features
        tolerance  tolerances of other features by name
        """
        from fairmend.spec import Feature, Spec

        sensitive = (protected,) if isinstance(protected, str) else tuple(protected)
        slack = dict(tolerance or {})
        for name in (*sensitive, *slack):
            if name not in self.columns:
                raise FairmendError(f"dataset {self.name} has no feature {name!r}; it has {', '.join(self.columns)}")
        return Spec(
            features=[
                Feature(
                    name=name,
                    kind="integer",
                    range=(int(lowest), int(highest)),
                    protected=name in sensitive,
                    tolerance=slack.get(name, 0.0),
                )
                for name, (lowest, highest) in zip(self.columns, self.ranges, strict=True)
            ]
        )


def read_table(path: Path, names: Sequence[str], **options: Any) -> pd.DataFrame:
    """Return the raw file as a frame of text with these columns."""
    try:
        frame: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise FairmendError(f"{path}: cannot be read as a table: {error}") from error
    if "header" in options:  # None: the file has no header
        if len(frame.columns) == len(names):
            frame.columns = pd.Index(names)
        else:
            raise FairmendError(f"{path}: has {len(frame.columns)} columns, not {len(names)}")
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise FairmendError(f"{path}: has no column {missing[0]!r}; it has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise FairmendError(f"{path}: has no rows")
    return frame


def whole_numbers(frame: pd.DataFrame, column: str, path: Path) -> Column:
    """Return the numbers of a column (rows,)."""
    numbers = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64)
    return _checked(numbers, numbers == np.round(numbers), frame, column, path, "a whole number")


def codes(frame: pd.DataFrame, column: str, categories: Sequence[str], path: Path) -> Column:
    """Return the index of each value among the categories (rows,)."""
    place = pd.Index(categories).get_indexer(pd.Index(frame[column])).astype(np.float64)
    return _checked(place, place >= 0, frame, column, path, f"one of {', '.join(categories)}")


def grouped(frame: pd.DataFrame, column: str, groups: Mapping[str, str], path: Path) -> Column:
    """Return the index of each value's group among the sorted groups (rows,)."""
    places = {group: place for place, group in enumerate(sorted(set(groups.values())))}
    known = frame[column].isin(list(groups)).to_numpy(bool)
    place = np.array([places.get(groups.get(value, ""), -1) for value in frame[column]], dtype=np.float64)
    return _checked(place, known, frame, column, path, f"one of {', '.join(groups)}")


def bins(values: Column, edges: Sequence[float] | NDArray[np.float64]) -> Column:
    """Return the number of edges below each value (rows,); a bin includes its upper edge."""
    below = np.searchsorted(np.asarray(edges, np.float64), values.astype(np.float64), side="left")
    return below.astype(np.float32)


def assemble(
    name: str,
    encoded: Mapping[str, Column],
    y: NDArray[np.bool_],
    bounds: Mapping[str, tuple[float, float]],
    *,
    wider: Mapping[str, tuple[float, float]] | None = None,
    test_size: float,
    seed: int,
) -> Dataset:
    """Order the encoded columns as the bounds, and split the rows like scikit-learn's `train_test_split`.

    The first ceil(rows · test_size) rows of a permutation are the test set.
    """
    X = np.stack([encoded[column] for column in bounds], axis=1)
    ranges = _pairs({**bounds, **(wider or {})}.values())
    outside = np.clip(X, *ranges.T) != X
    if outside.any():
        row, column = map(int, np.argwhere(outside)[0])
        raise FairmendError(
            f"dataset {name}: row {row} has {X[row, column]:g} for {list(bounds)[column]!r}, "
            f"which ranges from {ranges[column, 0]:g} to {ranges[column, 1]:g}; is this the original file?"
        )
    order = np.random.RandomState(seed).permutation(len(X))
    test, train = np.split(order, [math.ceil(len(X) * test_size)])
    labels = y.astype(np.int8)
    return Dataset(
        name=name,
        X_train=X[train],
        y_train=labels[train],
        X_test=X[test],
        y_test=labels[test],
        columns=tuple(bounds),
        bounds=_pairs(bounds.values()),
        ranges=ranges,
    )


def _pairs(values: Iterable[tuple[float, float]]) -> NDArray[np.float32]:
    return np.array(list(values), dtype=np.float32)


def _checked(
    values: NDArray[np.float64],
    good: NDArray[np.bool_],
    frame: pd.DataFrame,
    column: str,
    path: Path,
    expected: str,
) -> Column:
    if not good.all():
        row = int(np.argmin(good))
        raise FairmendError(f"{path}: row {row} has {frame[column].iloc[row]!r} for {column!r}; expected {expected}")
    return values.astype(np.float32)
