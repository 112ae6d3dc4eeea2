"""Figures in the terminal: the disparity of scores, the candidates of auto, and a repair before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairmend.base.text import listed, loss, number, percent, printable, signed_difference
from fairmend.cli.console import (
    Rows,
    figures_table,
    group_figures,
    group_heading,
    name_pair,
    regression_figures,
    show_doubts,
    show_other_warnings,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairmend.auditing.figures import DisparityFigures, Pair
    from fairmend.evaluate.document import (
        AuditDocument,
        Document,
        FeatureMeans,
        PolicySummary,
        ProxyTable,
        RecipeSummary,
        RepairDocument,
        UtilityFigures,
        ValueEffect,
    )


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


def show_comparison(screen: Console, document: RepairDocument, title: str) -> None:
    """Print the tables, the warnings and what is proven."""
    show_doubts(screen, document)
    if document.candidates:
        show_candidates(screen, document.candidates, document.policy)
        screen.print()
    screen.print(_comparison_table(document, title))
    show_compared_disparity(screen, document)
    show_means(screen, document.before.mean_outputs, document.after.mean_outputs)
    show_compared_effects(screen, document)
    show_other_warnings(screen, document)
    screen.print()
    proven, _, rest = document.guarantee.partition(":")
    style = "bold green" if proven == "Proven" else "bold yellow"
    screen.print(Text.assemble((f"{proven}:", style), rest))


def show_means(screen: Console, before: Sequence[FeatureMeans], after: Sequence[FeatureMeans] | None = None) -> None:
    """Print the mean output of a regression network for each group, in an audit with 95 % intervals."""
    if not before:
        return
    compared = after is not None
    columns = ("before", "after") if compared else ("mean", "95 % interval")
    table = figures_table("Mean output of each group", "", " ", "people", *columns, right=("people", *columns))
    for place, feature in enumerate(before):
        now = after[place] if after is not None else None
        name = feature.feature if feature.output is None else f"{feature.feature}, output {feature.output}"
        for at, group in enumerate(feature.groups):
            later = None if now is None else now.groups[at]
            size = f"{group.rows:,}{' (small)' if group.small else ''}"
            second = _interval_text(group.low, group.high) if later is None else number(later.mean)
            table.add_row(name, group.name, size, number(group.mean), second)
            name = ""
        if feature.difference is not None:
            gap = feature.difference
            second = _interval_text(gap.low, gap.high)
            if now is not None:
                second = "" if now.difference is None else number(now.difference.mean)
            table.add_row("", "largest difference", "", number(gap.mean), second)
        table.add_section()
    screen.print()
    screen.print(table)


def _interval_text(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def show_compared_effects(screen: Console, document: RepairDocument) -> None:
    """Print who gains or loses before and after a repair: the mean effect of each protected value."""
    before, after = document.before.effects, document.after.effects
    if not before:
        return
    answer, on = before[0].answer, "output" if document.claim.on == "output" else "probability"
    table = figures_table("Mean effect of each value", "", " ", "before", "after", right=("before", "after"))
    for old, new in zip(before, after, strict=True):
        name = old.feature if old.answer == answer else f"{old.feature} ({old.answer})"
        for first, second in zip(old.values, new.values, strict=True):
            table.add_row(name, first.value, *(_effect(value, on) for value in (first, second)))
            name = ""
        table.add_section()
    what = "on the output" if answer is None else f'in points, on the share who get "{answer}"'
    table.caption = f"{what}: the same person with each value. report.html has the intervals"
    screen.print()
    screen.print(table)


def _effect(value: ValueEffect, on: str) -> Text:
    """Return the effect of a value on the decision, or on the output, and who gains or loses by it."""
    effect = value.score if value.decision is None else value.decision
    mean = signed_difference(effect.mean, on)
    if value.direction == "neither" or mean == "0":  # a value may gain in score alone: the report shows both
        return Text(mean)
    return Text(f"{mean} {value.direction}", style={"loses": "red", "gains": "green"}.get(value.direction, ""))


def _comparison_table(document: RepairDocument, title: str) -> Table:
    """Return a table of each figure before and after the repair."""
    before, after, inputs = document.before, document.after, document.repair_inputs
    sampled = "" if before.data.exact and after.data.exact else " (a lower bound)"
    table = figures_table(title, "", "before", "after", right=("before", "after"))
    left = after.repair_inputs.count
    table.add_row(
        "Repair inputs treated unequally",
        f"{before.repair_inputs.count:,} of {inputs:,}",
        Text(f"{left:,} of {inputs:,}", style="bold red" if left else "bold green"),
    )
    table.add_row(
        f"All {document.data_rows:,} rows: treated unequally{sampled}",
        percent(before.data.idi_rate),
        percent(after.data.idi_rate),
    )
    if before.largest_difference is not None and after.largest_difference is not None:
        table.add_row(
            f"Largest difference, {document.claim.delta:g} allowed",
            f"{before.largest_difference:.4g}",
            f"{after.largest_difference:.4g}",
        )
    mark = "*" if document.scored_rows_are_held_out else "†"
    kept = dict(kept_figures(after.utility))
    for name, first in kept_figures(before.utility):
        if name in kept:
            table.add_row(f"{name} {mark}", first, kept[name])
    for old, new in zip(before.groups, after.groups, strict=True):
        table.add_row(f"{group_heading(old)} {mark}", group_figures(old), group_figures(new))
    add_disparity(table, before.disparity, after.disparity)
    table.add_section()
    if document.changed_predictions is not None:
        table.add_row("Predictions changed, of all rows", "", percent(document.changed_predictions))
    if document.by_classes is None:
        table.add_row("Weights changed", "", f"{document.changed_weights:,} of {document.total_weights:,}")
    if document.head_change:
        table.add_row("Change of the head in step 2 (l1 norm)", "", f"{document.head_change:.4g}")
    table.add_row("Seconds", "", f"{document.seconds['total']:.2f}")
    table.caption = f"{mark} on {document.scored_on}"
    if document.claim.stated:
        table.caption += f"\nunequally: {document.claim.words().unequal}"
    return table


def kept_figures(utility: UtilityFigures) -> list[tuple[str, str]]:
    """Return the name of each figure of a network's utility that is known, and its value."""
    shares = {
        "Accuracy": utility.accuracy,
        "Balanced accuracy": utility.balanced_accuracy,
        "Positive rate": utility.positive_rate,
    }
    rows = [(name, percent(value)) for name, value in shares.items() if value is not None]
    if utility.auc is not None:
        rows.append(("AUC", f"{utility.auc:.3f}"))
    return rows + regression_figures(utility)


