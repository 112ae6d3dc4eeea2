"""Parts of a round: boxes that are decided together, here or on a worker.

Deciding a part is a function of its boxes alone, and how a round is cut does not depend on the number of workers. So
the boxes after a number of rounds are the same, bit for bit, wherever they were decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairmend.base.arrays import Floats, Ints
from fairmend.quantifying.decide import Decided, Decider
from fairmend.quantifying.listing import Listing
from fairmend.quantifying.space import Boxes


@dataclass(frozen=True, eq=False)
class Part:
    """Boxes to decide, with bounds of the error of inference over each ``(n,)``.

    ``rows`` are the numbers of the leaves that they come from: boxes that are ``listed``, or both halves of each leaf.
    """

    rows: Ints
    boxes: Boxes
    error: Floats
    listed: bool


def decide_part(decider: Decider, part: Part) -> Decided:
    """Decide the boxes of a part."""
    decide = Listing(decider).decide if part.listed else decider.decide
    return decide(part.boxes, part.error)
