"""What a repair gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairmend.network import Network
from fairmend.prove.certificate import Certificate
from fairmend.prove.proof import Proof
from fairmend.repair.calibrate import History
from fairmend.repair.selection import Candidate


@dataclass(frozen=True)
class RepairResult:
    """A repaired network, what is proven of it, and how it was made.

    A baseline ("flip", "grft", "care") proves nothing by itself: then ``proven`` may be below ``regions``, and the
    certificate claims only what is proven, or is None.

    ``objective`` is the l1 norm of the head's change in step 2 and ``gap`` how far it may be from the smallest;
    ``margin`` the one step 2 ended with, the largest over the inputs; ``seconds`` by stage: calibrate, solve, check,
    total. ``blind`` tells whether the network provably ignores the protected features, for every input. ``candidates``
    are what "auto" tried. ``warnings`` say what a user should look at before using the network.
    """

    network: Network
    certificate: Certificate | None
    method: str
    proof: Proof
    blind: bool
    objective: float
    gap: float
    margin: float
    history: History
    seconds: dict[str, float]
    changed_weights: int
    total_weights: int
    attempts: int
    candidates: tuple[Candidate, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())

    @property
    def regions(self) -> int:
        """How many repair inputs there are."""
        return len(self.proof.classes)

    @property
    def proven(self) -> int:
        """Of how many of them it is proven that their whole neighbourhood gets one answer."""
        return int(self.proof.holds.sum())

    @property
    def classes(self) -> list[int | None]:
        """The class that each repair input's whole neighbourhood gets; None where that is not proven."""
        pairs = zip(self.proof.classes, self.proof.holds, strict=True)
        return [int(label) if holds else None for label, holds in pairs]

    def __repr__(self) -> str:
        """Say what was proven and what it cost."""
        covered = self.proof.covers_inference[self.proof.holds].all()
        inference = f"in {self.network.dtype} inference" if covered else "in real arithmetic"
        some = f"{self.regions}" if self.proven == self.regions else f"{self.proven} of {self.regions}"
        blind = "blind to the protected features for every input, " if self.blind else ""
        return (
            f"RepairResult({self.method}: {blind}{some} neighbourhoods proven {inference}, head changed by "
            f"{self.objective:.4g} (l1), {self.changed_weights} of {self.total_weights} weights changed, "
            f"{self.seconds['total']:.2f} s, {len(self.warnings)} warnings)"
        )
