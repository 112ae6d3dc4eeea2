"""Data that does not fit the spec: values out of range, and signs that the spec is not that of the network.

A claim about people in a range says nothing about a person outside it, so such a person is refused unless the user
decides otherwise. Every policy counts what it changes. With a wrong spec, every other figure describes a different
network: often one that treats everyone equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, printable, shown, suggest
from fairmend.spec.features import Feature
from fairmend.spec.read_values import RowNumber, find_rows_out_of_range, raise_for_rows

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.spec.spec import Spec


POLICIES = ("refuse", "clip", "skip", "widen")

_NO_CATEGORY = {
    "clip": "a category has no nearest one",
    "widen": "the network has no input for a category that it was not trained on",
}

_MOST_VALUES = 4  # labels that a warning names

_FEWEST_ROWS = 20  # with fewer, a constant prediction or a low AUC can be chance


class Doubt(str):
    """A warning that makes every figure doubtful, so it stands above them: the model may not be the one as trained."""

    __slots__ = ()


_CONSTANT = (
    "The network gives all {rows:,} people the same prediction ({prediction}). Check that the spec matches the "
    "training data: scale, encoding, order of columns."
)
_AGAINST_LABELS = (
    "The network ranks people against their labels (AUC {auc:.3f}). Check that the spec matches the training data: "
    "positive value (the one that the model calls class 1; in scikit-learn the last of the sorted values), scale, "
    "order of columns."
)
_BY_CHANCE = (
    "The network is not better than chance on the labels: its AUC is {auc:.3f}, and scores that have nothing to do "
    "with them reach {by_chance:.3f} in 1 of 40 cases. Figures say little about the network as it was trained. "
    "Check that the spec matches the training data: order of columns, scale, encoding, label."
)
_WORSE_THAN_MEAN = (
    "The network predicts worse than the mean of the targets (R² {r2:.3f}). Figures say little about the network "
    "as it was trained. Check that the spec matches the training data: order of columns, scale, encoding, label."
)


@dataclass(frozen=True)
class Outside:
    """How many values of one feature are `below` its range, `above` it, or `unknown`: none of its categories."""

    below: int = 0
    above: int = 0
    unknown: int = 0

    def __add__(self, other: Outside) -> Outside:
        """Return the counts of both."""
        return Outside(self.below + other.below, self.above + other.above, self.unknown + other.unknown)

    @property
    def total(self) -> int:
        """The number of values."""
        return self.below + self.above + self.unknown


@dataclass(frozen=True)
class OutOfRange:
    """What was done about values out of range.

    Attributes
    ----------
    policy : "refuse" (there were none), "clip", "skip" or "widen"
    rows : the number of rows with such a value
    features : the counts of each feature that has such values
    ranges : the ranges after widening; empty with another policy
    """

    policy: str
    rows: int = 0
    features: Mapping[str, Outside] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __add__(self, other: OutOfRange) -> OutOfRange:
        """Return the sum over two parts of the data."""
        names = dict.fromkeys([*self.features, *other.features])
        none = Outside()
        counts = {name: self.features.get(name, none) + other.features.get(name, none) for name in names}
        ranges = {
            name: _hull(self.ranges.get(name, ends), other.ranges.get(name, ends))
            for name, ends in {**self.ranges, **other.ranges}.items()
        }
        return OutOfRange(self.policy, self.rows + other.rows, counts, ranges)

    def describe(self) -> str:
        """Return what was done, in a sentence; empty if there was nothing to do."""
        if not self.rows:
            return ""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        done = {
            "clip": f"{rows} with a value out of range: the value was moved to the nearest end of the range (clip)",
            "skip": f"{rows} with a value out of range: left out (skip)",
            "widen": f"{rows} with a value out of range: the range was widened (widen)",
        }[self.policy]
        return printable(f"{done}. {'; '.join(self._describe_feature(name) for name in self.features)}.")

    def _describe_feature(self, name: str) -> str:
        counts = self.features[name]
        parts = [
            f"{count:,} {what}"
            for count, what in ((counts.below, "below"), (counts.above, "above"), (counts.unknown, "unknown"))
            if count
        ]
        now = "" if name not in self.ranges else ", now {:.10g} to {:.10g}".format(*self.ranges[name])
        return f"{name}: {', '.join(parts)}{now}"


@dataclass(frozen=True, eq=False)
class InRange:
    """Data whose values are all in range, as one of the policies leaves it.

    Attributes
    ----------
    spec : the spec, with wider ranges after "widen"
    frame : the data; after "clip" with other values, after "skip" with fewer rows
    kept : bool (rows of the original data,), which rows are left
    done : what was done, with counts
    """

    spec: Spec
    frame: pd.DataFrame
    kept: NDArray[np.bool_]
    done: OutOfRange


def require_policy(policy: str) -> None:
    """Raise an error for an unknown policy."""
    if policy not in POLICIES:
        known = ", ".join(POLICIES)
        raise FairmendError(f'out_of_range must be one of {known}, got "{policy}"{suggest(str(policy), POLICIES)}')


def apply_policy(
    features: Iterable[Feature], frame: pd.DataFrame, policy: str, first_row: RowNumber = 0
) -> tuple[pd.DataFrame, NDArray[np.bool_], OutOfRange]:
    """Return the data as "clip" or "skip" leaves it, which rows are kept (rows,), and what was done.

    "refuse" and "widen" change no data: encoding it refuses, and `find_wider_ranges` looks at all of it before.
    """
    require_policy(policy)
    keep = np.ones(len(frame), dtype=bool)
    if policy in ("refuse", "widen"):
        return frame, keep, OutOfRange(policy)
    clipped: dict[str, pd.Series[Any]] = {}
    bad, counts = np.zeros(len(frame), dtype=bool), {}
    for feature, values, outside in _find_outside(features, frame, policy, first_row):
        bad |= outside
        counts[feature.name] = _count(feature, values, outside)
        if policy == "clip":
            clipped[feature.name] = _moved_to_ends(feature, frame[feature.name], values, outside)
    done = OutOfRange(policy, int(bad.sum()), counts)
    if policy == "clip":
        return (frame.assign(**clipped) if clipped else frame), keep, done
    return frame[~bad], ~bad, done


def find_wider_ranges(features: Iterable[Feature], frame: pd.DataFrame, first_row: RowNumber = 0) -> OutOfRange:
    """Return the ranges that contain the data, for the features that need a wider one, with counts."""
    bad, counts, ranges = np.zeros(len(frame), dtype=bool), {}, {}
    for feature, values, outside in _find_outside(features, frame, "widen", first_row):
        raise_for_rows(
            f'feature "{feature.name}"',
            np.isinf(values),
            lambda row: "infinity is in no range. Correct the value, or pass --out-of-range clip or skip.",
            first_row,
        )
        bad |= outside
        counts[feature.name] = _count(feature, values, outside)
        ranges[feature.name] = _hull(feature.bounds, (float(values[outside].min()), float(values[outside].max())))
    return OutOfRange("widen", int(bad.sum()), counts, ranges)


def _find_outside(
    features: Iterable[Feature], frame: pd.DataFrame, policy: str, first_row: RowNumber
) -> Iterator[tuple[Feature, NDArray[np.float64], NDArray[np.bool_]]]:
    """Yield the features with values out of range, their values and which are; refuse what the policy cannot help."""
    for feature in features:
        found = find_rows_out_of_range(feature, frame, first_row)
        if found is None:
            continue
        if feature.categories and policy in _NO_CATEGORY:
            raise_for_rows(
                f'feature "{feature.name}"',
                found[1],
                lambda row, name=feature.name: (  # type: ignore[misc]  # the feature of this turn
                    f'"{printable(str(frame[name].iloc[row])[:60])}" is not one of its categories, and {policy} cannot '
                    f"help: {_NO_CATEGORY[policy]}. Correct it, or pass --out-of-range skip."
                ),
                first_row,
            )
        yield feature, *found


def _hull(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), max(one[1], other[1])


def _count(feature: Feature, values: NDArray[np.float64], outside: NDArray[np.bool_]) -> Outside:
    if feature.categories:
        return Outside(unknown=int(outside.sum()))
    below = int((values[outside] < feature.bounds[0]).sum())
    return Outside(below, int(outside.sum()) - below)


def _moved_to_ends(
    feature: Feature, series: pd.Series[Any], values: NDArray[np.float64], outside: NDArray[np.bool_]
) -> pd.Series[Any]:
    """Return a column of the user's data with the values outside of the range at its nearest end."""
    import pandas as pd

    low, high = feature.bounds
    moved = series.astype(object)
    moved[outside & (values < low)] = low
    moved[outside & (values > high)] = high
    return pd.to_numeric(moved) if pd.api.types.is_numeric_dtype(series.dtype) else moved


