"""The policy of `auto`: which proven candidate to prefer. This is the one place where its defaults are written.

A guarantee is worth something, and so is the model. The default policy takes the strongest guarantee that keeps the
model: of the candidates whose accuracy and balanced accuracy are at most ``keep`` below the original network's, those
with the strongest guarantee, and of these the one that keeps the most. A weaker guarantee is taken only if no candidate
with a stronger one keeps the model; if none at all does, the guarantee that loses the least is taken.
How far a candidate is below the original is estimated from labels and unlabelled rows together
(`fairmend.repairing.fall`), because 500 labels alone cannot tell a loss of 1 point from one of 3.
A candidate *surely* keeps the model if the losses are within ``keep`` by one standard error of the estimate. Where some
do and others do not, only those that do are compared: a strong guarantee is no reason to risk the model.
"""

from __future__ import annotations

from dataclasses import dataclass

KEEP = 0.02
"""Two points: about twice the error with which a loss is known from 500 calibration rows, so a smaller limit would
reject candidates that lose nothing."""

GUARANTEES = ("everyone", "listed", "any")
PREFERENCES = ("accuracy", "decisions")


@dataclass(frozen=True)
class Policy:
    """What `auto` may give up, and what it must not.

    Attributes
    ----------
    keep : the most that accuracy and balanced accuracy may fall below the original network's; with
        ``prefer="decisions"``, the most that the agreement with its decisions may fall below 1
    guarantee : "everyone" takes only candidates that are proven for everyone, tolerances and links included. "listed"
        accepts a proof for the repair inputs, and gives no weight to more. "any" takes the strongest guarantee
        among the candidates that keep the model
    prefer : "accuracy" keeps accuracy and balanced accuracy on labelled rows, "decisions" the decisions of the
        original network. `fairmend.repair` takes the latter where all labels are equal and the caller gave neither
    keep_required : whether to raise an error if no proven candidate stays within ``keep``; without it, `auto` takes
        the guarantee that loses the least and warns. True if the caller gave ``keep``
    """

    keep: float = KEEP
    guarantee: str = "any"
    prefer: str = "accuracy"
    keep_required: bool = False

    @classmethod
    def from_options(cls, keep: float | None = None, guarantee: str | None = None, prefer: str | None = None) -> Policy:
        """Return the policy with the defaults for what is None."""
        return cls(KEEP if keep is None else keep, guarantee or "any", prefer or "accuracy", keep is not None)
