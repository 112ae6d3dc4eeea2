"""How far the scores of similar people differ, in the terminal: rows of a table, and the curve over the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from fairmend.cli.console import differing_values, prediction_name
from fairmend.text import listed, number, percent, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.audit.result import AuditPair, AuditResult
    from fairmend.audit.score_disparity import ScoreDisparity, ThresholdCurve
    from fairmend.spec import Spec

__all__ = ["add_disparity", "show_disparity", "sparkline"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_WIDTH = 33  # characters of the curve, each for three thresholds
_NAMED = (0.1, 0.3, 0.5, 0.7)


def add_disparity(table: Table, disparity: ScoreDisparity) -> None:
    """Add the distribution of the differences to a table of figures."""
    least = "" if disparity.exact else "≥ "
    total = len(disparity.differences)
    probability = disparity.on == "probability"
    unit = " points" if probability else ""

    def shown(value: float) -> str:
        return f"{100 * value:.1f}" if probability else number(value)

    table.add_section()
    quantiles = " / ".join(shown(value) for value in disparity.quantiles.values())
    table.add_row("Score disparity: 50 / 90 / 95 / 99 %", f"{least}{quantiles}{unit}")
    table.add_row("Score disparity: largest", f"{least}{shown(disparity.largest)}{unit}")
    if disparity.above:
        limits = " / ".join(f"{100 * limit:g}" for limit in disparity.above)
        shares = " / ".join(percent(count / total) for count in disparity.above.values())
        table.add_row(f"Score disparity above {limits} points", f"{least}{shares}")


def show_disparity(screen: Console, spec: Spec, outputs: int, result: AuditResult) -> None:
    """Print the two similar people whose scores differ most, and who would be treated unequally at other thresholds."""
    disparity = result.disparity
    if disparity.worst is not None and disparity.on == "probability" and spec.claim.on != "probability":
        screen.print()
        screen.print(Text(_describe_worst(spec, outputs, disparity.worst, "sample" if result.sampled else "row")))
    if disparity.curve is not None:
        _show_curve(screen, disparity.curve)
    if not disparity.exact:
        also = ", and so are the shares at other thresholds" if disparity.curve is not None else ""
        note = f"Not every similar person was computed: score disparities are at least these (≥){also}."
        screen.print(Text(note, style="yellow"))


def _describe_worst(spec: Spec, outputs: int, pair: AuditPair, what: str) -> str:
    name = prediction_name(spec, outputs, 1 if pair.output is None else pair.output)
    first, second = (
        f"{percent(score)} with {values}"
        for score, values in zip(pair.scores, differing_values(spec, pair), strict=True)
    )
    where = pair.name if what == "row" else f"{what} {pair.row}"
    return printable(f"Largest score disparity, {where}: {name} has probability {first}; {second}.")


def _show_curve(screen: Console, curve: ThresholdCurve) -> None:
    """Print the share treated unequally against the threshold: one line of blocks, and a few figures."""
    at, most = curve.peak
    screen.print()
    screen.print(Text(f"Treated unequally at each threshold: 0 {sparkline(curve.shares.tolist())} 1"))
    shares = {named: percent(curve.share_at(named)) for named in (*_NAMED, curve.decision)} | {at: percent(most)}
    remarks: dict[float, list[str]] = {named: [] for named in shares} | {at: ["most"]}
    remarks[curve.decision].insert(0, "yours")
    shown = (
        f"{named:g}{f' ({listed(remarks[named])})' if remarks[named] else ''}: {share}"
        for named, share in sorted(shares.items())
    )
    screen.print(Padding(Text(f"at {', '.join(shown)}", style="dim"), (0, 0, 0, 2)))


def sparkline(shares: Sequence[float]) -> str:
    """Return shares as a line of blocks, the highest of each few; a dot is 0."""
    size = max(1, len(shares) // _WIDTH)
    heights = [max(shares[start : start + size]) for start in range(0, len(shares), size)]
    top = max(heights) or 1.0
    return "".join(
        _NOTHING if height == 0 else _BLOCKS[min(len(_BLOCKS) - 1, int(height / top * len(_BLOCKS)))]
        for height in heights
    )
