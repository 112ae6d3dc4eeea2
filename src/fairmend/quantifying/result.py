"""What `fairmend.quantify` returns: the shares, the map of boxes that are treated unequally, and the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairmend.base.text import condition_text
from fairmend.prove.certificate import Certificate
from fairmend.quantifying.certificate import Evidence, confirmed_certificate
from fairmend.quantifying.data_rows import DataShares
from fairmend.quantifying.unequal_map import QuantifyBox


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

    def as_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        hidden = ("evidence", "certificate")
        return {
            **{name: value for name, value in vars(self).items() if name not in hidden},
            "boxes": [box.as_dict() for box in self.boxes],
            "rows": None if self.rows is None else {**vars(self.rows), "total": self.rows.total},
        }
