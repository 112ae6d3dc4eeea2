"""The map of a quantification: boxes of people who are proven to be treated unequally, few and in words.

Boxes that adjoin are merged, so that there are few and simple ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.text import listed
from fairmend.quantifying.decide import CELLS, Decider
from fairmend.quantifying.sample import find_witnesses
from fairmend.quantifying.search import Leaves
from fairmend.spec import Feature
from fairmend_check.shares.people import Axis, Boxes

MOST_BOXES = 100
"""The boxes of a map."""

_MERGED_BOXES = 512  # that the map is made of
_DILUTED = 0.55  # a merged box holds at least this part of the denser one's share that is treated unequally


@dataclass(frozen=True)
class QuantifyBox:
    """A box of people who are proven to be treated unequally, or of whom a part is.

    Attributes
    ----------
    features : the values of each feature that does not have its whole range: the lowest and highest, or the categories
    share : the share of all people who are in the box and proven to be treated unequally
    of_box : the share of the box that is proven to be treated unequally
    decides : the protected features that change the class, or the score by more than delta
    classes : the two classes that most people in the box get, 1 and 0 if there are no others; None if no protected
        feature changes the class, but a tolerance does, and for claims about scores
    positive, negative : protected values with the first and with the second of these classes, or with a higher and
        a lower score
    rows : how many rows of the data are in the box; None without data
    text : the box in words
    """

    features: dict[str, list[Any]]
    share: float
    of_box: float
    decides: tuple[str, ...]
    classes: tuple[int, int] | None
    positive: dict[str, Any]
    negative: dict[str, Any]
    rows: int | None
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        classes = None if self.classes is None else list(self.classes)
        return {**vars(self), "decides": list(self.decides), "classes": classes}


@dataclass(frozen=True, eq=False)
class Region:
    """A box ``first`` to ``last (axes,)``, its share of all people, and the share of these who are unequal."""

    first: Ints
    last: Ints
    share: float
    unfair: float

    @property
    def of_box(self) -> float:
        """The share of the box that is treated unequally."""
        return min(1.0, self.unfair / self.share)


def make_map(decider: Decider, leaves: Leaves, cells: Ints | None) -> tuple[QuantifyBox, ...]:
    """Return the boxes with the largest shares that are treated unequally; ``cells (rows, axes)`` are people's."""
    shares = leaves.shares * leaves.unfair
    order = np.argsort(-shares, kind="stable")[:_MERGED_BOXES]
    order = order[shares[order] > 0]
    regions = merge_boxes(leaves.boxes.take(order), leaves.shares[order], shares[order])
    regions.sort(key=lambda region: -region.unfair)
    return tuple(_describe(decider, region, cells) for region in regions[:MOST_BOXES])


def _describe(decider: Decider, region: Region, cells: Ints | None) -> QuantifyBox:
    people, first, last = decider.people, region.first.tolist(), region.last.tolist()
    features = {feature.name: feature for feature in decider.spec.features}
    ranges = [
        (features[axis.feature.name], axis, first[k], last[k])
        for k, axis in enumerate(people.axes)
        if last[k] - first[k] + 1 < axis.cells
    ]
    witnesses = find_witnesses(decider, Boxes(region.first[None], region.last[None]))
    values: list[dict[str, Any]] = [{}, {}]
    if witnesses is not None:
        own = [(features[axis.feature.name], axis) for axis in people.protected]
        each = (zip(own, value.tolist(), strict=True) for value in witnesses.values)
        values = [{pair[0].name: _values(*pair, cell, cell)[0] for pair, cell in pairs} for pairs in each]
    decides = tuple(name for name in values[0] if values[0][name] != values[1][name])
    words = listed([_words(*each) for each in ranges], most=None) or "all people"
    kinds = {"a link": people.links is not None, "a tolerance": people.reach.any(), "a band": people.banded}
    other = f"{' or '.join(kind for kind, there in kinds.items() if there) or 'a protected feature'} decides"
    cause = f"{listed(decides)} {'decides' if len(decides) == 1 else 'decide'}" if decides else other
    return QuantifyBox(
        features={feature.name: _values(feature, *ends) for feature, *ends in ranges},
        share=region.unfair,
        of_box=region.of_box,
        decides=decides,
        classes=None if witnesses is None else witnesses.classes,
        positive=values[0],
        negative=values[1],
        rows=None if cells is None else int(((cells >= first) & (cells <= last)).all(axis=1).sum()),
        text=f"{words}: {cause}",
    )


def _values(feature: Feature, axis: Axis, first: int, last: int) -> list[Any]:
    """Return the categories from first to last, or the lowest and highest value."""
    low, high = feature.bounds
    if feature.categories:
        codes = np.sort(axis.codes(np.arange(first, last + 1))).tolist()
        return [str(feature.show(feature.categories[code])) for code in codes]
    if feature.kind != "continuous":
        return [int(low) + first, int(low) + last]
    return [min(low + (high - low) * (cell / CELLS), high) if high > low else low for cell in (first, last + 1)]


def _words(feature: Feature, axis: Axis, first: int, last: int) -> str:
    """Return a range of cells in words: "hours above 45", "capital gain 0", "race Black or White"."""
    values = _values(feature, axis, first, last)
    if feature.categories:
        return f"{feature.name} {' or '.join(values)}"
    low, high = (feature.show(value) for value in values)
    low, high = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in (low, high))
    if first == last and feature.kind != "continuous":
        return f"{feature.name} {low}"
    cells = CELLS if feature.kind == "continuous" else int(feature.bounds[1] - feature.bounds[0]) + 1
    if last == cells - 1:
        return f"{feature.name} from {low}"
    return f"{feature.name} up to {high}" if first == 0 else f"{feature.name} {low} to {high}"


def merge_boxes(boxes: Boxes, shares: Floats, unfair: Floats) -> list[Region]:
    """Return boxes, merged along one axis after another as long as any can be; ``unfair`` are shares of all people.

    Two boxes are merged if they are the same but for ranges of one axis that adjoin, and if the part of people who
    are treated unequally is not much smaller in both together.
    """
    parts = zip(boxes.first, boxes.last, shares.tolist(), unfair.tolist(), strict=True)
    regions = [Region(*part) for part in parts]
    before = len(regions) + 1
    while len(regions) < before:
        before = len(regions)
        for axis in range(boxes.first.shape[1]):
            regions = _merged_along(regions, axis)
    return regions


def _merged_along(regions: list[Region], axis: int) -> list[Region]:
    groups: dict[bytes, list[Region]] = {}
    for region in regions:
        parts = (part.tobytes() for end in (region.first, region.last) for part in (end[:axis], end[axis + 1 :]))
        groups.setdefault(b"".join(parts), []).append(region)
    found = []
    for group in groups.values():
        group.sort(key=lambda region: int(region.first[axis]))
        last = group[0]
        for region in group[1:]:
            both = _both(last, region, axis)
            if both is None:
                found.append(last)
            last = region if both is None else both
        found.append(last)
    return found


def _both(lower: Region, upper: Region, axis: int) -> Region | None:
    """Return both boxes in one, if they adjoin and are alike."""
    if lower.last[axis] + 1 != upper.first[axis]:
        return None
    both = Region(lower.first, upper.last, lower.share + upper.share, lower.unfair + upper.unfair)
    return both if both.of_box >= _DILUTED * max(lower.of_box, upper.of_box) else None
