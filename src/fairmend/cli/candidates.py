"""The table of the candidates of auto: their guarantee, the unfairness left, what is kept, and why one was selected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fairmend.base.text import percent, printable
from fairmend.cli.screen import Rows

if TYPE_CHECKING:
    from fairmend.repairing.result import RepairResult
    from fairmend.repairing.selection import Candidate


_CLASS_FIGURES = {"unequal": 7, "accuracy": 8, "balanced": 8, "agrees": 7}
_REGRESSION_FIGURES = {"unequal": 7, "R²": 9, "agrees": 7}
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
    "agrees: predictions equal to the original's, mean over the classes."
)
_REGRESSION_NOTE = (
    "R²: on calibration rows that the recipe did not use. agrees: the share of the variance of the original's outputs "
    "that is kept."
)


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
    shown = (*figures, percent(candidate.agreement))
    return _mark(candidate), str(number), candidate.recipe.name, *(shown if candidate.proven else "–" * len(shown))


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
    return *_accuracy(result.original_accuracy, result.original_balanced_accuracy), percent(1.0)


def _show_reasons(screen: Console, others: Sequence[tuple[int, Candidate]]) -> None:
    """Print why candidates were not taken, one line for each reason."""
    reasons: dict[str, list[int]] = {}
    for number, candidate in others:
        reasons.setdefault(candidate.reason or candidate.problem, []).append(number)
    if not reasons:
        return
    screen.print()
    screen.print(Text("Why not the others", style="bold"))
    for reason, numbers in reasons.items():
        screen.print(Padding(Text(f"{_ranges(numbers)}: {printable(reason)}"), (0, 0, 0, 2)))


def _ranges(numbers: Sequence[int]) -> str:
    """Return increasing numbers as text; three or more in a row are a range: "1, 3–6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
