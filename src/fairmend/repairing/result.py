"""The result of a repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairmend.base.text import condition_text, html_pairs, listed
from fairmend.network import Network
from fairmend.prove.certificate import Certificate
from fairmend.prove.condition import model_condition
from fairmend.prove.proof import Proof
from fairmend.repairing.calibrate import History
from fairmend.repairing.candidates import Candidate
from fairmend.repairing.policy import Policy

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RepairResult:
    """A repaired network, what is proven about it, and how it was made.

    A baseline ("flip", "grft", "care") proves nothing by itself: ``proven`` may then be below ``regions``, and the
    certificate claims only what is proven, or is None.

    ``objective`` is the l1 norm of the head's change in step 2, and ``gap`` its relative distance from a proven lower
    bound. ``margin`` is the largest margin over the repair inputs with which step 2 ended. ``seconds`` holds the time
    of each stage (calibrate, solve, check) and the total. ``blind_features`` are the features that the network provably
    ignores for every input: all protected ones and possibly others that vary, or none. ``everyone`` tells whether these
    are all in which similar people may differ, so that the claim holds for everyone, tolerances and links included.
    ``candidates`` are the recipes that "auto" tried, and ``policy`` is how it selects among them. Their accuracy
    compares with ``original_accuracy`` and ``original_balanced_accuracy``: the original network on the calibration set
    (for a regression, None and R²). ``collapsed`` tells whether the network lost a class, or agrees with
    the original hardly more than chance would: its guarantee is then worth little. Read the ``warnings``
    before you use the network.
    """

    network: Network
    certificate: Certificate | None
    method: str
    proof: Proof
    blind_features: tuple[str, ...]
    everyone: bool
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
    collapsed: bool = False
    policy: Policy | None = None
    original_accuracy: float | None = None
    original_balanced_accuracy: float | None = None

    @property
    def blind(self) -> bool:
        """Whether the network provably ignores the protected features for every input."""
        return bool(self.blind_features)

    @property
    def regions(self) -> int:
        """The number of repair inputs."""
        return len(self.proof.holds)

    @property
    def proven(self) -> int:
        """The number of repair inputs that are proven to be treated equally."""
        return int(self.proof.holds.sum())

    @property
    def classes(self) -> list[int | None] | None:
        """The class that the whole neighbourhood of each repair input gets; None where that is not proven.

        None for a claim about scores.
        """
        if self.proof.classes is None:
            return None
        pairs = zip(self.proof.classes, self.proof.holds, strict=True)
        return [int(label) if holds else None for label, holds in pairs]

    def to_frame(self) -> pd.DataFrame:
        """Return the candidates of "auto" as a table, one row each, with the reason why each was chosen or not."""
        import pandas as pd

        columns = ("accuracy", "balanced_accuracy", "agreement", "unfair_rate")
        rows = [
            {"recipe": one.recipe.name, "guarantee": one.guarantee or None}
            | {name: getattr(one, name) if one.proven else None for name in columns}
            | {"collapsed": one.collapsed, "chosen": one.chosen, "reason": one.reason}
            for one in self.candidates
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Show in a notebook what is proven, at which price, and the warnings."""
        claim = "nothing" if self.certificate is None else self.certificate.claim
        rows = [
            ("Proven", claim),
            ("Repair inputs proven", f"{self.proven:,} of {self.regions:,}"),
            ("Weights changed", f"{self.changed_weights:,} of {self.total_weights:,}"),
            *((f"{'Selected: ' if one.chosen else ''}{one.recipe.name}", one.reason) for one in self.candidates),
            ("Seconds", f"{self.seconds['total']:.1f}"),
        ]
        return html_pairs(f"Repair with {self.method}", rows, [f"Warning: {warning}" for warning in self.warnings])

    def __repr__(self) -> str:
        """Say what is proven, and at which price."""
        covered = self.proof.covers_inference[self.proof.holds].all()
        inference = f"in {self.network.dtype} inference" if covered else "in real arithmetic"
        some = f"{self.regions}" if self.proven == self.regions else f"{self.proven} of {self.regions}"
        blind = f"blind to {listed(self.blind_features)} for every input, " if self.blind else ""
        warnings = f"{len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}"
        return (
            f"RepairResult({self.method}: {blind}{some} neighbourhoods proven {inference}, head changed by "
            f"{self.objective:.4g} (l1), {self.changed_weights} of {self.total_weights} weights changed, "
            f"{self.seconds['total']:.2f} s, {warnings}{condition_text(model_condition(self.network))})"
        )
