"""What the commands show: progress bars on stderr, and on stdout text and tables or one JSON document.

A screen shows names from files as they are: they contain no markup, control characters or line breaks. Each text is one
line, and each cell of a table is one; only the lines that the screen wraps itself are more. It wraps none at a no-break
space, which keeps a figure and its unit together: rich would, so it sees another character instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fairmend.base.text import percent, printable, probabilities

if TYPE_CHECKING:
    from fairmend import CheckResult
    from fairmend.auditing.figures import Pair
    from fairmend.evaluate.document import Document, FeatureGroups, OutOfRangeValues, UtilityFigures
    from fairmend.evaluate.utility import RegressionUtility
    from fairmend.models import RunModel
    from fairmend.network import Network


ROW_NUMBERS = "Rows are numbered as in a spreadsheet: the header is row 1."

_MOST_DIGITS = 6  # after the point of a probability in per cent

_STAGES = {
    "read": "Reading the data",
    "train": "Training the network",
    "audit": "Auditing",
    "audit original": "Auditing the original network",
    "certify": "Certifying",
    "certificate": "Proving the certificate",
    "check certificate": "Checking the certificate",
    "try": "Running recipes",
    "bench": "Computing the tables",
    "retrain": "Changing the weights",
    "calibrate": "Step 1: calibrating the features",
    "solve": "Step 2: solving for the head",
    "check": "Proving the repair inputs",
    "audit repaired": "Auditing the repaired network",
    "search": "Searching from all seeds",
    "global": "Searching from each seed",
    "local": "Searching around each result",
    "confirm": "Confirming the results",
    "decided": "Share of all people decided",
    "rows": "Proving the rows of the data",
}


_NO_BREAK, _STAND_IN = "\N{NO-BREAK SPACE}", "\ufdd0"  # the second is no character, so no file has it


class Screen(Console):
    """A console that escapes what cannot be printed, and knows no markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "highlight": False, **options})

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; a text is one line, whatever the names in it contain."""
        super().print(*(_one_line(thing) if isinstance(thing, Text) else thing for thing in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of an object, with control characters escaped; those of the screen itself are kept."""
        shown = _hold_together(renderable) if isinstance(renderable, Text) else renderable
        for segment in super().render(shown, options):
            text = segment.text if segment.control else printable(segment.text, keep="\n")
            text = text.replace(_STAND_IN, _NO_BREAK)
            yield segment if text == segment.text else Segment(text, segment.style)


class Rows(Table):
    """A table whose cells and headings are text, without markup, on one line each.

    A word that is wider than its column goes on in the next line: rich would cut it off.
    """

    def add_row(self, *renderables: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*(_cell(cell) for cell in renderables), **options)
        for column in self.columns:
            column.overflow = "fold"

    def add_column(self, header: RenderableType = "", *more: Any, **options: Any) -> None:
        """Add a column."""
        heading = _cell(header)
        super().add_column("" if heading is None else heading, *more, **options)


def _cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return _hold_together(Text(printable(cell)))
    return _hold_together(_one_line(cell)) if isinstance(cell, Text) else cell


def _hold_together(text: Text) -> Text:
    """Return the text with a character at which rich does not break lines, in place of no-break spaces."""
    if _NO_BREAK not in text.plain:
        return text
    held = text.copy()
    held.plain = text.plain.replace(_NO_BREAK, _STAND_IN)
    return held


def _one_line(text: Text) -> Text:
    """Return the text; if something in it has to be escaped, without the styles of its parts."""
    shown = printable(text.plain)
    if shown == text.plain:
        return text
    return Text(shown, style=text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap)


def console() -> Console:
    """Return a console for text and tables, on stdout."""
    return Screen()


@cache
def stderr_console() -> Console:
    """Return the console for progress bars and log lines, on stderr. They share it so that they do not overlap."""
    return Screen(stderr=True, soft_wrap=True, highlight=True)


def show_json(document: Mapping[str, object]) -> None:
    """Print the document of --json."""
    from fairmend.base.files import to_json

    click.echo(to_json(document))


def figures_table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table in the style that all commands share; the columns in `right` are aligned to the right."""
    title = printable(title)
    table = Rows(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    table.show_header = any(column.strip() for column in columns)
    table.caption_justify = "left"
    table.min_width = min(len(title), 76)  # a title wider than its table would be wrapped
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


class _Seconds(ProgressColumn):
    """The seconds that a stage has taken; rich's own column shows whole seconds, and most stages take less than one."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_time or task.elapsed or 0:6.1f} s", style="dim")


