"""The ways in which models commonly read a column: scales and filled-in values of numbers, encodings of categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.text import as_text
from fairmend.spec.draft.steps import MISSING
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    import pandas as pd


MOST_CODES = 20
"""Whole numbers with at most this many values may be codes of categories."""

# The texts that pipelines commonly put in place of a missing category; their place in sorted order is what matters.
WORDS_FOR_MISSING = ("missing", "Missing", "unknown", "Unknown", "nan", "None", "NA", "?")
_SCALES = ("standard", "none", "min-max", "standard, sample", "robust", "max-abs", "min-max from -1")
FILLS = ("missing: median", "missing: mean", "missing: most frequent", "missing: 0", "missing: -1")


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to read a column: the feature, and its style, which other columns of the data are likely to share.

    ``style`` is (scale, filled-in value) of a number, and (encoding, order, missing) of a category.
    """

    feature: Feature
    style: tuple[str, ...]

    @property
    def words(self) -> str:
        """The style in words."""
        return ", ".join(part for part in self.style if part)

    def with_categories(self, categories: tuple[str, ...]) -> Reading:
        """Return the reading with its categories in another order, and the columns of the data that hold them."""
        feature = self.feature
        columns = feature.columns
        if columns is not None:
            own = dict(zip((c for c in feature.categories or () if c != feature.dropped), columns, strict=True))
            columns = tuple(own[category] for category in categories if category != feature.dropped)
        feature = replace(feature, categories=categories, columns=columns)
        return Reading(feature, (self.style[0], "own order", *self.style[2:]))


def is_code(column: pd.Series[Any]) -> bool:
    """Return whether a numeric column may hold codes of categories."""
    present = column.dropna()
    values = present.unique()
    return 2 <= len(values) <= MOST_CODES and bool((values == np.rint(values.astype(np.float64))).all())


def number_readings(
    feature: Feature, column: pd.Series[Any], scale: Mapping[str, float] | None = None
) -> dict[tuple[str, ...], Reading]:
    """Return the readings of a number by their style; ``feature`` has its name, kind, range and role.

    With ``scale``, the scale is known, and only what is filled in for a missing value is not.
    """
    values = column.dropna().to_numpy(np.float64)
    gaps = int(column.isna().sum())
    found: dict[tuple[str, ...], Reading] = {}
    for fill, value in _fills(values, gaps):
        made = _filled(feature, value)
        all_values = values if value is None else np.concatenate([values, np.full(gaps, value)])
        for name, parameters in [("as given", scale)] if scale is not None else _scales(all_values, values):
            style = (name, fill)
            found[style] = Reading(replace(made, scale=parameters), style)
    return found


def _fills(values: Floats, gaps: int) -> Iterator[tuple[str, float | None]]:
    if gaps == 0:
        yield "", None
        return
    distinct, counts = np.unique(values, return_counts=True)
    usual = (float(np.median(values)), float(values.mean()), float(distinct[counts.argmax()]), 0.0, -1.0)
    yield from zip(FILLS, usual, strict=True)


def _filled(feature: Feature, value: float | None) -> Feature:
    """Return the feature with a value in place of a missing one; its kind and range allow the value."""
    if value is None:
        return replace(feature, missing=None, scale=None)
    low, high = feature.bounds
    whole = feature.kind == "integer" and value.is_integer()
    kind = "integer" if whole else "continuous"
    return replace(feature, kind=kind, range=(min(low, value), max(high, value)), missing=value, scale=None)


def _scales(values: Floats, known: Floats) -> Iterator[tuple[str, dict[str, float] | None]]:
    """Yield the scales that scalers and users compute from all values, or from the ones that are not filled in."""
    low, high, size = float(values.min()), float(values.max()), float(np.abs(values).max())
    first, middle, third = (float(np.quantile(values, share)) for share in (0.25, 0.5, 0.75))
    parameters = {
        "standard": (float(values.mean()), float(values.std())),
        "none": None,
        "min-max": (low, high - low),
        "standard, sample": (float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0),
        "robust": (middle, third - first),
        "max-abs": (0.0, size),
        "min-max from -1": ((low + high) / 2, (high - low) / 2),
    }
    for name in _SCALES:
        scale = parameters[name]
        # Scalers divide a constant column by 1.
        yield name, None if scale is None else {"mean": scale[0], "std": scale[1] if scale[1] > 0 else 1.0}
    if len(known) < len(values):
        spread = float(known.std())
        yield "standard of the known values", {"mean": float(known.mean()), "std": spread if spread > 0 else 1.0}


