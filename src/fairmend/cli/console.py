"""What the commands show: progress bars on stderr, and on stdout text and tables or one JSON document.

A screen shows names from files as they are: they contain no markup, control characters or line breaks. Each text is one
line, and each cell of a table is one; only the lines that the screen wraps itself are more. It wraps none at a no-break
space, which keeps a figure and its unit together: rich would, so it sees another character instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fairmend.base.text import printable
from fairmend.cli.group import typed_command

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


def run_and_show(
    ctx: click.Context,
    workflow: Callable[..., Any],
    show: Callable[[Console, Any], None],
    json_output: bool,
    **options: Any,
) -> Any:
    """Call a workflow with the options of a command, show its result or print its document, and return it.

    `on_result` shows a first part of the result as soon as the workflow has it.
    """
    on_result = options.get("on_result")
    with progress_bars(quiet=json_output) as progress:

        def show_first(done: Any) -> None:
            assert on_result is not None
            progress.pause()
            on_result(console(), done)

        options |= {} if on_result is None else {"on_result": show_first}
        done = workflow(**options, command=typed_command(ctx), progress=progress)
    if json_output:
        show_json(done.document.printed())
    else:
        show(console(), done)
    return done


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


def show_warnings(screen: Console, warnings: Sequence[str]) -> None:
    """Print warnings, one sentence or more each."""
    for warning in warnings:
        end = "" if warning.endswith((".", "!", "?")) else "."
        screen.print(Text(f"Warning: {warning}{end}", style="yellow"))


def warn_before(warning: str) -> None:
    """Print a warning on stderr before the work begins; nothing if there is none."""
    if warning:
        show_warnings(stderr_console(), [warning])
