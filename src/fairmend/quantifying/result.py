"""What `fairmend.quantify` returns: the shares, and the map of boxes that are treated unequally."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.base.arrays import Ints
from fairmend.base.text import condition_text, listed
from fairmend.prove.certificate import Certificate
from fairmend.quantifying.certificate import Evidence
from fairmend.quantifying.confirm import confirmed_certificate
from fairmend.quantifying.data_rows import DataShares
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.leaves import Leaves
from fairmend.quantifying.merge import Region, merge_boxes
from fairmend.quantifying.space import Axis, Boxes, Space
from fairmend.quantifying.witnesses import find_witnesses

MOST_BOXES = 100
"""The boxes of a map."""

_MERGED_BOXES = 512  # that the map is made of


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


@dataclass(frozen=True, repr=False)
class QuantifyResult:
    """Shares of all people that the spec allows; they add up to 1.

    Attributes
    ----------
    fair : the share that is proven to be treated equally
    unfair : the share that is proven to be treated unequally
    undecided : the rest
    boxes : the map: the boxes with the largest shares that are proven to be treated unequally, largest first
    rows : the same for the rows of the data, as numbers of rows; None without data
    sampled : the share of random people who were found to be treated unequally; None without samples
    samples : the number of random people
    leaves : the number of boxes that all people were divided into
    seconds : how long it took
    evidence : all boxes, from which the certificate is made
    condition : what must be true of the program that runs the model, if its file leaves that open, else ""
    """

    fair: float
    unfair: float
    undecided: float
    boxes: tuple[QuantifyBox, ...]
    rows: DataShares | None
    sampled: float | None
    samples: int
    leaves: int
    seconds: float
    evidence: Evidence = field(repr=False, compare=False)
    condition: str = ""

    @cached_property
    def certificate(self) -> Certificate:
        """A certificate of the shares, with all boxes, for `fairmend.check`.

        The checker counts people by other means than `quantify`. So it is run here, which takes about as long as the
        run did, and the certificate claims what it confirms: the shares, or slightly less.
        """
        return confirmed_certificate(self.evidence, self.fair, self.unfair)

    def __repr__(self) -> str:
        """Show the shares in percent."""
        shares = ", ".join(f"{name} {100 * getattr(self, name):.4g} %" for name in ("fair", "unfair", "undecided"))
        boxes = f"{self.leaves:,} boxes, {self.seconds:.1f} s"
        return f"QuantifyResult({shares}; {boxes}{condition_text(self.condition)})"

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        hidden = ("evidence", "certificate")
        return {
            **{name: value for name, value in vars(self).items() if name not in hidden},
            "boxes": [box.as_dict() for box in self.boxes],
            "rows": None if self.rows is None else {**vars(self.rows), "total": self.rows.total},
        }


def make_map(decider: Decider, leaves: Leaves, cells: Ints | None) -> tuple[QuantifyBox, ...]:
    """Return the boxes with the largest shares that are treated unequally; ``cells (rows, axes)`` are people's."""
    shares = leaves.shares * leaves.unfair
    order = np.argsort(-shares, kind="stable")[:_MERGED_BOXES]
    order = order[shares[order] > 0]
    regions = merge_boxes(leaves.boxes.take(order), leaves.shares[order], shares[order])
    regions.sort(key=lambda region: -region.unfair)
    return tuple(_describe(decider, region, cells) for region in regions[:MOST_BOXES])


def _describe(decider: Decider, region: Region, cells: Ints | None) -> QuantifyBox:
    space, first, last = decider.space, region.first, region.last
    limited = [k for k, axis in enumerate(space.axes) if last[k] - first[k] + 1 < axis.cells]
    witnesses = find_witnesses(decider.network, space, Boxes(first[None], last[None]))
    values: list[dict[str, Any]] = [{}, {}]
    if witnesses is not None:
        values = [_protected_values(space, value) for value in witnesses.values]
    decides = tuple(name for name in values[0] if values[0][name] != values[1][name])
    words = listed([_words(space.axes[k], int(first[k]), int(last[k])) for k in limited], most=None) or "all people"
    other = "a link decides" if space.links is not None else "a tolerance decides"
    cause = f"{listed(decides)} {'decides' if len(decides) == 1 else 'decide'}" if decides else other
    return QuantifyBox(
        features={space.axes[k].feature.name: _values(space.axes[k], int(first[k]), int(last[k])) for k in limited},
        share=region.unfair,
        of_box=region.of_box,
        decides=decides,
        classes=None if witnesses is None else witnesses.classes,
        positive=values[0],
        negative=values[1],
        rows=None if cells is None else int(((cells >= first) & (cells <= last)).all(axis=1).sum()),
        text=f"{words}: {cause}",
    )


def _protected_values(space: Space, cells: Ints) -> dict[str, Any]:
    pairs = zip(space.protected, cells.tolist(), strict=True)
    return {axis.feature.name: _values(axis, cell, cell)[0] for axis, cell in pairs}


def _values(axis: Axis, first: int, last: int) -> list[Any]:
    """Return the categories from first to last, or the lowest and highest value."""
    feature = axis.feature
    if feature.categories:
        return [str(feature.show(each)) for each in feature.categories[first : last + 1]]
    return [_number(axis, first), _number(axis, last + 1 if feature.kind == "continuous" and axis.cells > 1 else last)]


def _number(axis: Axis, cell: int) -> float | int:
    low = axis.feature.bounds[0]
    if axis.feature.kind == "continuous":
        return axis.edge(cell) if axis.cells > 1 else low
    return int(low) + cell


def _words(axis: Axis, first: int, last: int) -> str:
    """Return a range of cells in words: "hours above 45", "capital gain 0", "race Black or White"."""
    feature = axis.feature
    values = _values(axis, first, last)
    if feature.categories:
        return f"{feature.name} {' or '.join(values)}"
    low, high = (feature.show(value) for value in values)
    low, high = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in (low, high))
    if first == last and feature.kind != "continuous":
        return f"{feature.name} {low}"
    if last == axis.cells - 1:
        return f"{feature.name} from {low}"
    return f"{feature.name} up to {high}" if first == 0 else f"{feature.name} {low} to {high}"
