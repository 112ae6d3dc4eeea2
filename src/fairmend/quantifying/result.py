"""What `fairmend.quantify` returns: the shares, the map of boxes that are treated unequally, and the certificate.

`DataShares` is about the people in the data: which cell each falls into, and what is proven about these cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.auditing.result import wilson_interval
from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.progress import Progress
from fairmend.base.text import at_least_percent, at_most_percent, condition_text, html_pairs, percent
from fairmend.network import Network
from fairmend.prove.certificate import Certificate
from fairmend.quantifying.certificate import Evidence, confirmed_certificate
from fairmend.quantifying.decide import CELLS, Decider
from fairmend.quantifying.unequal_map import QuantifyBox
from fairmend.spec import Feature, Spec
from fairmend_check.shares.people import Axis, Boxes, People
from fairmend_check.shares.prove import is_blind

_PIECES = (8, 64)
_BATCH = 2048  # boxes at a time


@dataclass(frozen=True)
class DataShares:
    """How many rows of the data are proven to be treated equally and unequally, and how many are undecided."""

    fair: int
    unfair: int
    undecided: int

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.fair + self.unfair + self.undecided


def find_cells(people: People, spec: Spec, X: FloatArray) -> Ints:
    """Return the cells ``(rows, axes)`` of valid inputs."""
    features = {feature.name: feature for feature in spec.features}
    return np.stack(
        [_cells_of(features[axis.feature.name], axis, X[:, spec.columns(axis.feature.name)]) for axis in people.axes],
        axis=1,
    )


def _cells_of(feature: Feature, axis: Axis, columns: FloatArray) -> Ints:
    if feature.categories:
        cell_of_code = np.argsort(axis.codes(np.arange(axis.cells)))
        return cell_of_code[feature.decode(columns).astype(np.int64)]
    values = feature.nearest(columns[:, 0])
    low, high = feature.bounds
    if feature.kind != "continuous":
        return np.clip(values - low, 0, high - low).astype(np.int64)
    if low == high:
        return np.zeros(len(columns), np.int64)
    return np.clip(np.floor((values - low) / (high - low) * CELLS), 0, CELLS - 1).astype(np.int64)


def prove_cells(
    network: Network,
    spec: Spec,
    cells: Ints,
    in_time: Callable[[], bool] = lambda: True,
    progress: Progress | None = None,
) -> DataShares:
    """Return how many rows are in cells that are proven to be treated equally, and unequally.

    Cells that are undecided with few pieces of protected values are decided again with more of them, as long as it is
    still ``in_time``; the cells that are left then are undecided.
    """
    unique, counts = np.unique(cells, axis=0, return_counts=True)
    verdict = np.zeros(len(unique), np.int64)  # 1 equally, -1 unequally, 0 undecided
    for pieces in _PIECES:
        decider = Decider(network, spec, pieces)
        people = decider.people
        if is_blind(decider.model, people):
            return DataShares(len(cells), 0, 0)
        error, step = decider.prover.errors(people.everyone)[0], max(1, _BATCH // len(people.pieces.first))
        rest = np.flatnonzero(verdict == 0)
        for start in range(0, len(rest), step):
            if not in_time():
                break
            rows = rest[start : start + step]
            found = decider.decide(Boxes(unique[rows], unique[rows]), np.full(len(rows), error)).counts
            verdict[rows] = (found.fair == 1).astype(np.int64) - (found.unfair == 1)  # a cell is decided as a whole
            if progress is not None:
                progress("rows", min(start + step, len(rest)), len(rest))
    fair, unfair = (int(counts[verdict == answer].sum()) for answer in (1, -1))
    return DataShares(fair, unfair, len(cells) - fair - unfair)


def share_rows(fair: float, unfair: float, undecided: float) -> list[tuple[str, str]]:
    """Return shares of all people as text, with their names, as the terminal and a notebook show them."""
    return [
        ("Proven to be treated equally", at_least_percent(fair)),
        ("Proven to be treated unequally", at_least_percent(unfair)),
        ("Undecided", at_most_percent(undecided)),
    ]


def describe_estimate(sampled: float, samples: int) -> str:
    """Return the share of random people who were found to be treated unequally, with its 95 % interval."""
    low, high = map(percent, wilson_interval(round(sampled * samples), samples))
    share = f"{sampled:.2%}".replace("%", " %")
    return (
        f"Of {samples:,} random people, {share} were found to be treated unequally (an estimate, 95 % interval {low} "
        f"to {high})."
    )


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

        The checker counts the people of all boxes once more, and more precisely. So it is run here, which takes about
        as long as the run did, and the certificate claims what it confirms: the shares, or slightly less.
        """
        return confirmed_certificate(self.evidence, self.fair, self.unfair)

    def __repr__(self) -> str:
        """Show the shares in percent."""
        shares = ", ".join(f"{name} {100 * getattr(self, name):.4g} %" for name in ("fair", "unfair", "undecided"))
        boxes = f"{self.leaves:,} boxes, {self.seconds:.1f} s"
        return f"QuantifyResult({shares}; {boxes}{condition_text(self.condition)})"

    def _repr_html_(self) -> str:
        """Show the shares in a notebook."""
        shares = share_rows(self.fair, self.unfair, self.undecided)
        rows = [*shares, ("Boxes", f"{self.leaves:,}"), ("Seconds", f"{self.seconds:.1f}")]
        notes = [] if self.sampled is None else [describe_estimate(self.sampled, self.samples)]
        notes += [f"Condition: {self.condition}"] if self.condition else []
        return html_pairs("Shares of all people that the spec allows", rows, notes)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        hidden = ("evidence", "certificate")
        return {
            **{name: value for name, value in vars(self).items() if name not in hidden},
            "boxes": [box.as_dict() for box in self.boxes],
            "rows": None if self.rows is None else {**vars(self.rows), "total": self.rows.total},
        }