def category_readings(feature: Feature, column: pd.Series[Any]) -> dict[tuple[str, ...], Reading]:
    """Return the readings of a category by their style; ``feature`` has its name and role."""
    import pandas as pd

    present = column.dropna()
    numeric = pd.api.types.is_numeric_dtype(present.dtype) and not pd.api.types.is_bool_dtype(present.dtype)
    texts = present.map(as_text)
    counts = texts.value_counts(sort=False)
    commonest = str(texts.value_counts().index[0])
    orders = {
        "sorted": sorted(counts.index, key=float) if numeric else sorted(counts.index),
        "by appearance": list(dict.fromkeys(texts)),
        "by frequency": sorted(counts.index, key=lambda text: -int(counts[text])),
    }
    found: dict[tuple[str, ...], Reading] = {}
    for order, known in orders.items():
        for missing, categories, fills in _with_missing(known, bool(column.isna().any()), commonest):
            shares = np.array([counts.get(category, len(column) - len(present)) for category in categories], np.float64)
            if fills in known:
                shares[categories.index(fills)] += len(column) - len(present)
            for encoding, made in _encodings(feature, categories, fills, missing, shares / shares.sum()):
                found[encoding, order, missing] = Reading(made, (encoding, order, missing))
    return found


def _with_missing(known: list[str], gaps: bool, commonest: str) -> Iterator[tuple[str, tuple[str, ...], str | None]]:
    """Yield how missing values are treated: in words, the categories, and the category that replaces a missing one."""
    if not gaps:
        yield "", tuple(known), None
        return
    yield "missing: a category", (*known, MISSING), MISSING
    yield "missing: no category", (*known, MISSING), MISSING  # all one-hot columns are 0
    yield "missing: most frequent", tuple(known), commonest
    yield "missing: the first category", (MISSING, *known), MISSING
    for word in WORDS_FOR_MISSING:
        if word not in known:
            place = sorted([*known, word]).index(word)
            yield f'missing: "{word}"', (*known[:place], MISSING, *known[place:]), MISSING
    yield "missing: code -1", (MISSING, *known), MISSING


def _encodings(
    feature: Feature, categories: tuple[str, ...], fills: str | None, missing: str, shares: Floats
) -> Iterator[tuple[str, Feature]]:
    plain = Feature(feature.name, "categorical", categories=categories, protected=feature.protected, missing=fills)
    if missing == "missing: code -1":
        yield "ordinal", replace(plain, scale={"mean": 1.0, "std": 1.0})
        return
    if missing == "missing: no category":
        yield "one-hot", replace(plain, encoding="one-hot", dropped=MISSING)
        # Without the first category too, both have all columns 0.
        known = tuple(category for category in categories if category != MISSING)
        if len(known) > 1:
            yield "drop", replace(plain, encoding="one-hot", categories=known, dropped=known[0], missing=known[0])
        return
    yield "one-hot", replace(plain, encoding="one-hot")
    if len(categories) > 1:
        yield "drop", replace(plain, encoding="one-hot", dropped=categories[0])
        yield "drop last", replace(plain, encoding="one-hot", dropped=categories[-1])
    yield "ordinal", plain
    yield "ordinal from 1", replace(plain, scale={"mean": -1.0, "std": 1.0})
    if len(categories) > 1:
        yield "ordinal, min-max", replace(plain, scale={"min": 0.0, "max": len(categories) - 1.0})
        codes = np.arange(len(categories))
        mean = float(shares @ codes)
        spread = float(np.sqrt(shares @ (codes - mean) ** 2))
        yield "ordinal, standard", replace(plain, scale={"mean": mean, "std": spread if spread > 0 else 1.0})
