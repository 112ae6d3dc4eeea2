"""Figures in the terminal: the disparity of scores, the candidates of auto, and a repair before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairmend.base.text import in_points, listed, loss, number, percent, printable
from fairmend.cli.console import (
    Rows,
    differing_values,
    figures_table,
    group_figures,
    group_heading,
    prediction_name,
    regression_figures,
    show_warnings,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.auditing.disparity import ScoreDisparity, ThresholdCurve
    from fairmend.auditing.result import AuditPair, AuditResult
    from fairmend.evaluate.compare import Measurement, RepairComparison
    from fairmend.repairing.result import RepairResult
    from fairmend.repairing.selection import Candidate
    from fairmend.spec import Spec


_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_WIDTH = 33  # characters of the curve, each for three thresholds
_NAMED = (0.1, 0.3, 0.5, 0.7)


_CLASS_FIGURES = {"unequal": 7, "accuracy": 8, "balanced": 8, "agrees": 7, "loses": 5}
_REGRESSION_FIGURES = {"unequal": 7, "R²": 9, "agrees": 7, "loses": 6}
_ORIGINAL = "the original network"
_SELECTED, _FRONTIER = "→", "●"
_MARKS = {
    _SELECTED: "→ selected. ",
    _FRONTIER: "● on the frontier: no other is at least as good in guarantee, unequal and what is kept, and better in "
    "one. ",
}
_NOTE = "unequal: still treated unequally, among rows of the data and uniform samples. "
_CLASS_NOTE = (
    "accuracy, balanced (accuracy): on calibration rows that the recipe did not use. "
    "agrees: predictions equal to the original's, mean over the classes. "
    "loses: the largest fall against the original in points, estimated from labels and scores of all rows; it decides "
    "whether the model is kept."
)
_REGRESSION_NOTE = (
    "R²: on calibration rows that the recipe did not use. agrees: the share of the variance of the original's outputs "
    "that is kept. loses: the fall against the original, which decides whether the model is kept."
)


def show_comparison(screen: Console, comparison: RepairComparison, title: str) -> None:
    """Print the tables, the warnings and what is proven."""
    if comparison.result.candidates:
        show_candidates(screen, comparison.result)
        screen.print()
    screen.print(_comparison_table(comparison, title))
    spec, outputs = comparison.split.spec, comparison.result.network.outputs
    show_compared_disparity(screen, spec, outputs, comparison.before.disparity, comparison.after.disparity)
    show_warnings(screen, comparison.warnings)
    screen.print()
    proven, _, rest = comparison.statement.partition(":")
    style = "bold green" if proven == "Proven" else "bold yellow"
    screen.print(Text.assemble((f"{proven}:", style), rest))


def _comparison_table(comparison: RepairComparison, title: str) -> Table:
    """Return a table of each figure before and after the repair."""
    before, after, people = comparison.before, comparison.after, comparison.split
    inputs, rows = comparison.result.regions, len(people.X)
    sampled = "" if before.data.exact and after.data.exact else ", a lower bound"
    table = figures_table(title, "", "before", "after", right=("before", "after"))
    table.add_row(
        "Repair inputs treated unequally (CUR)",
        f"{before.repair.count:,} of {inputs:,}",
        Text(f"{after.repair.count:,} of {inputs:,}", style="bold red" if after.repair.count else "bold green"),
    )
    table.add_row(
        f"All {rows:,} rows: treated unequally (IDI-D{sampled})",
        percent(before.data.idi_rate),
        percent(after.data.idi_rate),
    )
    if before.data.scores is not None and after.data.scores is not None:
        table.add_row(
            f"Largest difference, {people.spec.claim.delta:g} allowed",
            f"{before.data.scores.largest:.4g}",
            f"{after.data.scores.largest:.4g}",
        )
    mark = "*" if people.held_out or people.test is not None else "†"
    for name, first, second in _kept_figures(before, after):
        table.add_row(f"{name} {mark}", first, second)
    for old, new in zip(before.groups, after.groups, strict=True):
        table.add_row(f"{group_heading(old)} {mark}", group_figures(old), group_figures(new))
    result = comparison.result
    add_disparity(table, before.disparity, after.disparity)
    table.add_section()
    if comparison.changed is not None:
        table.add_row("Predictions changed, of all rows", "", percent(comparison.changed))
    if not result.by_classes:
        table.add_row("Weights changed", "", f"{result.changed_weights:,} of {result.total_weights:,}")
    if result.objective:
        table.add_row("Change of the head in step 2 (l1 norm)", "", f"{result.objective:.4g}")
    table.add_row("Seconds", "", f"{result.seconds['total']:.2f}")
    table.caption = f"{mark} on {people.describe_scored()}"
    claim = people.spec.claim
    if claim.stated:
        table.caption += f"\nunequally: {claim.words().unequal}"
    return table


def _kept_figures(before: Measurement, after: Measurement) -> list[tuple[str, str, str]]:
    """Return the name of each figure of a network's utility, and its value before and after."""
    if before.regression is not None and after.regression is not None:
        new = dict(regression_figures(after.regression))
        return [(name, value, new[name]) for name, value in regression_figures(before.regression) if name in new]
    old_figures, new_figures = before.utility, after.utility
    if old_figures is None or new_figures is None:
        return []
    pairs = {
        "Accuracy": (old_figures.accuracy, new_figures.accuracy),
        "Balanced accuracy": (old_figures.balanced_accuracy, new_figures.balanced_accuracy),
        "Positive rate": (old_figures.positive_rate, new_figures.positive_rate),
    }
    rows = [(name, percent(old), percent(new)) for name, (old, new) in pairs.items() if None not in (old, new)]
    if old_figures.auc is not None and new_figures.auc is not None:
        rows.append(("AUC", f"{old_figures.auc:.3f}", f"{new_figures.auc:.3f}"))
    return rows