class Bars:
    """A progress callback that shows one bar per stage; `pause` ends them, and the next stage starts new ones."""

    def __init__(self, screen: Console | None) -> None:
        self._screen = screen
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage."""
        if self._screen is None:
            return
        if self._progress is None:
            columns = (
                SpinnerColumn(finished_text="[green]✓"),
                TextColumn("{task.description:<33}"),
                BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
                TextColumn("{task.percentage:>4.0f} %"),
                _Seconds(),
            )
            self._progress = Progress(*columns, console=self._screen)
            self._progress.start()
        self._finish_except(stage)
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(_STAGES.get(stage, stage), total=total or None)
        self._progress.update(self._tasks[stage], completed=done, total=total or None)

    def _finish_except(self, current: str | None = None) -> None:
        """Complete the other stages: a solver need not count to its total."""
        assert self._progress is not None
        for stage, task in self._tasks.items():
            if stage != current:
                total = self._progress.tasks[task].total or 1
                self._progress.update(task, total=total, completed=total)

    def pause(self, *, complete: bool = True) -> None:
        """End the bars, before something is printed; without `complete` they stay where they are, after an error."""
        if self._progress is None or self._screen is None:
            return
        if complete:
            self._finish_except()
        self._progress.stop()
        self._progress, self._tasks = None, {}
        if complete:
            self._screen.print()


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Bars]:
    """Yield a progress callback that shows one bar per stage; it shows nothing if stderr is not a terminal."""
    screen = stderr_console()
    bars = Bars(None if quiet or not screen.is_terminal else screen)
    try:
        yield bars
    except BaseException:
        bars.pause(complete=False)
        raise
    bars.pause()


def group_heading(group: FeatureGroups) -> str:
    """Return the heading of the group figures of one feature."""
    what = "parity / odds" if group.widest_class is None else "widest gap of a class"
    bins = f" in {len(group.groups) + group.groups_left_out} bins" if group.binned else ""
    small = f", without {group.small_groups} small" if group.small_groups else ""
    return f"Gaps by {group.feature}{bins} ({what}{small})"


def group_figures(group: FeatureGroups) -> str:
    """Return the differences in demographic parity and in equalized odds; with many classes, that of the widest one."""
    if group.widest_class is not None:
        return printable(f"{percent(group.widest_difference)} ({group.widest_class})")
    return f"{percent(group.demographic_parity_difference)} / {percent(group.equalized_odds_difference)}"


def regression_figures(utility: UtilityFigures | RegressionUtility) -> list[tuple[str, str]]:
    """Return the figures of a regression network with their names; none of one that decides."""
    if utility.mean_absolute_error is None:
        return []
    share = [] if utility.r2 is None else [("R²", f"{utility.r2:.3f}")]
    return [
        *share,
        ("Mean absolute error", f"{utility.mean_absolute_error:.4g}"),
        ("Root mean squared error", f"{utility.root_mean_squared_error:.4g}"),
    ]


def show_warnings(screen: Console, warnings: Sequence[str]) -> None:
    """Print warnings, one sentence or more each."""
    for warning in warnings:
        end = "" if warning.endswith((".", "!", "?")) else "."
        screen.print(Text(f"Warning: {warning}{end}", style="yellow"))


def show_doubts(screen: Console, document: Document) -> None:
    """Print the warnings that make the figures doubtful: before the first figure."""
    show_warnings(screen, document.doubts)
    if document.doubts:
        screen.print()


def show_other_warnings(screen: Console, document: Document) -> None:
    """Print the warnings after the figures."""
    show_warnings(screen, document.warnings[len(document.doubts) :])


def warn_before(warning: str) -> None:
    """Print a warning on stderr before the work begins; nothing if there is none."""
    if warning:
        show_warnings(stderr_console(), [warning])


def show_out_of_range(screen: Console, done: OutOfRangeValues | None, spec_file: Path | None = None) -> None:
    """Print what was done about values out of range, and where the spec with wider ranges is; nothing without any."""
    if done is None or not done.rows:
        return
    screen.print(Text(done.text, style="yellow"), soft_wrap=True)
    if spec_file is not None:
        screen.print(Text.assemble("The spec with wider ranges: ", (str(spec_file), "bold")), soft_wrap=True)


def show_pairs(screen: Console, document: Document, pairs: Sequence[Pair], what: str) -> None:
    """Print pairs in the user's values, one line each; `what` is the name of what their numbers count."""
    if document.claim.is_score:
        _show_score_pairs(screen, document, pairs, what)
        return
    lines = Rows.grid(padding=(0, 1))
    threshold = document.threshold if len(document.class_names) <= 2 else None
    for pair in pairs:
        assert pair.answers is not None
        assert pair.scores is not None
        scores = probabilities(pair.scores, threshold)
        answers = map(document.quoted_class, pair.answers)
        first, second = (f"{name} ({score})" for name, score in zip(answers, scores, strict=True))
        difference = f"{pair.difference[0].upper()}{pair.difference[1:]}"
        lines.add_row(" ", Text(f"{name_pair(pair, what)}: {first}. {difference}: {second}."))
    meaning = "the probability of the first prediction"
    if threshold is not None:
        positive = document.quoted_class(1)
        meaning = (
            f"the probability of {positive}; from {percent(threshold, _digits(threshold))}, the prediction is "
            f"{positive}"
        )
    lines.add_row(" ", Text(f"In parentheses: {meaning}. {_numbering(what)}", style="dim"))
    screen.print(lines)


