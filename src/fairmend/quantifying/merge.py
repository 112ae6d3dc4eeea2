"""Merge boxes that adjoin, so that the map has few and simple ones."""

from __future__ import annotations

from dataclasses import dataclass

from fairmend.base.arrays import Floats, Ints
from fairmend.quantifying.space import Boxes

_DILUTED = 0.55  # a merged box holds at least this part of the denser one's share that is treated unequally


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
