"""What the commands show: progress bars on stderr, tables and words on stdout, or one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from fairmend.evaluate.compare import RepairComparison
from fairmend.evaluate.groups import GroupMetrics
from fairmend.spec import Spec
from fairmend.tables import to_json
from fairmend.text import percent

if TYPE_CHECKING:
    from fairmend.audit.result import AuditPair
    from fairmend.repair.selection import Candidate

Report = Callable[[str, int, int], None]

STAGES = {
    "train": "Training a network",
    "audit": "Looking for unequal treatment",
    "audit original": "Looking for unequal treatment",
    "try": "Trying recipes",
    "bench": "Filling the tables",
    "retrain": "Changing the weights",
    "calibrate": "Step 1: calibrating the features",
    "solve": "Step 2: solving for the head",
    "check": "Proving the repair inputs",
    "audit repaired": "Looking for what is left",
}


def console() -> Console:
    """Return a console for words and tables, on stdout."""
    return Console(highlight=False)


def show_json(document: Mapping[str, object]) -> None:
    """Print the one document that --json promises."""
    click.echo(to_json(document))


class _Seconds(ProgressColumn):
    """The seconds a stage has taken; most take less than one."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_time or task.elapsed or 0:6.1f} s", style="dim")


@contextmanager
def bars(quiet: bool = False) -> Iterator[Report]:
    """Yield a progress callback that shows one bar per stage; silent where nobody is watching."""
    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<33}"),
        BarColumn(bar_width=36, complete_style="cyan", finished_style="green"),
        TextColumn("{task.percentage:>4.0f} %"),
        _Seconds(),
    )
    tasks: dict[str, TaskID] = {}
    if quiet or not screen.is_terminal:
        yield lambda stage, done, total: None
        return
    with Progress(*columns, console=screen) as progress:

        def finish(others_than: str | None = None) -> None:
            """A stage is over when another one reports: a solver need not count to the end."""
            for stage, task in tasks.items():
                if stage != others_than:
                    total = progress.tasks[task].total or 1
                    progress.update(task, total=total, completed=total)

        def report(stage: str, done: int, total: int) -> None:
            finish(others_than=stage)
            if stage not in tasks:
                tasks[stage] = progress.add_task(STAGES.get(stage, stage), total=total or None)
            progress.update(tasks[stage], completed=done, total=total or None)

        yield report
        finish()
    screen.print()


def comparison_table(comparison: RepairComparison, title: str) -> Table:
    """Return the closing table: each figure before and after the repair."""
    before, after, people = comparison.before, comparison.after, comparison.split
    inputs, rows = comparison.result.regions, len(people.X)
    sampled = "" if before.data.exact and after.data.exact else ", sampled: a lower bound"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_row(
        "Unfair repair inputs (CUR)",
        f"{before.repair.count:,} of {inputs:,}",
        Text(f"{after.repair.count:,} of {inputs:,}", style="bold red" if after.repair.count else "bold green"),
    )
    table.add_row(
        f"Unfair among all {rows:,} data rows (IDI-D{sampled})",
        percent(before.data.rate),
        percent(after.data.rate),
    )
    mark = "*" if people.held_out else "†"
    pairs: list[tuple[str, float | None, float | None]] = [
        ("Accuracy", before.utility.accuracy, after.utility.accuracy),
        ("Balanced accuracy", before.utility.balanced_accuracy, after.utility.balanced_accuracy),
        ("Positive rate", before.utility.positive_rate, after.utility.positive_rate),
    ]
    for name, first, second in pairs:
        if first is not None and second is not None:
            table.add_row(f"{name} {mark}", percent(first), percent(second))
    if before.utility.auc is not None and after.utility.auc is not None:
        table.add_row(f"AUC {mark}", f"{before.utility.auc:.3f}", f"{after.utility.auc:.3f}")
    for old, new in zip(before.groups, after.groups, strict=True):
        table.add_row(f"{group_heading(old)} {mark}", group_figures(old), group_figures(new))
    result = comparison.result
    table.add_section()
    table.add_row("Predictions changed, of all data rows", "", percent(comparison.changed))
    table.add_row("Weights changed", "", f"{result.changed_weights:,} of {result.total_weights:,}")
    table.add_row("Change of the last layer (l1)", "", f"{result.objective:.4g}")
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.seconds.items() if stage != "total")
    table.add_row(f"Seconds ({stages})", "", f"{result.seconds['total']:.2f}")
    scored = f"on the {len(people.scored):,} rows"
    table.caption = (
        f"* {scored} used neither for repair nor for calibration"
        if people.held_out
        else f"† {scored} of the data, those used for repair and calibration among them"
    )
    table.caption_justify = "left"
    return table


