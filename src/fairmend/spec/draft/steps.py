"""What the steps of a scikit-learn pipeline do to one column, as far as a spec can say it.

A `Track` follows a raw column through the steps: what stands in for a missing value, then either categories or an
affine scaling, at last its one-hot columns. A step that a spec cannot express is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.errors import FairmendError
from fairmend.text import as_text

MISSING = "(missing)"

WORKS = (
    "ColumnTransformer, Pipeline, OneHotEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler, MaxAbsScaler, "
    "RobustScaler, SimpleImputer, 'passthrough' and 'drop' can be read"
)


@dataclass(frozen=True)
class Track:
    """One raw column so far: the model reads (value or code - offset) / factor, or one column for each category.

    ``missing`` is the value, raw or as a category, that stands in for a missing one. ``extent`` is the range a scaler
    saw, and ``clipped`` whether it cuts values off there.
    """

    name: str
    offset: float = 0.0
    factor: float = 1.0
    missing: Any = None
    categories: tuple[str, ...] | None = None
    one_hot: bool = False
    dropped: str | None = None
    extent: tuple[float, float] | None = None
    clipped: bool = False
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many columns it has become."""
        return len(self.categories or ()) - (self.dropped is not None) if self.one_hot else 1

    @property
    def raw(self) -> bool:
        """Whether nothing but filling in has been done to it."""
        return self.categories is None and (self.offset, self.factor) == (0.0, 1.0)

    def scaled(self, offset: float, factor: float, step: str) -> Track:
        """Return it after the step x -> (x - offset) / factor."""
        if self.one_hot:
            raise FairmendError(
                f'{step} scales the one-hot columns of "{self.name}", which a spec cannot say; scale the numeric '
                "columns only, in a ColumnTransformer beside the OneHotEncoder"
            )
        if not (math.isfinite(offset) and math.isfinite(factor) and factor > 0):
            raise FairmendError(
                f'{step} scales "{self.name}" by {factor:g}, around {offset:g}; a spec needs more than 0'
            )
        return replace(self, offset=self.offset + offset * self.factor, factor=self.factor * factor)


Step = Callable[[Any, Sequence[Track]], list[Track]]


