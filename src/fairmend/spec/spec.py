"""Spec: the features of an input in the order of the network's columns, and which people are similar.

`Spec` is the one object that other parts hold. The work is elsewhere: `read_values` reads the user's values,
`encoding` converts them to columns, `neighbourhoods` lists similar people, `toml` is the file form, `draft` writes new
specs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import html_table, listed, printable, suggest
from fairmend.spec.claim import Claim, validate_claim_for_label
from fairmend.spec.describe import (
    describe_difference,
    describe_encoding,
    describe_neighbourhood,
    describe_role,
    describe_values,
)
from fairmend.spec.encoding import check_encoded, decode_columns, encode_frame, require_float_type
from fairmend.spec.features import Feature, require_few, validate_features_together, validate_id_column
from fairmend.spec.label import About, Label, as_about
from fairmend.spec.links import Link, linked_names, most_linked_values, validate_links
from fairmend.spec.neighbourhoods import (
    Regions,
    are_neighbours,
    build_hull,
    build_regions,
    count_pieces,
    count_points,
    stream_points,
)
from fairmend.spec.out_of_range import InRange, apply_policy, find_wider_ranges, require_policy
from fairmend.spec.own_values import shortest_values
from fairmend.spec.products import Products, most_in_band, require_few_products
from fairmend.spec.read_values import (
    RowNumber,
    is_frame,
    raise_for_rows,
    read_classes,
    read_column,
    read_labels,
    read_targets,
)
from fairmend.spec.toml import from_table, name_feature, read_toml, require_known_keys, write_toml

if TYPE_CHECKING:
    import pandas as pd


_logger = logging.getLogger(__name__)
_MOST_COLUMNS = 20  # named in an error message

GUESSED = "guessed"
"""What `ranges` in [table] says of ranges that are those of some file."""


class Spec:
    """Which people are similar: the features in the order of the network's columns, and the label.

    Parameters
    ----------
    features : Feature or dict, one per feature; at least one of them protected
    label : Label, dict or None
    claim : Claim, dict or None; what fairness demands of similar people, by default the same class
    links : Link or dict; features that change together with protected ones
    id_column : the column of the data that names a person, such as "customer"; the network does not read it
    about : About, dict or None; which model it is, for reports
    guessed_ranges : whether the ranges are those of some file; commands then widen them to the values of another file,
        with a note
    """

    def __init__(
        self,
        features: Iterable[Feature | Mapping[str, Any]],
        label: Label | Mapping[str, Any] | None = None,
        claim: Claim | Mapping[str, Any] | None = None,
        links: Iterable[Link | Mapping[str, Any]] = (),
        id_column: str | None = None,
        about: About | Mapping[str, Any] | None = None,
        guessed_ranges: bool = False,
    ) -> None:
        """Validate the features, the label, the claim and the links, so that every existing spec is valid."""
        given = list(features)
        require_few(given)
        self._features = tuple(
            f if isinstance(f, Feature) else from_table(Feature, f, name_feature(i, f)) for i, f in enumerate(given)
        )
        self._label = _as_label(label)
        self._claim = _as_claim(claim)
        validate_features_together(self._features, self._label)
        validate_claim_for_label(self._claim, self._label)
        self._links = validate_links(links, self._features)
        self._linked = linked_names(self._links)
        self._id_column = validate_id_column(id_column, self._features, self._label)
        self._about = as_about(about)
        self._guessed_ranges = bool(guessed_ranges)
        require_few_products(self._features, self._links)
        ends = np.cumsum([f.width for f in self._features]).tolist()
        self._slices = {f.name: slice(end - f.width, end) for f, end in zip(self._features, ends, strict=True)}
        self._width = int(ends[-1])

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features, in the order of the network's columns."""
        return self._features

    @property
    def label(self) -> Label | None:
        """The label, or None."""
        return self._label

    @property
    def threshold(self) -> float:
        """The probability of the positive class from which the prediction is positive: 0.5 unless the label says."""
        return 0.5 if self._label is None else self._label.probability

    @property
    def score_range(self) -> tuple[float, float]:
        """The scores that stand for the probabilities 0 and 1, in the unit of the model."""
        return (0.0, 1.0) if self._label is None else self._label.score_range

    @property
    def threshold_words(self) -> str:
        """The threshold as sentences name it, in the unit of the scores."""
        shown = self.threshold if self._label is None else self._label.threshold
        return repr(int(shown) if shown.is_integer() else shown)

    def at_threshold(self, threshold: float) -> Spec:
        """Return this spec with another threshold in its label, in the unit of its scores."""
        if self._label is None:
            raise FairmendError("a threshold needs [label] in the spec. Add [label] with column and positive.")
        changed = copy(self)
        changed._label = replace(self._label, threshold=threshold)
        return changed

    @property
    def claim(self) -> Claim:
        """What fairness demands of similar people: the same class, or scores that differ by at most delta."""
        return self._claim

    @property
    def regression(self) -> bool:
        """Whether the network predicts a number instead of a class: the claim is about its output."""
        return self._claim.on == "output"

    @property
    def links(self) -> tuple[Link, ...]:
        """The links: features that change together with protected ones."""
        return self._links

    @property
    def id_column(self) -> str | None:
        """The column of the data that names a person, or None."""
        return self._id_column

    @property
    def guessed_ranges(self) -> bool:
        """Whether the ranges are those of some file, so that commands widen them to the values of another one."""
        return self._guessed_ranges

    @property
    def about(self) -> About:
        """Which model a report is about; the texts that are not given are empty."""
        return self._about

    def with_about(self, about: About | Mapping[str, Any] | None) -> Spec:
        """Return this spec with other texts about the model."""
        changed = copy(self)
        changed._about = as_about(about)
        return changed

    @property
    def protected(self) -> list[Feature]:
        """The protected features."""
        return [f for f in self._features if f.protected]

    @property
    def as_is(self) -> list[Feature]:
        """The features that the network reads as the data has them; they have no range."""
        return [f for f in self._features if f.as_is]

    def require_ranges(self, what: str, instead: str) -> None:
        """Raise an error if a feature has no range, as ``what`` needs one; ``instead`` says what to do."""
        if self.as_is:
            names = listed([f'"{f.name}"' for f in self.as_is])
            raise FairmendError(f'{what} needs all possible values, but kind = "as-is" says none of {names}. {instead}')

    @property
    def varying(self) -> list[Feature]:
        """The features in which similar people may differ: protected, with a tolerance or bands, or linked."""
        return [f for f in self._features if f.varies or f.name in self._linked]

    def ignoring(self, names: Iterable[str]) -> Spec:
        """Return this spec, without links, for a network that ignores these features: nobody differs in them.

        Unlike a spec that is written, it may have no protected feature.
        """
        if self._links:
            raise FairmendError("a spec with links cannot leave out what varies: links set features together")
        ignored = set(names)
        changed = copy(self)
        changed._features = tuple(
            replace(f, protected=False, tolerance=0.0, bands=None) if f.name in ignored else f for f in self._features
        )
        return changed

    @property
    def linked(self) -> list[Feature]:
        """The features that links set."""
        return [f for f in self._features if f.name in self._linked]

    @property
    def banded(self) -> list[Feature]:
        """The features with bands: people are similar who are in the same one."""
        return [f for f in self._features if f.bands is not None]

    def most_values(self, feature: Feature) -> int:
        """Return the most values of a feature that is not continuous in a neighbourhood, the others being fixed."""
        low, high = feature.bounds
        if feature.name in self._linked:
            return most_linked_values(self._links, feature)
        if feature.bands is not None:
            return most_in_band(feature)
        return int(min(high - low, 2 * feature.reach)) + 1

    @property
    def width(self) -> int:
        """The number of columns that the network reads."""
        return self._width

    @property
    def column_names(self) -> list[str]:
        """A name for each column that the network reads, such as "race=White" in a one-hot group."""
        return [
            name
            for f in self._features
            for name in (
                [f"{f.name}={f.show(c)}" for c in f.categories or () if c != f.dropped] if f.one_hot else [f.name]
            )
        ]

    @property
    def data_columns(self) -> tuple[set[str], set[str]]:
        """The columns of the data that features and ids are read from, and those that it may have.

        The latter are the label and its score, marks of missing values, and one-hot columns: a file that fairmend wrote
        has a single column in place of these.
        """
        plain = [feature for feature in self._features if feature.indicates is None]
        needed = {feature.name for feature in plain if feature.columns is None}
        needed |= set() if self._id_column is None else {self._id_column}
        marked = {name for feature in self._features if feature.indicates for name in (feature.name, feature.indicates)}
        marked |= {name for feature in plain if feature.columns for name in (feature.name, *feature.columns)}
        label = () if self._label is None else (self._label.column, self._label.score)
        return needed, {name for name in (*label, *marked) if name is not None}

    @property
    def finite(self) -> bool:
        """Whether every neighbourhood is finite: all features that vary are integer or categorical."""
        return all(f.kind != "continuous" for f in self.varying)

    def require_inputs(self, inputs: int, network: str = "the network", spec: str = "the spec") -> None:
        """Raise an error if a network does not read as many columns as the spec describes.

        The error message calls them ``network`` and ``spec``.
        """
        if inputs != self._width:
            names = self.column_names
            shown = ", ".join(names[:_MOST_COLUMNS]) + (", …" if len(names) > _MOST_COLUMNS else "")
            raise FairmendError(
                f"{network} reads {inputs} columns, but {spec} describes {self._width} ({shown}). "
                "Use the spec of the data that the network was trained on."
            )

    def require_outputs(self, outputs: int, network: str = "the network", spec: str = "the spec") -> None:
        """Raise an error if a network does not have as many outputs as the label has classes."""
        classes = self.classes
        if classes and outputs != len(classes):
            raise FairmendError(
                f"{network} has {outputs} output{'' if outputs == 1 else 's'}, but {spec} names {len(classes)} classes "
                f"({listed(classes)}). List one class for each output, in their order, in [label]."
            )

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that the label lists, in the order of the network's outputs; empty if it lists none."""
        return () if self._label is None else self._label.classes

    def name_class(self, number: int, outputs: int = 2) -> str:
        """Return what a class of a network with so many outputs means, as the label says; "class 2" if it does not."""
        if self._label is None or (outputs > 2 and not self._label.classes):
            return f"class {number}"
        return self._label.name_class(number)

    def require_class_claim(self, what: str, instead: str = "an audit") -> None:
        """Raise an error unless the claim is about classes, as ``what`` compares no more, unlike ``instead``."""
        self._claim.require_classes(f"{what} compares classes", f"Remove [claim], or run {instead}.")

    def feature(self, name: str) -> Feature:
        """Return the feature with this name."""
        return next(f for f in self._features if f.name == name)

    def columns(self, name: str) -> slice:
        """Return the columns of a feature, among those that the network reads."""
        if name not in self._slices:
            raise FairmendError(f'the spec has no feature "{name}"{suggest(name, self._slices)}')
        return self._slices[name]

    def __eq__(self, other: object) -> bool:
        """Return whether both specs mean the same: features, label, claim, links and ids."""
        return isinstance(other, Spec) and self._parts == other._parts

    def __hash__(self) -> int:
        """Return equal hashes for equal specs."""
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self._features, self._label, self._claim, self._links, self._id_column

    def __repr__(self) -> str:
        """Show the protected features, the tolerances, the links, the label and a claim about scores."""
        parts = [f"{len(self._features)} features in {self._width} columns"]
        parts.append("protected: " + ", ".join(f"{f.name} {f.extent}" for f in self.protected))
        tolerances = [f"{f.name} ±{f.tolerance:g}" for f in self._features if f.tolerance]
        parts += ["tolerance: " + ", ".join(tolerances)] if tolerances else []
        parts += ["bands: " + ", ".join(f.name for f in self.banded)] if self.banded else []
        parts += ["linked: " + ", ".join(f.name for f in self.linked)] if self._links else []
        if self._label is not None:
            positive = self._label.positive
            parts.append(f"label: {self._label.column}" + (f' = "{positive}"' if positive is not None else ""))
            parts[-1] += f" ({len(self._label.classes)} classes)" if self._label.classes else ""
            parts += [f"threshold: {self.threshold_words}"] if self.threshold != 0.5 else []
        parts += [f"claim: {self._claim.words().brief}"] if self._claim.stated else []
        return printable(f"Spec({'; '.join(parts)})")

    # Files

    def to_frame(self) -> pd.DataFrame:
        """Return the features as a table: their values, what the network reads, and how similar people may differ."""
        import pandas as pd

        return pd.DataFrame(
            {
                "feature": [feature.name for feature in self.features],
                "values": [describe_values(feature) for feature in self.features],
                "the network reads": [describe_encoding(feature) for feature in self.features],
                "similar people": [describe_role(feature, feature in self.linked) for feature in self.features],
            }
        )

    def _repr_html_(self) -> str:
        """Show the spec in a notebook."""
        table = self.to_frame()
        notes = [describe_neighbourhood(self), f"What to prove: {self.claim.words().sentence}"]
        title = f"Spec: {len(self.features)} features, {self.width} inputs of the network"
        return html_table(title, list(table.columns), table.to_numpy().tolist(), notes)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spec:
        """Return the spec in a dict of the TOML form: "about", "table", "label", "claim", "feature" and "link"."""
        require_known_keys(data, ("about", "table", "label", "claim", "feature", "link"), "the spec")
        table = data.get("table", {})
        if not isinstance(table, Mapping):
            raise FairmendError(f'[table] must be a table of keys and values, such as id = "customer", got {table!r}')
        require_known_keys(table, ("id", "ranges"), "[table]")
        if table.get("ranges", GUESSED) != GUESSED:
            raise FairmendError(f'[table]: ranges can only be "{GUESSED}", got {table["ranges"]!r}. Or remove it.')
        features = data.get("feature")
        if not isinstance(features, Sequence) or isinstance(features, str):
            raise FairmendError("the spec has no features. Add one [[feature]] table for each input feature.")
        return cls(
            features,
            data.get("label"),
            data.get("claim"),
            data.get("link", ()),
            table.get("id"),
            data.get("about"),
            "ranges" in table,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold; `from_dict` turns it into an equal spec."""
        about = {"about": self._about.to_dict()} if self._about != About() else {}
        named = {} if self._id_column is None else {"id": self._id_column}
        guessed = {"ranges": GUESSED} if self._guessed_ranges else {}
        table = {"table": {**named, **guessed}} if named or guessed else {}
        label = {"label": self._label.to_dict()} if self._label else {}
        claim = {"claim": self._claim.to_dict()} if self._claim.stated else {}
        links = {"link": [link.to_dict() for link in self._links]} if self._links else {}
        return {**about, **table, **label, **claim, "feature": [f.to_dict() for f in self._features], **links}

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
        claim: Claim | Mapping[str, Any] | None = None,
    ) -> Spec:
        """Return a spec guessed from data. Review it before you rely on it; `fairmend spec init` lists what to review.

        ``drop`` names columns that the model does not read. ``inputs`` is the number of columns that it reads.
        ``scale`` is "none", "standard" (mean 0, variance 1) or "min-max" (0 to 1), with the figures of the data.
        Without a ``claim``, a label with many numbers is a number to predict, and delta is 1 % of its range.
        """
        from fairmend.spec.draft.from_data import draft_from_data

        wanted = _as_claim(claim)
        delta, on = wanted.delta, wanted.on
        return draft_from_data(
            data, protected, label, positive, drop=drop, inputs=inputs, scale=scale, delta=delta, on=on
        ).spec

    @classmethod
    def from_sklearn(
        cls,
        transformer: Any,
        protected: str | Iterable[str],
        label: str | Label | Mapping[str, Any] | None = None,
        data: pd.DataFrame | None = None,
        claim: Claim | Mapping[str, Any] | None = None,
        *,
        positive: object = None,
    ) -> Spec:
        """Return the spec of a fitted ColumnTransformer or Pipeline: `encode` does what its `transform` does.

        ``label`` is the column with the outcome; ``positive``, its positive value, is what a fitted classifier calls
        class 1, or guessed from data as `from_data` does. ``data`` holds raw rows, from which the ranges of numbers are
        taken. Without them, only a MinMaxScaler gives ranges.
        """
        from fairmend.spec.draft.from_data import guess_claim, label_from_options
        from fairmend.spec.draft.from_sklearn import draft_from_sklearn

        if not isinstance(label, str):
            if positive is not None:
                raise FairmendError("pass positive beside the name of the label's column, or in the label, not both")
            return draft_from_sklearn(transformer, protected, _as_label(label), data, _as_claim(claim)).spec
        wanted = _as_claim(claim)
        found = label_from_options(label, positive, data, wanted.on, classes=getattr(transformer, "classes_", None))
        chosen, _ = guess_claim(found, data, wanted.delta, wanted.on)
        return draft_from_sklearn(transformer, protected, found, data, chosen).spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spec as TOML; an existing file is replaced completely or not at all."""
        write_toml(path, self.to_dict())

    # Values and their encoding

    def encode(
        self,
        frame: pd.DataFrame,
        dtype: DTypeLike = np.float32,
        *,
        first_row: RowNumber = 0,
        out_of_range: str = "refuse",
    ) -> FloatArray:
        """Return a data frame as the network reads it (rows, width); columns that are not features are ignored.

        Error messages count rows from ``first_row``: pass the number of rows before this part of a larger table.
        ``out_of_range`` says what to do about values out of range; `bring_into_range` explains it, and counts them.
        """
        if out_of_range != "refuse":
            inside = self.bring_into_range(frame, out_of_range, first_row=first_row)
            return inside.spec.encode(inside.frame, dtype, first_row=first_row)
        return encode_frame(self._placed, self._width, frame, dtype, first_row)

    def bring_into_range(
        self, frame: pd.DataFrame, out_of_range: str = "refuse", *, first_row: RowNumber = 0
    ) -> InRange:
        """Return data whose values are all in range, the spec that it fits, and counts of what was done.

        ``out_of_range`` is "refuse" (raise an error), "clip" (move a value to the nearest end of the range), "skip"
        (leave out the row) or "widen" (widen the range in the spec that is returned). A value that is none of the
        categories can only be refused or skipped. `encode` explains ``first_row``.
        """
        require_policy(out_of_range)
        if out_of_range == "widen":
            wider = find_wider_ranges(self._features, frame, first_row)
            return InRange(self.widen(wider.ranges), frame, np.ones(len(frame), dtype=bool), wider)
        inside, kept, done = apply_policy(self._features, frame, out_of_range, first_row)
        if out_of_range == "refuse":
            for feature in self._features:
                read_column(feature, frame, first_row)  # raises an error for a value that is out of range
        if not kept.any():
            raise FairmendError("every row has a value out of range. Correct the data, or `range` in the spec.")
        return InRange(self, inside, kept, done)

    def widen(self, ranges: Mapping[str, tuple[float, float]]) -> Spec:
        """Return the spec with other ranges, by feature, and everything else as it is."""
        wide = (f.with_range(*ranges[f.name]) if f.name in ranges else f for f in self._features)
        return Spec.from_dict({**self.to_dict(), "feature": [f.to_dict() for f in wide]}) if ranges else self

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return encoded inputs (rows, width) as the user's values, each the nearest that its feature can take."""
        import pandas as pd

        matrix = self._matrix(X)
        return pd.DataFrame({f.name: decode_columns(f, matrix[:, self._slices[f.name]]) for f in self._features})

    def values_of(self, feature: Feature, X: FloatArray) -> NDArray[np.float64]:
        """Return the value, or code, of a feature (rows,) in encoded inputs X (rows, width)."""
        return feature.decode(X[:, self._slices[feature.name]])

    def labels(self, frame: pd.DataFrame, *, first_row: RowNumber = 0) -> NDArray[Any]:
        """Return 1 for each row whose label is the positive one, else 0 (rows,), int8.

        With classes, return their numbers (rows,), int64; with neither, the numbers to predict (rows,), float64.
        `encode` explains ``first_row``.
        """
        if self._label is None:
            raise FairmendError("the spec has no label. Add [label] with column and positive.")
        if self._label.classes:
            return read_classes(self._label, frame, first_row)
        if self._label.positive is None:
            return read_targets(self._label, frame, first_row)
        return read_labels(self._label, frame, first_row)

    def as_inputs(
        self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32, *, first_row: RowNumber = 0
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
            raise FairmendError("X has no rows. Pass at least one input.")
        _logger.debug("%d inputs of %d columns", *matrix.shape)
        return np.ascontiguousarray(matrix, dtype=require_float_type(dtype))

    def sample_inputs(
        self, n: int, rng: np.random.Generator, dtype: DTypeLike = np.float32, like: FloatArray | None = None
    ) -> FloatArray:
        """Return n random inputs (n, width): each feature uniform over its values, independent of the others.

        A feature that is read as it is has no range: its values are drawn from encoded rows ``like`` (rows, width), or
        from a standard normal distribution.
        """
        X = np.zeros((n, self._width), dtype=require_float_type(dtype))
        for f in self._features:
            lo, hi = f.bounds
            if f.as_is:
                column = self._slices[f.name].start
                X[:, column] = rng.normal(size=n) if like is None else rng.choice(like[:, column], n)
                continue
            continuous = f.kind == "continuous"
            values = rng.uniform(lo, hi, n) if continuous else rng.integers(int(lo), int(hi), n, endpoint=True)
            X[:, self._slices[f.name]] = f.encode(values.astype(np.float64))
        return X

    def describe_pair(self, x: ArrayLike, x2: ArrayLike) -> str:
        """Return how x2 differs from x, both encoded (width,): "the same person, age 34 instead of 61"."""
        pair = self._matrix(np.stack([np.asarray(x), np.asarray(x2)]))
        decoded = ((f.name, *map(f.show, shortest_values(f, pair[:, self._slices[f.name]]))) for f in self._features)
        return describe_difference(decoded)

    def _matrix(self, X: ArrayLike, first_row: RowNumber = 0) -> FloatArray:
        """Return X as a finite array (rows, width); raise an error if it is none."""
        try:
            matrix = np.asarray(X)
            matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
        except (TypeError, ValueError, RuntimeError) as err:
            raise FairmendError(f"X is not an array of numbers ({err}). Encode it, or pass a DataFrame.") from err
        if matrix.ndim != 2 or matrix.shape[1] != self._width:
            raise FairmendError(
                f"X has shape {matrix.shape}, but the spec describes inputs of shape (rows, {self._width}). "
                "Pass one row per input with these columns: " + ", ".join(self.column_names)
            )
        for f in self._features if not np.isfinite(matrix).all() else ():
            bad = ~np.isfinite(matrix[:, self._slices[f.name]]).all(axis=1)
            raise_for_rows(
                f'feature "{f.name}"', bad, lambda row: "not a finite number. Correct it, or remove the row.", first_row
            )
        return matrix

    # Neighbourhoods

    @property
    def _placed(self) -> list[tuple[Feature, slice]]:
        return [(f, self._slices[f.name]) for f in self._features]

    def regions(
        self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32, split: Collection[str] = ()
    ) -> Regions:
        """Return the neighbourhoods of X as unions of boxes.

        A box spans all values of a number, but has only one of each feature named in ``split``. These must not be
        continuous.
        """
        return build_regions(self._placed, self.as_inputs(X, dtype), self._links, split)

    def hull(self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32) -> tuple[FloatArray, FloatArray]:
        """Return the smallest box around each neighbourhood: lower and upper ends, each (rows, width)."""
        return build_hull(self._placed, self.as_inputs(X, dtype), self._links)

    def products(self, X: FloatArray) -> Products:
        """Return the neighbourhoods of valid inputs X (rows, width) as unions of products; one each without links."""
        return Products.around(self._placed, X, self._links)

    @property
    def most_pieces(self) -> int:
        """The most boxes that the regions of one input can have."""
        return count_pieces(self._placed, self._links)

    def are_similar(self, X: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
        """Return whether each of others (rows, width) is in the neighbourhood of its row of X; both must be valid."""
        return are_neighbours(self._placed, X, others, self._links)

    def neighbourhood_sizes(self, X: pd.DataFrame | ArrayLike, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return the size of each neighbourhood (rows,): int64, or Python ints where their sum could overflow."""
        return count_points(self._placed, self.as_inputs(X, dtype), self._links)

    def points(
        self, X: pd.DataFrame | ArrayLike, batch: int = 65536, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield all points of all neighbourhoods, in order: rows (k,) and points (k, width), k <= batch."""
        return stream_points(self._placed, self.as_inputs(X, dtype), batch, self._links)


def _as_label(label: Label | Mapping[str, Any] | None) -> Label | None:
    return label if isinstance(label, Label) or label is None else from_table(Label, label, "[label]")


def _as_claim(claim: Claim | Mapping[str, Any] | None) -> Claim:
    if claim is None:
        return Claim()
    return claim if isinstance(claim, Claim) else from_table(Claim, claim, "[claim]")