def show_candidates(screen: Console, candidates: Sequence[RecipeSummary], policy: PolicySummary | None) -> None:
    """Print what auto tried, grouped by guarantee, the strongest first, and why the others were not taken."""
    from fairmend.evaluate.summary import describe_unrun
    from fairmend.repairing.candidates import GUARANTEES

    assert policy is not None
    regression = policy.original_accuracy is None
    figures = _REGRESSION_FIGURES if regression else _CLASS_FIGURES
    numbered = list(enumerate(candidates, 1))
    screen.print(Text("Candidates of auto", style="bold"))
    screen.print(Text(policy.text))
    screen.print()
    names = [_ORIGINAL, *(c.name for c in candidates if c.ran)]
    width = min(max(map(len, names)), screen.width - sum(figures.values()) - 2 * len(figures) - 6)
    kept = _accuracy(policy.original_accuracy, policy.original_balanced_accuracy)
    screen.print(_table(width, figures, [("", "", _ORIGINAL, "", *kept, percent(1.0), "")], header=True))
    for guarantee in (*reversed(GUARANTEES), None):
        members = [(number, c) for number, c in numbered if c.ran and (c.guarantee if c.proven else None) == guarantee]
        if members:
            screen.print(Text("Not proven" if guarantee is None else f"Proven for {guarantee}", style="bold"))
            screen.print(_table(width, figures, (_row(number, c, regression) for number, c in members)))
    _show_reasons(screen, [(number, c) for number, c in numbered if c.ran and not c.chosen])
    unrun = describe_unrun([c.problem for c in candidates if not c.ran])
    if unrun:
        screen.print(Text(unrun))
    marks = {_mark(candidate) for candidate in candidates}
    legend = "".join(meaning for mark, meaning in _MARKS.items() if mark in marks)
    screen.print(Text(legend + _NOTE + (_REGRESSION_NOTE if regression else _CLASS_NOTE), style="dim italic"))


def add_disparity(table: Table, disparity: DisparityFigures, after: DisparityFigures | None = None) -> None:
    """Add the distribution of the differences to a table of figures, and of those after a repair in a third column."""
    table.add_section()
    columns = [side.rows() for side in (disparity, after) if side is not None]
    for (name, value), *others in zip(*columns, strict=True):
        table.add_row(name, value, *(other for _, other in others))


