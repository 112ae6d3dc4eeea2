"""A repair in the terminal: each figure before and after it, and what is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend.base.text import percent
from fairmend.cli.candidates import show_candidates
from fairmend.cli.console import figures_table, group_figures, group_heading, regression_figures, show_warnings
from fairmend.cli.disparity import add_disparity, show_compared_disparity

if TYPE_CHECKING:
    from fairmend.evaluate.compare import Measurement, RepairComparison


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
    sampled = "" if before.data.exact and after.data.exact else ", sampled: a lower bound"
    table = figures_table(title, "", "before", "after", right=("before", "after"))
    table.add_row(
        "Repair inputs treated unequally (CUR)",
        f"{before.repair.count:,} of {inputs:,}",
        Text(f"{after.repair.count:,} of {inputs:,}", style="bold red" if after.repair.count else "bold green"),
    )
    table.add_row(
        f"All {rows:,} rows: treated unequally (IDI-D{sampled})",
        percent(before.data.rate),
        percent(after.data.rate),
    )
    if before.data.largest is not None and after.data.largest is not None:
        table.add_row(
            f"Largest difference, {people.spec.claim.delta:g} allowed",
            f"{before.data.largest:.4g}",
            f"{after.data.largest:.4g}",
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
    table.add_row("Weights changed", "", f"{result.changed_weights:,} of {result.total_weights:,}")
    if result.objective:
        table.add_row("Change of the head in step 2 (l1 norm)", "", f"{result.objective:.4g}")
    table.add_row("Seconds", "", f"{result.seconds['total']:.2f}")
    table.caption = f"{mark} on {people.describe_scored()}"
    claim = people.spec.claim
    if claim.is_score:
        table.caption += f"\nunequally: the {claim.on} of two similar people differs by more than {claim.limit:g}"
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
