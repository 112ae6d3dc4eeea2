"""A repair in the terminal: the candidates of auto, the figures before and after, and what is in the folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairmend.base.text import loss, number, percent, printable
from fairmend.cli.console import Rows, figures_table
from fairmend.cli.figures import (
    add_disparity,
    describe_worst,
    group_figures,
    group_heading,
    kept_figures,
    show_check,
    show_doubts,
    show_effects,
    show_files,
    show_means,
    show_other_warnings,
    show_out_of_range,
    show_proxies,
    show_report,
    show_unit,
)
from fairmend.evaluate.document import PolicySummary, RecipeSummary, RepairDocument
from fairmend.evaluate.summary import describe_collapse, describe_unrun
from fairmend.repairing.candidates import GUARANTEES
from fairmend.workflows.inputs import at_threshold
from fairmend.workflows.repair import RepairedFiles

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


def show_repair(screen: Console, repaired: RepairedFiles) -> None:
    """Print the comparison, and what is in the folder."""
    comparison, folder, document = repaired.comparison, repaired.folder, repaired.document
    done, at = document.out_of_range, at_threshold(comparison.split.spec)
    if document.collapsed:  # in the first line: the network is worth little, whatever is proven about it
        people = comparison.split
        sentence = describe_collapse(comparison.result, people.spec, len(people.calibration))
        screen.print(Text(sentence, style="bold red"))
        screen.print()
    show_unit(screen, document)
    show_comparison(screen, document, f"{document.title}, repaired with method {document.method}{at}")
    show_proxies(screen, document.proxies)
    show_out_of_range(screen, done, folder / "spec.toml" if done is not None and done.ranges else None)
    show_files(screen, folder, repaired.contents)
    if repaired.replaced:
        _show_replaced(screen, repaired)
    if repaired.check is not None and document.certificate is not None:
        covers, real = comparison.guarantee.partial_coverage(), document.certificate.arithmetic == "real"
        show_check(screen, repaired.check, folder / "certificate.json", folder / repaired.model, covers, real=real)
    show_report(screen, folder / "report.html")


def _show_replaced(screen: Console, repaired: RepairedFiles) -> None:
    """Say that an earlier repair in the same folder was replaced, and which of its files are gone or still there."""
    out, files = repaired.folder, repaired.contents
    screen.print(Text(f"These files replace an earlier repair in {out}.", style="yellow"))
    gone = [name for name in repaired.removed if name not in files]
    if gone:
        screen.print(Text(f"The network of the earlier repair was deleted: {', '.join(gone)}.", style="yellow"))
    stale = [path.name for path in sorted(out.glob("model.*")) if path.name not in files]
    if stale:
        screen.print(Text(f"Left over from the earlier repair: {', '.join(stale)}.", style="yellow"))


def show_comparison(screen: Console, document: RepairDocument, title: str) -> None:
    """Print the tables, the warnings and what is proven."""
    show_doubts(screen, document)
    if document.candidates:
        show_candidates(screen, document.candidates, document.policy)
        screen.print()
    screen.print(_comparison_table(document, title))
    show_compared_disparity(screen, document)
    show_means(screen, document.before.mean_outputs, document.after.mean_outputs)
    show_effects(screen, document, document.before.effects, document.after.effects)
    show_other_warnings(screen, document)
    screen.print()
    proven, _, rest = document.guarantee.partition(":")
    style = "bold green" if proven == "Proven" else "bold yellow"
    screen.print(Text.assemble((f"{proven}:", style), rest))


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
            f"Largest difference, {document.claim.limit:g} allowed",
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


def show_compared_disparity(screen: Console, document: RepairDocument) -> None:
    """Print the two similar people whose scores differ most, before and after a repair."""
    screen.print()
    for when, disparity in (("before", document.before.disparity), ("after", document.after.disparity)):
        if disparity.worst is not None:
            line = describe_worst(document, disparity.worst, "row")
            screen.print(Text(f"Largest score disparity {when} the repair, {line}"))
        elif disparity.exact:
            screen.print(Text(f"{when.capitalize()} the repair, similar people get equal scores."))
        else:
            screen.print(Text(f"{when.capitalize()} the repair, no similar people with different scores were found."))


def show_candidates(screen: Console, candidates: Sequence[RecipeSummary], policy: PolicySummary | None) -> None:
    """Print what auto tried, grouped by guarantee, the strongest first, and why the others were not taken."""
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
