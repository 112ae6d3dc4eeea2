"""Bands: people are similar who have values in the same band of a feature, such as an income of 500 to 999.

A number has bands from their lower ends, the last of which ends with the range; categories have groups. Unlike a
tolerance, bands do not chain: people on two sides of an edge are not similar, however close their values are.
`products` says what they do to neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_repeated, suggest
from fairmend.spec.toml import as_list, as_number, as_value_text

Groups = tuple[tuple[str, ...], ...]
Bands = tuple[float, ...] | Groups

MOST_BANDS = 10_000
"""A feature with more is refused: at a width so small it hardly has bands."""

_MOST_SHOWN = 10**9  # bands that a message counts
_SLIVER = 1e-9  # of a width: what rounding leaves at the end of a range is no band of its own


def read_lower_ends(given: object, extent: tuple[float, float], whole: bool, where: str) -> tuple[float, ...]:
    """Return the lower ends of the bands of a number with this range, in their canonical form."""
    low, high = extent
    where = f"{where}: bands"
    if isinstance(given, Mapping):
        ends = _from_width(given, low, high, whole, where)
    else:
        listed = as_list(given)
        if not listed or any(as_list(end) is not None for end in listed):
            raise FairmendError(f"{where} of a number must be lower ends such as [0, 500], or {{width = 500}}")
        _require_few(len(listed), where)
        ends = [as_number(end, where) for end in listed]
    for before, after in pairwise(ends):
        if before >= after:
            raise FairmendError(f"{where} must increase, but {after:.10g} comes after {before:.10g}")
    if ends[0] != low:
        what = "leave a gap below" if ends[0] > low else "start below the range with"
        raise FairmendError(
            f"{where} {what} {ends[0]:.10g}. Start them with {low:.10g}, the lowest value of the range."
        )
    if ends[-1] > high:
        raise FairmendError(f"{where}: {ends[-1]:.10g} is above {high:.10g}, the highest value of the range")
    if whole and not all(float(end).is_integer() for end in ends):
        bad = next(end for end in ends if not float(end).is_integer())
        raise FairmendError(f"{where} of an integer feature must be whole numbers, got {bad:.10g}")
    if len(ends) < 2:
        raise FairmendError(f"{where}: one band holds every value. Set protected = true if all count the same.")
    if whole and len(ends) == high - low + 1:
        raise FairmendError(f"{where}: every band has a single value, so nobody differs in it. Remove bands.")
    return tuple(int(end) if whole else end for end in ends)


def _from_width(given: Mapping[str, object], low: float, high: float, whole: bool, where: str) -> list[float]:
    if set(given) != {"width"}:
        raise FairmendError(f"{where} must be lower ends such as [0, 500], or {{width = 500}}, got {dict(given)!r}")
    width = as_number(given["width"], f"{where}: width")
    if width <= 0:
        raise FairmendError(f"{where}: width must be above 0, got {width:.10g}")
    steps = (high - low) / width
    _require_few(steps, where)
    ends = [low + number * width for number in range(int(steps) + 2)]
    # The highest whole number begins a band where one is due; of other numbers, it ends the last band.
    return [end for end in ends if end <= high and (whole or end == low or high - end > width * _SLIVER)]


def _require_few(count: float, where: str) -> None:
    if count > MOST_BANDS:
        shown = f"{count:,.0f}" if count < _MOST_SHOWN else f"more than {_MOST_SHOWN:,}"
        raise FairmendError(f"{where}: {shown} bands are too many. Use at most {MOST_BANDS:,}, or a larger width.")


def read_groups(given: object, categories: tuple[str, ...], where: str) -> Groups:
    """Return the groups of a categorical feature in the order of their codes."""
    where = f"{where}: bands"
    listed = as_list(given)
    groups = [as_list(group) for group in listed or ()]
    if not groups or not all(groups):
        raise FairmendError(f'{where} of categories must be groups such as [["a", "b"], ["c"]], got {given!r}')
    texts = [[as_value_text(each, f"{where}: a category") for each in group or ()] for group in groups]
    named = [text for group in texts for text in group]
    for text in named:
        if text not in categories:
            raise FairmendError(f'{where}: "{text}" is not one of its categories{suggest(text, categories)}')
    twice = first_repeated(named)
    if twice is not None:
        raise FairmendError(f'{where}: category "{twice}" is in two bands, or twice in one. Remove one.')
    left = [category for category in categories if category not in named]
    if left:
        raise FairmendError(f'{where} leave out category "{left[0]}". Put every category into one band.')
    if len(texts) == 1:
        raise FairmendError(f"{where}: one band holds every category. Set protected = true if all count the same.")
    if len(texts) == len(categories):
        raise FairmendError(f"{where}: every band has a single category, so nobody differs in it. Remove bands.")
    in_order = [tuple(sorted(group, key=categories.index)) for group in texts]
    return tuple(sorted(in_order, key=lambda group: categories.index(group[0])))


def require_distinct(values: list[tuple[float, float]], scale: tuple[float, float], whole: bool, where: str) -> None:
    """Raise an error if the model, in float32, does not tell two values of different bands apart.

    ``values`` are the pairs to compare: the last of what is below a band, and the first of the band. Whole numbers must
    also be those that are nearest to what their encodings mean, because the own value decides about the band.
    """
    if not values:
        return
    pairs, (offset, factor) = np.array(values, np.float64), scale
    encoded = ((pairs - offset) / factor).astype(np.float32)
    decoded = np.rint(encoded.astype(np.float64) * factor + offset)
    same = np.flatnonzero((encoded[:, 0] >= encoded[:, 1]) | (whole & (decoded != pairs).any(axis=1)))
    if len(same):
        low, high = values[int(same[0])]
        raise FairmendError(
            f"{where}: bands part {low:.10g} from {high:.10g}, but a model in float32 cannot tell them apart with this "
            "scale. Use wider bands, or a scale with a mean near the values."
        )