def show_disparity(screen: Console, document: AuditDocument) -> None:
    """Print the two similar people whose scores differ most, and who would be treated unequally at other thresholds."""
    disparity = document.disparity
    if disparity.worst is not None and disparity.on == "probability" and document.claim.on != "probability":
        screen.print()
        line = _describe_worst(document, disparity.worst, "sample" if document.sampled else "row")
        screen.print(Text(f"Largest score disparity, {line}"))
    if disparity.threshold is not None:
        _show_curve(screen, disparity, disparity.threshold)
    if not disparity.exact:
        also = ", and so are the shares at other thresholds" if disparity.curve else ""
        note = f"Not every similar person was computed: score disparities are at least these (≥){also}."
        screen.print(Text(note, style="yellow"))


def show_proxies(screen: Console, proxies: Sequence[ProxyTable]) -> None:
    """Print how well the features predict the columns of --group, and which of them."""
    from fairmend.evaluate.proxies import describe_proxy

    for proxy in proxies:
        screen.print()
        screen.print(Text(describe_proxy(proxy)))


def show_compared_disparity(screen: Console, document: RepairDocument) -> None:
    """Print the two similar people whose scores differ most, before and after a repair."""
    screen.print()
    for when, disparity in (("before", document.before.disparity), ("after", document.after.disparity)):
        if disparity.worst is not None:
            line = _describe_worst(document, disparity.worst, "row")
            screen.print(Text(f"Largest score disparity {when} the repair, {line}"))
        elif disparity.exact:
            screen.print(Text(f"{when.capitalize()} the repair, similar people get equal scores."))
        else:
            screen.print(Text(f"{when.capitalize()} the repair, no similar people with different scores were found."))


def _describe_worst(document: Document, pair: Pair, what: str) -> str:
    """Return where the two are, and the score of each with the values in which they differ."""
    probability = pair.on == "probability"
    name = document.quoted_class(1 if pair.output is None else pair.output)
    score_name = f"{name} has probability" if probability else "the output is"
    first, second = (
        f"{percent(score) if probability else number(score)} with {values}"
        for score, values in zip(pair.scores or (), document.differing_values(pair), strict=True)
    )
    return printable(f"{name_pair(pair, what)}: {score_name} {first}; {second}.")


def _show_curve(screen: Console, disparity: DisparityFigures, decision: float) -> None:
    """Print the share treated unequally against the threshold: one line of blocks, and a few figures."""
    title, peak = "Treated unequally at each threshold:", disparity.peak
    at, most = peak.threshold, peak.share
    screen.print()
    if most == 0:
        screen.print(Text(f"{title} {percent(most)}"))
        return
    line = f"0 {sparkline([point.share for point in disparity.curve])} 1"
    if len(title) + 1 + len(line) <= screen.width:
        screen.print(Text(f"{title} {line}"))
    else:
        screen.print(Text(title))
        screen.print(Text(f"  {line}"))
    shares = {named: percent(disparity.share_at(named)) for named in (*_NAMED, decision)} | {at: percent(most)}
    remarks: dict[float, list[str]] = {named: [] for named in shares} | {at: ["most"]}
    remarks[decision].insert(0, "yours")
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


def _row(number: int, candidate: RecipeSummary, regression: bool) -> tuple[str, ...]:
    accuracy = None if regression else candidate.accuracy
    figures = (percent(candidate.unfair_rate), *_accuracy(accuracy, candidate.balanced_accuracy))
    shown = (*figures, percent(candidate.agreement), _fall(candidate))
    return _mark(candidate), str(number), candidate.name, *(shown if candidate.proven else "–" * len(shown))


def _fall(candidate: RecipeSummary) -> str:
    if candidate.fall is None:
        return "–"
    return number(round(candidate.fall, 3) + 0.0) if candidate.fall_of == "R²" else loss(candidate.fall)


def _mark(candidate: RecipeSummary) -> str:
    return _SELECTED if candidate.chosen else _FRONTIER if candidate.on_frontier else ""


def _accuracy(accuracy: float | None, balanced: float | None) -> tuple[str, ...]:
    """Return accuracy and balanced accuracy as text, or R² of a regression network, which has no accuracy."""
    if accuracy is None:
        return ("–" if balanced is None else f"{balanced:.3f}",)
    return percent(accuracy), percent(balanced)


def _show_reasons(screen: Console, others: Sequence[tuple[int, RecipeSummary]]) -> None:
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
