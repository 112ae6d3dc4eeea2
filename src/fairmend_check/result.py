"""The result of a check.

Text from files, made safe to print, and bounds, rounded to the safe side.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape
from typing import Any

from fairmend_check.run.compare import ModelRun


@dataclass(frozen=True, repr=False)
class CheckResult:
    """Whether a certificate holds for a model file, and what it claims.

    The check ends in one of three ways, and ``verdict`` names it: "valid", "invalid" (the files were read, and a claim
    was not confirmed) or "unreadable" (a file could not be read or checked, so it is open whether the claim holds).

    Attributes
    ----------
    valid : whether every claim of the certificate was confirmed
    reasons : why the certificate is not valid, or cannot be read; empty if it is valid
    claim : what the data of the certificate claims, in the checker's own words; empty if the data cannot be read
    regions : number of neighbourhoods that the certificate makes a claim about
    covers_inference : whether every margin exceeds the rounding errors of inference in the model's precision, or every
        difference of scores keeps within its limit despite them; None if the check did not get that far
    least_margin : the smallest margin over all neighbourhoods, as computed by the checker; None without regions, and
        for a claim about scores
    seconds : duration of the check
    condition : what must be true of the program that runs the model, if the file leaves that open (a state dict names
        neither the order of its layers nor their activations); empty if the file fixes it
    largest_difference : for a claim about scores, a bound of the difference between two scores of any neighbourhood,
        in inference if ``covers_inference``, else in exact arithmetic; None for a claim about classes
    fair, unfair : for a claim about shares, which share of all people the checker itself proves to be treated equally,
        and unequally; None for other claims
    boxes : for a claim about shares, the number of boxes that all people are divided into
    runs : the programs in which the model was run, and on how many people; all outputs were within their bounds
    not_run : why the model was not run, or not in all programs that are installed for it
    model_read : whether a model file was read and compared with the certificate; if not, the claim is about the network
        that the certificate contains
    readable : whether all files could be read and checked; if not, there is no verdict on the claim
    """

    valid: bool
    reasons: tuple[str, ...]
    claim: str
    regions: int
    covers_inference: bool | None
    least_margin: float | None
    seconds: float
    condition: str = ""
    largest_difference: float | None = None
    readable: bool = True
    fair: float | None = None
    unfair: float | None = None
    boxes: int = 0
    runs: tuple[ModelRun, ...] = ()
    not_run: str = ""
    model_read: bool = True

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself: nothing unreadable, and nothing with a reason, is valid."""
        if self.valid != (self.readable and not self.reasons):
            raise ValueError("a result is valid only if all files were read, and then if there is no reason against it")

    @property
    def verdict(self) -> str:
        """How the check ended: "valid", "invalid" or "unreadable"."""
        return "valid" if self.valid else "invalid" if self.readable else "unreadable"

    def __repr__(self) -> str:
        """Return the verdict with the claim, or with the reasons."""
        if not self.valid:
            return f"CheckResult({self.verdict.upper()}: {printable('; '.join(self.reasons))})"
        margin = "" if self.least_margin is None else f", least margin {at_least(self.least_margin)}"
        if self.largest_difference is not None:
            margin = f", largest difference {at_most(self.largest_difference)}"
        regions = f" {self.regions:,} regions{margin}," if self.regions else ""
        regions = f" {self.boxes:,} boxes," if self.boxes else regions
        ran = "".join(f" Run in {run.program}." for run in self.runs) or " Not run." * bool(self.not_run)
        condition = f" Condition: {printable(self.condition).removesuffix('.')}." if self.condition else ""
        return f"CheckResult(VALID: {printable(self.claim)}{condition}{ran}{regions} {self.seconds:.2f} s)"

    def _repr_html_(self) -> str:
        """Show the verdict in a notebook, with the claim or the reasons."""
        lines = [self.claim, *self.reasons, self.condition and f"Condition: {self.condition}"]
        shown = "".join(f"<p>{escape(printable(line))}</p>" for line in lines if line)
        return f"<p><strong>Certificate: {self.verdict.upper()}</strong></p>{shown}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        content = {"verdict": self.verdict, **asdict(self), "reasons": list(self.reasons)}
        content["runs"] = list(content["runs"])
        del content["readable"]  # the verdict says it
        return content


# Characters that count as printable and show nothing: fillers, a blank, and selectors of variants.
_BLANK = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
    0x16FE4, 0x1D159, *range(0xE0100, 0xE01F0),
}  # fmt: skip


def printable(text: str) -> str:
    """Escape control characters: a name in a certificate must not move the cursor and draw another verdict.

    Letters of every script stay. Line breaks, bidirectional overrides and invisible characters are escaped too.
    """
    safe = (c if c.isprintable() and ord(c) not in _BLANK else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(safe)


def at_least(number: float) -> str:
    """Return a lower bound with three digits, rounded down: what is printed must not say more than is proven."""
    return f"{float(Context(prec=3, rounding=ROUND_FLOOR).plus(Decimal(number))):.3g}"


def at_most(number: float) -> str:
    """Return an upper bound with three digits, rounded up."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(number))):.3g}"
