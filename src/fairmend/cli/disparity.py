"""How far the scores of similar people differ, in the terminal: rows of a table, and the curve over the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from fairmend.base.text import in_points, listed, number, percent, printable
from fairmend.cli.console import differing_values, prediction_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.auditing.disparity import ScoreDisparity, ThresholdCurve
    from fairmend.auditing.result import AuditPair, AuditResult
    from fairmend.spec import Spec


_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_WIDTH = 33  # characters of the curve, each for three thresholds
_NAMED = (0.1, 0.3, 0.5, 0.7)


def add_disparity(table: Table, disparity: ScoreDisparity, after: ScoreDisparity | None = None) -> None:
    """Add the distribution of the differences to a table of figures, and of those after a repair in a third column."""
    table.add_section()
    columns = [_figures(side) for side in (disparity, after) if side is not None]
    for (name, value), *others in zip(*columns, strict=True):
        table.add_row(name, value, *(other for _, other in others))


def _figures(disparity: ScoreDisparity) -> list[tuple[str, str]]:
    """Return the figures with their names, one for each line of a table."""
    least, total = "" if disparity.exact else "≥ ", len(disparity.differences)
    points = disparity.on == "probability"
    names = ("median", "90 % at most", "95 % at most", "99 % at most", "largest")
    values = (*disparity.quantiles.values(), disparity.largest)
    shown = [in_points(value) if points else number(value) for value in values]
    rows = [(f"Score disparity: {name}", f"{least}{value}") for name, value in zip(names, shown, strict=True)]
    for limit, count in disparity.above.items():
        unit = "point" if limit == 0.01 else "points"
        rows.append((f"Score disparity above {100 * limit:g} {unit}", f"{least}{percent(count / total)}"))
    return rows


def show_disparity(screen: Console, spec: Spec, outputs: int, result: AuditResult) -> None:
    """Print the two similar people whose scores differ most, and who would be treated unequally at other thresholds."""
    disparity = result.disparity
    if disparity.worst is not None and disparity.on == "probability" and spec.claim.on != "probability":
        screen.print()
        line = _describe_worst(spec, outputs, disparity.worst, "sample" if result.sampled else "row")
        screen.print(Text(f"Largest score disparity, {line}"))
    if disparity.curve is not None:
        _show_curve(screen, disparity.curve)
    if not disparity.exact:
        also = ", and so are the shares at other thresholds" if disparity.curve is not None else ""
        note = f"Not every similar person was computed: score disparities are at least these (≥){also}."
        screen.print(Text(note, style="yellow"))


def show_compared_disparity(
    screen: Console, spec: Spec, outputs: int, before: ScoreDisparity, after: ScoreDisparity
) -> None:
    """Print the two similar people whose scores differ most, before and after a repair."""
    screen.print()
    for when, disparity in (("before", before), ("after", after)):
        if disparity.worst is not None:
            line = _describe_worst(spec, outputs, disparity.worst, "row")
            screen.print(Text(f"Largest score disparity {when} the repair, {line}"))
        elif disparity.exact:
            screen.print(Text(f"{when.capitalize()} the repair, similar people get equal scores."))
        else:
            screen.print(Text(f"{when.capitalize()} the repair, no similar people with different scores were found."))


def _describe_worst(spec: Spec, outputs: int, pair: AuditPair, what: str) -> str:
    """Return where the two are, and the score of each with the values in which they differ."""
    probability = pair.on == "probability"
    name = prediction_name(spec, outputs, 1 if pair.output is None else pair.output)
    score_name = f"{name} has probability" if probability else "the output is"
    first, second = (
        f"{percent(score) if probability else number(score)} with {values}"
        for score, values in zip(pair.scores, differing_values(spec, pair), strict=True)
    )
    where = pair.name if what == "row" else f"{what} {pair.row}"
    return printable(f"{where}: {score_name} {first}; {second}.")


def _show_curve(screen: Console, curve: ThresholdCurve) -> None:
    """Print the share treated unequally against the threshold: one line of blocks, and a few figures."""
    title, (at, most) = "Treated unequally at each threshold:", curve.peak
    screen.print()
    if most == 0:
        screen.print(Text(f"{title} {percent(most)}"))
        return
    line = f"0 {sparkline(curve.shares.tolist())} 1"
    if len(title) + 1 + len(line) <= screen.width:
        screen.print(Text(f"{title} {line}"))
    else:
        screen.print(Text(title))
        screen.print(Text(f"  {line}"))
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