def candidates_table(candidates: Sequence[Candidate]) -> Table:
    """Return the recipes that auto tried, with their figures."""
    table = Table(
        title="Recipes that auto tried",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
    )
    for heading in ("", "recipe", "proven for", "balanced", "changed", "unfair"):
        table.add_column(heading, justify="right" if heading in ("balanced", "changed", "unfair") else "left")
    for candidate in candidates:
        figures = (candidate.balanced_accuracy, candidate.changed, candidate.unfair_rate)
        table.add_row(
            "→" if candidate.chosen else "",
            candidate.recipe.name,
            candidate.guarantee if candidate.proven else "nobody",
            *(percent(figure) if candidate.proven else "–" for figure in figures),
            style="bold green" if candidate.chosen else "",
        )
    table.caption = (
        "balanced, changed: on calibration rows that were held back from the recipe; "
        "unfair: the repaired network, on all calibration rows and uniform samples"
    )
    table.caption_justify = "left"
    return table


def group_heading(group: GroupMetrics) -> str:
    """Return what the group figures of one feature are called in a table."""
    return f"Group gaps, {group.feature}{f' in {len(group.groups)} bins' if group.binned else ''} (parity / odds)"


def group_figures(group: GroupMetrics) -> str:
    """Return the differences in demographic parity and in equalized odds."""
    return f"{percent(group.demographic_parity_difference)} / {percent(group.equalized_odds_difference)}"


def show_warnings(screen: Console, warnings: Sequence[str]) -> None:
    """Print what should be looked at before an answer is believed."""
    for warning in warnings:
        screen.print(Text(f"Warning: {warning}", style="yellow"))


def show_pairs(screen: Console, spec: Spec, outputs: int, pairs: Sequence[AuditPair], what: str) -> None:
    """Print pairs of people in the user's own words, a line each; `what` they are numbered as."""
    lines = Table.grid(padding=(0, 1))
    for pair in pairs:
        first, second = (
            f"{_answer(spec, outputs, answer)} ({score:+.3g})"
            for answer, score in zip(pair.answers, pair.scores, strict=True)
        )
        words = f"{pair.difference[0].upper()}{pair.difference[1:]}"
        lines.add_row(Text(f"  {what} {pair.row}: {first}."), Text(f"{words}: {second}."))
    screen.print(lines)
    line = "" if outputs > 1 else f", {_answer(spec, outputs, 1)} from 0 on"
    screen.print(Text(f"  (in brackets the score{line}; {what}s are counted from 0)", style="dim"))


def _answer(spec: Spec, outputs: int, answer: int) -> str:
    if spec.label is None or outputs > 2:
        return f"answer {answer}"
    return f'"{spec.label.positive}"' if answer else f'not "{spec.label.positive}"'


def show_comparison(screen: Console, comparison: RepairComparison, title: str) -> None:
    """Print the table, the warnings below it, and what is proven."""
    if comparison.result.candidates:
        screen.print(candidates_table(comparison.result.candidates))
        screen.print()
    screen.print(comparison_table(comparison, title))
    show_warnings(screen, comparison.warnings)
    screen.print()
    proven, _, rest = comparison.statement.partition(":")
    style = "bold green" if proven == "Proven" else "bold yellow"
    screen.print(Text.assemble((f"{proven}:", style), rest))


def show_files(screen: Console, out: Path, files: Mapping[str, str]) -> None:
    """Print where the files are and what each holds."""
    screen.print()
    screen.print(Text.assemble("Saved in ", (str(out), "bold"), ":"))
    lines = Table.grid(padding=(0, 2))
    for name, what in files.items():
        lines.add_row("", Text(name, style="cyan"), Text(what))
    screen.print(lines)


def show_check(screen: Console, certificate: Path, model: Path, covers: str = "") -> None:
    """Check the certificate as anybody can, and say how; `covers` is whom it is about where it leaves somebody out."""
    from fairmend import check

    report = check(certificate, model)
    if not report.valid:  # what wrote it and what reads it disagree: neither is to be believed
        raise RuntimeError(f"the certificate {certificate} is not valid: {report.reasons[0]}")
    screen.print()
    whom, colour = (f" for {covers} only", "bold yellow") if covers else ("", "bold green")
    words = (f"The certificate is valid{whom}", colour)
    screen.print(Text.assemble(words, f", checked in {report.seconds:.2f} s by:"))
    screen.print(Text(f"  fairmend check {certificate} {model}", style="bold"), soft_wrap=True)