def _digits(share: float) -> int:
    """Return how many digits after the point a share has in per cent."""
    return next((digits for digits in range(_MOST_DIGITS) if round(share, digits + 2) == share), _MOST_DIGITS)


def _show_score_pairs(screen: Console, document: Document, pairs: Sequence[Pair], what: str) -> None:
    """Print the two people of each neighbourhood whose scores differ most."""
    lines = Rows.grid(padding=(0, 1))
    for pair in pairs:
        output = "" if pair.output is None else f"output {pair.output}, "
        first, second = (
            f"{score:.5g} with {values}"
            for score, values in zip(pair.scores or (), document.differing_values(pair), strict=True)
        )
        where = f"  {name_pair(pair, what)}: {output}differs by {pair.gap:.4g}."
        lines.add_row(Text(where), Text(printable(f"{first}; {second}.")))
    screen.print(lines)
    screen.print(Padding(Text(f"The score is the {document.claim.on}. {_numbering(what)}", style="dim"), (0, 0, 0, 2)))


def name_pair(pair: Pair, what: str) -> str:
    """Return the number of a pair: "row 5", or "sample 5" if that is what its number counts."""
    return pair.name if what == "row" else f"{what} {pair.row}"


def _numbering(what: str) -> str:
    return ROW_NUMBERS if what == "row" else f"{what.capitalize()}s are numbered from 1."


def show_files(screen: Console, out: Path, files: Mapping[str, str]) -> None:
    """Print where the files are and what each contains."""
    screen.print()
    screen.print(Text.assemble("Saved in ", (str(out), "bold"), ":"), soft_wrap=True)
    lines = Rows.grid(padding=(0, 2))
    for name, what in files.items():
        lines.add_row("", Text(name, style="cyan"), Text(what))
    screen.print(lines)


def show_check(
    screen: Console, result: CheckResult, certificate: Path, model: Path, covers: str = "", *, real: bool = False
) -> None:
    """Print that the certificate was checked, and how to check it; `covers` names the inputs if not all are covered.

    `real` means that it claims exact arithmetic only.
    """
    screen.print()
    scope = f" for {covers} only" if covers else ""
    scope += ", in exact arithmetic only: rounding may change a prediction in inference" if real else ""
    colour = "bold yellow" if scope else "bold green"
    sentence = (f"The certificate is valid{scope}", colour)
    screen.print(Text.assemble(sentence, f" (checked in {result.seconds:.2f} s). To check it yourself, run:"))
    typed = shlex.join(["fairmend", "check", str(certificate), str(model), *(["--real"] if real else [])])
    screen.print(Text(f"  {typed}", style="bold"), soft_wrap=True)
    show_condition(screen, result.condition)


def show_condition(screen: Console, condition: str) -> None:
    """Print what must be true of the program that runs the model, if its file leaves that open."""
    if condition:
        screen.print(Text(f"Condition: {condition}"))


def show_runtime(screen: Console, model: Network | RunModel) -> None:
    """Print what runs a model that is not read as a network, and why it is not."""
    from fairmend.models import RunModel

    if isinstance(model, RunModel):
        screen.print(Text(f"{model.runner.name} is run by {model.runtime}: {model.why_only_run}."), soft_wrap=True)


def show_report(screen: Console, page: Path, *, browser: bool = True) -> None:
    """Print where the page is."""
    screen.print()
    screen.print(
        Text.assemble("Report (open it in a browser): " if browser else "Report: ", (str(page), "bold")), soft_wrap=True
    )
