"""What `fairmend.quantify` returns: the shares, and the map of boxes that are treated unequally."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.arrays import Ints
from fairmend.prove.certificate import Certificate
from fairmend.quantify.certificate import Evidence
from fairmend.quantify.data_rows import DataShares
from fairmend.quantify.decide import Decider
from fairmend.quantify.leaves import Leaves
from fairmend.quantify.space import Axis, Boxes, Space
from fairmend.text import listed

__all__ = ["QuantifyBox", "QuantifyResult", "make_map"]

MOST_BOXES = 100
"""The boxes of a map."""


@dataclass(frozen=True)
class QuantifyBox:
    """A box of people who are proven to be treated unequally, or of whom a part is.

    Attributes
    ----------
    features : the values of each feature that does not have its whole range: the lowest and highest, or the categories
    share : the share of all people who are in the box and proven to be treated unequally
    of_box : the share of the box that is proven to be treated unequally
    decides : the protected features that change the class
    positive, negative : protected values with class 1 and with class 0
    rows : how many rows of the data are in the box; None without data
    text : the box in words
    """

    features: dict[str, list[Any]]
    share: float
    of_box: float
    decides: tuple[str, ...]
    positive: dict[str, Any]
    negative: dict[str, Any]
    rows: int | None
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {**vars(self), "decides": list(self.decides)}


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

    @cached_property
    def certificate(self) -> Certificate:
        """A certificate of the shares, with all boxes, for `fairmend.check`.

        The checker counts people by other means than `quantify`, so the certificate claims slightly less.
        """
        return self.evidence.certificate()

    def __repr__(self) -> str:
        """Show the shares in percent."""
        shares = ", ".join(f"{name} {100 * getattr(self, name):.4g} %" for name in ("fair", "unfair", "undecided"))
        return f"QuantifyResult({shares}; {self.leaves:,} boxes, {self.seconds:.1f} s)"

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
    order = np.argsort(-shares, kind="stable")[:MOST_BOXES]
    order = order[shares[order] > 0]
    if not len(order):
        return ()
    found = leaves.boxes.take(order)
    boxes = Boxes(found.first.astype(np.int64), found.last.astype(np.int64))
    witnesses = decider.witnesses(boxes)
    parts = zip(order, *witnesses, strict=True)
    return tuple(
        _describe(
            decider.space,
            boxes.take(np.array([k])),
            leaves.shares[row],
            leaves.unfair[row],
            (positive, negative),
            cells,
        )
        for k, (row, positive, negative) in enumerate(parts)
    )


def _describe(
    space: Space, box: Boxes, share: float, unfair: float, witnesses: tuple[Ints, Ints], cells: Ints | None
) -> QuantifyBox:
    first, last = box.first[0], box.last[0]
    limited = [k for k, axis in enumerate(space.axes) if last[k] - first[k] + 1 < axis.cells]
    positive, negative = (_protected_values(space, cells_of) for cells_of in witnesses)
    decides = tuple(name for name in positive if positive[name] != negative[name])
    words = listed([_words(space.axes[k], int(first[k]), int(last[k])) for k in limited], most=None) or "all people"
    cause = f"{listed(decides)} {'decides' if len(decides) == 1 else 'decide'}" if decides else "a tolerance decides"
    return QuantifyBox(
        features={space.axes[k].feature.name: _values(space.axes[k], int(first[k]), int(last[k])) for k in limited},
        share=float(share * unfair),
        of_box=float(unfair),
        decides=decides,
        positive=positive,
        negative=negative,
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
