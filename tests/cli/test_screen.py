"""Names on the screen: no markup, no control characters, one line."""

import io

import pytest
from rich.padding import Padding
from rich.text import Text

from fairmend.cli.screen import Rows, Screen

NAME = "[red]a\x1b[2J\nVALID\x9b\u202e"


def printed(*things):
    screen = Screen(file=io.StringIO(), width=80)
    for thing in things:
        screen.print(thing)
    return screen.file.getvalue()


def rows():
    table = Rows()
    table.add_column(NAME)
    table.add_column("b")
    table.add_row(NAME, Text(NAME, style="bold"))
    return table


@pytest.mark.parametrize("thing", [NAME, Text(NAME), Text.assemble("x", (NAME, "bold")), rows()])
def test_no_control_character_and_no_markup_gets_through(thing):
    shown = printed(thing)
    assert shown.replace("\n", "").isprintable()
    assert "[red]a\\x1b" in shown


@pytest.mark.parametrize("thing", [Text(NAME), Text.assemble("x", (NAME, "bold")), rows()])
def test_no_name_begins_a_line(thing):
    assert not [line for line in printed(thing).splitlines() if line.strip().startswith("VALID")]


def test_styles_and_spaces_stay():
    text = Text.assemble(("12\u00a0%", "bold"), " of them")
    screen = Screen(file=io.StringIO(), force_terminal=True, width=80)
    screen.print(text)
    assert "\x1b[1m12\u00a0%\x1b[0m of them" in screen.file.getvalue()


def test_a_figure_stays_with_its_unit():
    nbsp = "\N{NO-BREAK SPACE}"
    words = f"The largest is 12.5{nbsp}points of 99.9{nbsp}% here"
    for width in range(14, 40):
        screen = Screen(file=io.StringIO(), width=width)
        screen.print(Text(words))
        screen.print(Padding(Text(words, style="dim"), (0, 0, 0, 2)))
        table = Rows.grid()
        table.add_row("x", words)
        screen.print(table)
        shown = screen.file.getvalue()
        assert shown.count(f"12.5{nbsp}points") == shown.count(f"99.9{nbsp}%") == 3, width


def test_a_word_that_is_wider_than_its_column_is_not_cut_off():
    table = Rows()
    table.add_column("feature")
    table.add_column("values")
    table.add_row("Unterhaltsberechtigte" * 3, "any value " * 10)
    screen = Screen(file=io.StringIO(), width=40)
    screen.print(table)
    grid = Rows.grid()
    grid.add_row("Unterhaltsberechtigte" * 3, "any value " * 10)
    screen.print(grid)
    assert "…" not in screen.file.getvalue()