def show_candidates(screen: Console, result: RepairResult) -> None:
    """Print what auto tried, grouped by guarantee, the strongest first, and why the others were not taken."""
    from fairmend.evaluate.summary import accuracy_measure, describe_policy, describe_unrun, was_run

    regression = result.original_accuracy is None
    figures = _REGRESSION_FIGURES if regression else _CLASS_FIGURES
    numbered = list(enumerate(result.candidates, 1))
    screen.print(Text("Candidates of auto", style="bold"))
    if result.policy is not None:
        screen.print(Text(describe_policy(result.policy, accuracy_measure(result))))
    screen.print()
    names = [_ORIGINAL, *(c.recipe.name for c in result.candidates if was_run(c))]
    width = min(max(map(len, names)), screen.width - sum(figures.values()) - 2 * len(figures) - 6)
    original = ("", "", _ORIGINAL, "", *_figures_of_original(result))
    screen.print(_table(width, figures, [original], header=True))
    for level in (2, 1, 0, None):
        members = [(number, c) for number, c in numbered if was_run(c) and _level(c) == level]
        if members:
            guarantee = members[0][1].guarantee
            screen.print(Text("Not proven" if level is None else f"Proven for {guarantee}", style="bold"))
            screen.print(_table(width, figures, (_row(number, c, regression) for number, c in members)))
    _show_reasons(screen, [(number, c) for number, c in numbered if was_run(c) and not c.chosen])
    unrun = describe_unrun([c.problem for c in result.candidates if not was_run(c)])
    if unrun:
        screen.print(Text(unrun))
    marks = {_mark(candidate) for candidate in result.candidates}
    legend = "".join(meaning for mark, meaning in _MARKS.items() if mark in marks)
    screen.print(Text(legend + _NOTE + (_REGRESSION_NOTE if regression else _CLASS_NOTE), style="dim italic"))


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


def _table(width: int, figures: Mapping[str, int], rows: Iterable[Sequence[str]], *, header: bool = False) -> Rows:
    """Return rows in columns of fixed widths, so that the tables of all guarantees line up."""
    table = Rows(box=None, show_header=header, pad_edge=False, padding=(0, 1), header_style="dim")
    for heading, size in (("", 1), ("", 2), ("", width), *figures.items()):
        table.add_column(heading, width=size, justify="left" if size in (1, width) else "right")
    for row in rows:
        table.add_row(*row, style="bold green" if row[0] == _SELECTED else "")
    return table


def _row(number: int, candidate: Candidate, regression: bool) -> tuple[str, ...]:
    accuracy = None if regression else candidate.accuracy
    figures = (percent(candidate.unfair_rate), *_accuracy(accuracy, candidate.balanced_accuracy))
    shown = (*figures, percent(candidate.agreement), _fall(candidate))
    return _mark(candidate), str(number), candidate.recipe.name, *(shown if candidate.proven else "–" * len(shown))


def _fall(candidate: Candidate) -> str:
    if candidate.fall is None:
        return "–"
    return number(round(candidate.fall, 3) + 0.0) if candidate.fall_of == "R²" else loss(candidate.fall)


def _mark(candidate: Candidate) -> str:
    return _SELECTED if candidate.chosen else _FRONTIER if candidate.on_frontier else ""


def _accuracy(accuracy: float | None, balanced: float | None) -> tuple[str, ...]:
    """Return accuracy and balanced accuracy as text, or R² of a regression network, which has no accuracy."""
    if accuracy is None:
        return ("–" if balanced is None else f"{balanced:.3f}",)
    return percent(accuracy), percent(balanced)


def _level(candidate: Candidate) -> int | None:
    return candidate.level if candidate.proven else None


def _figures_of_original(result: RepairResult) -> tuple[str, ...]:
    return *_accuracy(result.original_accuracy, result.original_balanced_accuracy), percent(1.0), ""


def _show_reasons(screen: Console, others: Sequence[tuple[int, Candidate]]) -> None:
    """Print why candidates were not taken, one line for each reason."""
    reasons: dict[str, list[int]] = {}
    for place, candidate in others:
        reasons.setdefault(candidate.reason or candidate.problem, []).append(place)
    if not reasons:
        return
    screen.print()
    screen.print(Text("Why not the others", style="bold"))
    for reason, numbers in reasons.items():
        screen.print(Padding(Text(f"{_ranges(numbers)}: {printable(reason)}"), (0, 0, 0, 2)))


def _ranges(numbers: Sequence[int]) -> str:
    """Return increasing numbers as text; three or more in a row are a range: "1, 3–6"."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
