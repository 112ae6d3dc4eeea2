"""Spec: the features of an input in the network's order, and which people count as similar.

What one feature does to its columns is in `columns`, the TOML form in `spec_file`, and the neighbourhoods
that follow from a spec in `neighbourhood`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.spec.encoding import check_encoded, decoded, encoded, float_type, is_frame, positives, refuse, values_of
from fairmend.spec.features import Feature, Label, extent
from fairmend.spec.neighbourhoods import Regions, build_regions, count_points, stream_points
from fairmend.spec.toml import build, check_keys, place, plain_feature, read_toml, write_toml
from fairmend.text import suggest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Feature", "Label", "Spec"]

_logger = logging.getLogger(__name__)
_SHOWN = 20  # columns named in a message


class Spec:
    """Which people count as similar: the features in the network's order, and the label.

    Parameters
    ----------
    features : Feature or dict, one per feature; at least one of them protected
    label : Label, dict or None
    """

    def __init__(
        self,
        features: Iterable[Feature | Mapping[str, Any]],
        label: Label | Mapping[str, Any] | None = None,
    ) -> None:
        """Check all of it here, so that every spec there is makes sense."""
        self._features = tuple(
            f if isinstance(f, Feature) else build(Feature, f, place(i, f)) for i, f in enumerate(features)
        )
        self._label = label if isinstance(label, Label) or label is None else build(Label, label, "[label]")
        _check_together(self._features, self._label)
        ends = np.cumsum([f.width for f in self._features]).tolist()
        self._slices = {f.name: slice(end - f.width, end) for f, end in zip(self._features, ends, strict=True)}
        self._width = int(ends[-1])

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in the network's order."""
        return self._features

    @property
    def label(self) -> Label | None:
        """The label, where the spec names one."""
        return self._label

    @property
    def protected(self) -> list[Feature]:
        """The protected features."""
        return [f for f in self._features if f.protected]

    @property
    def width(self) -> int:
        """How many columns the network reads."""
        return self._width

    @property
    def column_names(self) -> list[str]:
        """A name for each column the network reads; "race=White" for one of a one-hot group."""
        return [
            name
            for f in self._features
            for name in ([f"{f.name}={c}" for c in f.categories or () if c != f.dropped] if f.one_hot else [f.name])
        ]

    @property
    def finite(self) -> bool:
        """Whether every neighbourhood is a finite set: whatever varies is integer or categorical."""
        return all(f.kind != "continuous" for f in self._features if f.varies)

    def require_inputs(self, inputs: int, network: str = "the network", spec: str = "the spec") -> None:
        """Refuse a network that does not read as many columns as the spec describes; the names are for the message."""
        if inputs != self._width:
            names = self.column_names
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            raise FairmendError(
                f"{network} reads {inputs} columns, but {spec} describes {self._width} ({shown}); "
                "use the spec of the data that the network was trained on"
            )

    def columns(self, name: str) -> slice:
        """Return where the feature lies among the columns the network reads."""
        if name not in self._slices:
            raise FairmendError(f'the spec has no feature "{name}"{suggest(name, self._slices)}')
        return self._slices[name]

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same features and label."""
        return isinstance(other, Spec) and (self._features, self._label) == (other._features, other._label)

    def __hash__(self) -> int:
        """Agree with ==."""
        return hash((self._features, self._label))

    def __repr__(self) -> str:
        """What is protected, what has a tolerance, what the label is."""
        parts = [f"{len(self._features)} features in {self._width} columns"]
        parts.append("protected: " + ", ".join(f"{f.name} {extent(f)}" for f in self.protected))
        near = [f"{f.name} ±{f.tolerance:g}" for f in self._features if f.tolerance]
        parts += ["tolerance: " + ", ".join(near)] if near else []
        parts += [f'label: {self._label.column} = "{self._label.positive}"'] if self._label else []
        return f"Spec({'; '.join(parts)})"

    # Files

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spec:
        """Return the spec in a mapping of the TOML form: {"label": {...}, "feature": [{...}, ...]}."""
        check_keys(data, ("label", "feature"), "the spec")
        features = data.get("feature")
        if not isinstance(features, Sequence) or isinstance(features, str):
            raise FairmendError("the spec has no features; add one [[feature]] table for each input feature")
        return cls(features, data.get("label"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (JSON can hold it) from which `from_dict` makes an equal spec."""
        label = {"label": {"column": self._label.column, "positive": self._label.positive}} if self._label else {}
        return {**label, "feature": [plain_feature(f) for f in self._features]}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Spec:
        """Return the spec in a TOML file."""
        data = read_toml(path)
        try:
            spec = cls.from_dict(data)
        except FairmendError as err:
            raise FairmendError(f"{path}: {err}") from err
        _logger.info("read %r from %s", spec, path)
        return spec

    @classmethod
    def from_data(
        cls,
        data: pd.DataFrame,
        protected: str | Iterable[str],
        label: str | None = None,
        positive: object = None,
        *,
        drop: Iterable[str] = (),
        inputs: int | None = None,
        scale: str = "none",
    ) -> Spec:
        """Return a spec guessed from data; look it over before you rely on it (`fairmend spec init` says at what).

        ``drop`` are columns the model does not read, ``inputs`` is how many it reads, and ``scale`` is "none",
        "standard" (mean 0, variance 1) or "min-max" (0 to 1), taken from the data.
        """
        from fairmend.spec.draft.from_data import draft_from_data

        names = [protected] if isinstance(protected, str) else protected
        return draft_from_data(data, names, label, positive, drop=drop, inputs=inputs, scale=scale).spec

    @classmethod
    def from_sklearn(
        cls,
        transformer: Any,
        protected: str | Iterable[str],
        label: Label | Mapping[str, Any] | None = None,
        data: pd.DataFrame | None = None,
    ) -> Spec:
        """Return the spec of a fitted ColumnTransformer, or of a Pipeline with one: `encode` does what it does.

        ``data`` are raw rows, which say the ranges of numbers; without them only a MinMaxScaler knows any.
        """
        from fairmend.spec.draft.from_sklearn import draft_from_sklearn

        known = label if isinstance(label, Label) or label is None else build(Label, label, "[label]")
        names = [protected] if isinstance(protected, str) else protected
        return draft_from_sklearn(transformer, names, known, data).spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spec as TOML; the file is replaced whole or not at all."""
        write_toml(path, self.to_dict())

    # Values and their encoding

    def encode(self, frame: pd.DataFrame, dtype: DTypeLike = np.float32, *, first_row: int = 0) -> FloatArray:
        """Return a data frame as the network reads it (rows, width); columns that are not features are ignored.

        Error messages count rows from ``first_row``: pass the number of rows before this part of a larger table.
        """
        X = np.zeros((len(frame), self._width), dtype=float_type(dtype))
        for f in self._features:
            X[:, self._slices[f.name]] = encoded(f, values_of(f, frame, first_row))
        return X

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return encoded inputs (rows, width) in the user's values, each the nearest its feature can take."""
        import pandas as pd

        matrix = self._matrix(X)
        return pd.DataFrame({f.name: decoded(f, matrix[:, self._slices[f.name]]) for f in self._features})

    def labels(self, frame: pd.DataFrame, *, first_row: int = 0) -> NDArray[np.int8]:
        """Return 1 for each row whose label is the positive one, else 0 (rows,); `encode` explains ``first_row``."""
        if self._label is None:
            raise FairmendError("the spec names no label; add [label] with column and positive")
        return positives(self._label, frame, first_row)

    def as_inputs(
        self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32, *, first_row: int = 0
    ) -> FloatArray:
        """Return X as the network reads it (rows, width): a data frame is encoded, an array is checked.

        Error messages count rows from ``first_row``: pass the number of rows before this part of a larger table.
        """
        if is_frame(X):
            matrix = self.encode(X, dtype, first_row=first_row)
        else:
            matrix = self._matrix(X, first_row)
            for f in self._features:
                check_encoded(f, matrix[:, self._slices[f.name]], first_row)
        if len(matrix) == 0:
            raise FairmendError("X has no rows; give at least one input")
        _logger.debug("%d inputs of %d columns", *matrix.shape)
        return np.ascontiguousarray(matrix, dtype=float_type(dtype))

    def sample_inputs(self, n: int, rng: np.random.Generator, dtype: DTypeLike = np.float32) -> FloatArray:
        """Return n inputs (n, width), every feature uniform over its values and independent of the others."""
        X = np.zeros((n, self._width), dtype=float_type(dtype))
        for f in self._features:
            lo, hi = f.bounds
            continuous = f.kind == "continuous"
            values = rng.uniform(lo, hi, n) if continuous else rng.integers(int(lo), int(hi), n, endpoint=True)
            X[:, self._slices[f.name]] = encoded(f, values.astype(np.float64))
        return X

    def describe_pair(self, x: ArrayLike, x2: ArrayLike) -> str:
        """Return in words how x2 differs from x, both encoded (width,)."""
        pair = self._matrix(np.stack([np.asarray(x), np.asarray(x2)]))
        words = ["the same person"]
        for f in self._features:
            before, after = decoded(f, pair[:, self._slices[f.name]]).tolist()
            if before != after:
                words.append(f"{f.name} {_differing(after, before)} instead of {_differing(before, after)}")
        return ", ".join(words) if len(words) > 1 else "the same person, no difference"

    def _matrix(self, X: ArrayLike, first_row: int = 0) -> FloatArray:
        """Return X as a finite array (rows, width), or say what is wrong with it."""
        try:
            matrix = np.asarray(X)
            matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
        except (TypeError, ValueError, RuntimeError) as err:
            raise FairmendError(f"X is not an array of numbers ({err}); encode it, or pass a DataFrame") from err
        if matrix.ndim != 2 or matrix.shape[1] != self._width:
            raise FairmendError(
                f"X has shape {matrix.shape}, but the spec describes inputs of shape (rows, {self._width}); "
                "pass one row per input with these columns: " + ", ".join(self.column_names)
            )
        for f in self._features:
            bad = ~np.isfinite(matrix[:, self._slices[f.name]]).all(axis=1)
            refuse(f'feature "{f.name}"', bad, lambda row: "not a finite number; fill it in or drop the row", first_row)
        return matrix

    # Neighbourhoods

    @property
    def _placed(self) -> list[tuple[Feature, slice]]:
        return [(f, self._slices[f.name]) for f in self._features]

    def regions(self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32) -> Regions:
        """Return the neighbourhoods of X as unions of boxes."""
        return build_regions(self._placed, self.as_inputs(X, dtype))

    def neighbourhood_sizes(self, X: pd.DataFrame | ArrayLike) -> NDArray[Any]:
        """Return the size of each neighbourhood (rows,): int64, or Python ints where one would overflow."""
        return count_points(self._placed, self.as_inputs(X))

    def points(
        self, X: pd.DataFrame | ArrayLike, batch: int = 65536, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Stream all points of all neighbourhoods, in order: rows (k,) and points (k, width), k <= batch."""
        return stream_points(self._placed, self.as_inputs(X, dtype), batch)


def _check_together(features: Sequence[Feature], label: Label | None) -> None:
    """Refuse features that do not make a spec."""
    if not features:
        raise FairmendError("the spec has no features; add one [[feature]] table for each input feature")
    names = [f.name for f in features]
    for name in names:
        if names.count(name) > 1:
            raise FairmendError(f'feature "{name}" is listed twice; rename or remove one')
    if not any(f.protected for f in features):
        raise FairmendError("no feature is protected; set protected = true on at least one, such as gender or age")
    if label is not None and label.column in names:
        raise FairmendError(f'"{label.column}" is both a feature and the label; remove one of the two')


def _differing(value: object, other: object) -> str:
    """Return a value as people write it, with as many digits as it takes to tell it from the other."""
    if isinstance(value, float) and f"{value:.6g}" != f"{other:.6g}":
        return f"{value:.6g}"
    return str(value)
