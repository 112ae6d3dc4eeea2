"""The columns of the data for a search: the readings of each, as a number and as a category."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from fairmend.spec.draft.draft import Draft
from fairmend.spec.draft.guess_encoding import indicator_of
from fairmend.spec.draft.guess_feature import guess_feature
from fairmend.spec.draft.readings import Reading, category_readings, is_code, number_readings


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the data and its readings, by style.

    Attributes
    ----------
    name : its name
    numbers, categories : its readings as a number and as a category; empty if it cannot be one
    text : whether it is a category unless codes are meant
    optional : whether the model may not read it, such as an id
    gap_share : the share of missing values
    """

    name: str
    numbers: Mapping[tuple[str, ...], Reading] = field(default_factory=dict)
    categories: Mapping[tuple[str, ...], Reading] = field(default_factory=dict)
    text: bool = False
    optional: bool = False
    gap_share: float = 0.0

    @property
    def readings(self) -> list[Reading]:
        """All readings."""
        return [*self.numbers.values(), *self.categories.values()]

    def indicator(self, standard: bool) -> Reading:
        """Return the column that marks missing values as a reading: 0 and 1, or standardized."""
        feature, share = indicator_of(self.name), self.gap_share
        if not standard:
            return Reading(feature, ("marks missing values",))
        scale = {"mean": share, "std": math.sqrt(share * (1 - share))}
        return Reading(replace(feature, scale=scale), ("marks missing values", "standard"))


def columns_of(
    draft: Draft,
    frame: pd.DataFrame,
    *,
    scales: Mapping[str, Mapping[str, float]] | None = None,
    codes: bool = True,
    optional: Sequence[str] = (),
) -> list[Column]:
    """Return the columns of a draft, in its order, and ``optional`` ones, which the model may read too.

    ``codes`` says whether whole numbers may be codes of categories. With ``scales``, those of the numbers are known.
    """
    found = []
    features = [drafted.feature for drafted in draft.features if drafted.feature.indicates is None]
    features += [guess_feature(name, frame[name], False, "none").feature for name in optional]
    for feature in features:
        raw = frame[feature.name]
        rest = (feature.name in optional, float(raw.isna().mean()))
        if feature.categories:
            found.append(Column(feature.name, {}, category_readings(feature, raw), True, *rest))
            continue
        scale = None if scales is None else scales.get(feature.name, {"mean": 0.0, "std": 1.0})
        numbers = number_readings(replace(feature, scale=None, missing=None), raw, scale)
        categories = category_readings(feature, raw) if codes and scale is None and is_code(raw) else {}
        found.append(Column(feature.name, numbers, categories, False, *rest))
    if optional:  # in the order of the data, among the others
        found.sort(key=lambda column: list(frame.columns).index(column.name))
    return found