def apply_scaler(scaler: Any, tracks: Sequence[Track]) -> list[Track]:
    """StandardScaler, MaxAbsScaler or RobustScaler."""
    name = type(scaler).__name__
    if getattr(scaler, "clip", False):
        raise FairmendError(f"{name} clips what is beyond its range, which a spec cannot say; use clip=False")
    centre = {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(name)
    offsets = getattr(scaler, centre) if centre else None
    factors = scaler.scale_
    if name == "StandardScaler" and not scaler.with_mean:
        offsets = None  # it keeps the mean, and does not use it
    return [
        track.scaled(0.0 if offsets is None else float(offsets[i]), 1.0 if factors is None else float(factors[i]), name)
        for i, track in enumerate(tracks)
    ]


def apply_min_max(scaler: Any, tracks: Sequence[Track]) -> list[Track]:
    """MinMaxScaler, whatever its feature_range."""
    made = []
    low, _ = scaler.feature_range
    for i, track in enumerate(tracks):
        ends = float(scaler.data_min_[i]), float(scaler.data_max_[i])
        factor = 1.0 / float(scaler.scale_[i])
        extent = tuple(end * track.factor + track.offset for end in ends)
        after = track.scaled(ends[0] - low * factor, factor, "MinMaxScaler")
        if scaler.clip and track.categories is None:
            after = replace(after, clipped=True)
        if track.categories is None:
            after = replace(after, extent=(extent[0], extent[1]))
        made.append(after)
    return made


def apply_imputer(imputer: Any, tracks: Sequence[Track]) -> list[Track]:
    """SimpleImputer: what it fills in is what a missing value stands for."""
    if imputer.add_indicator:
        raise FairmendError("SimpleImputer adds indicator columns, which a spec cannot say; use add_indicator=False")
    marker = imputer.missing_values
    if not _is_missing(marker):
        raise FairmendError(
            f"SimpleImputer takes {marker!r} for missing, which the spec takes for a value; replace it by an empty "
            "value in the data, and fit SimpleImputer with its default missing_values"
        )
    made = []
    for track, value in zip(tracks, imputer.statistics_, strict=True):
        if _is_missing(value):
            raise FairmendError(f'SimpleImputer found no value in "{track.name}" to fill in; drop the column')
        if track.categories is not None:
            raise FairmendError(f'SimpleImputer comes after the encoder of "{track.name}"; put it first')
        if track.missing is None:
            raw = value if track.raw else float(value) * track.factor + track.offset
            track = replace(track, missing=raw, notes=(*track.notes, f"missing: what SimpleImputer fills in, {raw}"))
        made.append(track)
    return made


def apply_one_hot(encoder: Any, tracks: Sequence[Track]) -> list[Track]:
    """OneHotEncoder, with its dropped categories."""
    _refuse_infrequent(encoder)
    made = []
    for i, track in enumerate(tracks):
        _need_raw(track, "OneHotEncoder")
        categories, missing, notes = _categories(encoder.categories_[i], track, "OneHotEncoder")
        place = None if encoder.drop_idx_ is None else encoder.drop_idx_[i]
        dropped = None if place is None else categories[int(place)]
        if encoder.handle_unknown != "error":
            notes += (f"OneHotEncoder(handle_unknown={encoder.handle_unknown!r}): a spec refuses unknown categories",)
        base = replace(track, missing=missing, notes=(*track.notes, *notes))
        if dropped is not None and len(categories) == 2:
            # The one column that is left is 0 for the dropped category and 1 for the other: a code.
            made.append(replace(base, categories=(dropped, next(c for c in categories if c != dropped))))
        elif dropped is not None and len(categories) == 1:
            continue  # its only category is dropped: no column is left
        else:
            made.append(replace(base, categories=categories, one_hot=True, dropped=dropped))
    return made


def apply_ordinal(encoder: Any, tracks: Sequence[Track]) -> list[Track]:
    """OrdinalEncoder; a number for what is missing must continue its codes."""
    _refuse_infrequent(encoder)
    made = []
    for i, track in enumerate(tracks):
        _need_raw(track, "OrdinalEncoder")
        categories, missing, notes = _categories(encoder.categories_[i], track, "OrdinalEncoder")
        first = 0
        if encoder.handle_unknown != "error":
            notes += ("OrdinalEncoder has a code for unknown categories: a spec refuses them",)
        if MISSING in categories and missing == MISSING:
            code, known = encoder.encoded_missing_value, tuple(c for c in categories if c != MISSING)
            if code == len(known):
                categories = (*known, MISSING)
            elif code == -1:
                categories, first = (MISSING, *known), -1
            elif _is_missing(code):  # the model cannot read it, and neither will the spec
                categories, missing = known, None
            else:
                raise FairmendError(
                    f'OrdinalEncoder gives a missing "{track.name}" the code {code}; a spec can only say -1 or '
                    f"{len(known)}, the codes beside the others: set encoded_missing_value to one of them"
                )
        notes = (*track.notes, *notes)
        made.append(replace(track, missing=missing, categories=categories, offset=float(-first), notes=notes))
    return made


def _need_raw(track: Track, step: str) -> None:
    if not track.raw:
        raise FairmendError(f'{step} encodes "{track.name}" after another step changed it; encode the raw column')


def _categories(values: Any, track: Track, step: str) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
    """Return the categories as texts, the one that a missing value is, and remarks."""
    gone = [value for value in values if _is_missing(value)]
    if len(gone) > 1:
        raise FairmendError(f'{step} tells two kinds of missing values of "{track.name}" apart; use one, NaN or None')
    if gone and MISSING in map(str, values):
        raise FairmendError(f'"{track.name}" has both missing values and a category "{MISSING}"; rename the category')
    texts = tuple(MISSING if _is_missing(value) else as_text(value) for value in values)
    if len(set(texts)) < len(texts):
        raise FairmendError(f'{step} tells categories of "{track.name}" apart that read alike: {", ".join(texts)}')
    if track.missing is not None:
        text = as_text(track.missing)
        if text not in texts:
            raise FairmendError(f'a missing "{track.name}" is filled in by {text!r}, which {step} does not know')
        return texts, text, ()
    return (texts, MISSING, (f'"{MISSING}" is what {step} knows as missing',)) if gone else (texts, None, ())


def _refuse_infrequent(encoder: Any) -> None:
    # The public attribute exists only where the encoder was told to look for them.
    grouped = getattr(encoder, "infrequent_categories_", None) if _may_group(encoder) else None
    for i, group in enumerate(grouped or ()):
        if group is not None:
            raise FairmendError(
                f"{type(encoder).__name__} makes one of {len(group)} infrequent categories of its column {i}, which "
                "a spec cannot say; group them in the data before, or fit it without min_frequency and max_categories"
            )


def _may_group(encoder: Any) -> bool:
    return encoder.min_frequency is not None or encoder.max_categories is not None


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)