def spec_warnings(
    predictions: npt.NDArray[np.integer],
    auc: float | None = None,
    classes: Sequence[str] = (),
    *,
    by_chance: float | None = None,
) -> list[str]:
    """Return a sentence for each sign that the spec is wrong, given the predictions (people,) and the AUC if known.

    `classes` are the names of the classes, if they have any. `by_chance` is the AUC up to which a network is not better
    than chance on these labels.
    """
    found: list[str] = []
    if len(predictions) >= _FEWEST_ROWS and (predictions == predictions[0]).all():
        number = int(predictions[0])
        name = shown(classes[number]) if number < len(classes) else f"class {number}"
        found.append(Doubt(_CONSTANT.format(rows=len(predictions), prediction=name)))
    if len(predictions) >= _FEWEST_ROWS and auc is not None and by_chance is not None and auc <= by_chance:
        against = auc < 1 - by_chance
        found.append(Doubt((_AGAINST_LABELS if against else _BY_CHANCE).format(auc=auc, by_chance=by_chance)))
    return found


def regression_warnings(r2: float | None, rows: int) -> list[str]:
    """Return a sentence if a regression network is no better than the mean of the targets of so many rows."""
    if r2 is None or r2 > 0 or rows < _FEWEST_ROWS:
        return []
    return [Doubt(_WORSE_THAN_MEAN.format(r2=r2))]


def label_warnings(spec: Spec, positive_found: bool, values: Sequence[object], source: object) -> list[str]:
    """Return a sentence if no label is the positive one, or the favourable one of two.

    `values` are the different labels of the data `source`.
    """
    if spec.label is None:
        return []
    favourable = spec.label.favourable
    if positive_found and (favourable is None or favourable in map(as_text, values)):
        return []
    key, missing = ("favourable", favourable) if positive_found else ("positive", spec.label.positive)
    named = ", ".join(f'"{shown(value)}"' for value in values[:_MOST_VALUES])
    more = ", …" if len(values) > _MOST_VALUES else ""
    return [
        f'the label "{shown(spec.label.column)}" is never "{shown(missing)}" in {source} (it is '
        f"{named}{more}); check `{key}` in the spec"
    ]
