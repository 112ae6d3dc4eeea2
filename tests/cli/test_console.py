"""Text, tables and progress bars in the terminal."""

import html
import io
import json
import shlex
from pathlib import Path

import click
import pytest
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import fairmend
from fairmend.cli import console, figures
from fairmend.cli.console import Rows, Screen
from fairmend.evaluate.document import UtilityFigures
from fairmend.network import load_network
from fairmend.prove.certificate import certificate_of_fair
from support.checker_cases import case, rounding_case
from support.cli_case import Case, run, small_network, small_people, small_spec

NAME = "[red]a\x1b[2J\nVALID\x9b\u202e"


def shown_by(*things):
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
    shown = shown_by(thing)
    assert shown.replace("\n", "").isprintable()
    assert "[red]a\\x1b" in shown


@pytest.mark.parametrize("thing", [Text(NAME), Text.assemble("x", (NAME, "bold")), rows()])
def test_no_name_begins_a_line(thing):
    assert not [line for line in shown_by(thing).splitlines() if line.strip().startswith("VALID")]


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


def printed(renderable, width=100):
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    screen.print(renderable)
    return screen.file.getvalue()


def test_progress_is_silent_if_stderr_is_not_a_terminal(capfd):
    with console.progress_bars() as progress:
        progress("calibrate", 1, 2)
    assert capfd.readouterr() == ("", "")


def test_each_stage_has_a_bar_that_is_complete_in_the_end(monkeypatch):
    screen = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "stderr_console", lambda: screen)
    with console.progress_bars() as progress:
        progress("calibrate", 1, 2)
        progress("something new", 0, 0)
    last = screen.file.getvalue().rsplit("Step 1: calibrating the features", 1)[1]
    assert "100 %" in last
    assert "something new" in last


def test_bars_end_before_something_is_printed_and_new_ones_start_after_it(monkeypatch, capsys):
    """While bars are shown, rich writes what is printed on stdout to stderr."""
    screen = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "stderr_console", lambda: screen)
    with console.progress_bars() as progress:
        progress("decided", 1, 2)
        progress.pause()
        click.echo("the shares")
        progress("check certificate", 1, 2)
    assert capsys.readouterr().out == "the shares\n"
    first, second = screen.file.getvalue().split("Checking the certificate", 1)
    assert "100 %" in first
    assert "100 %" in second
    assert "Share of all people" not in second


def test_json_is_printed_as_one_document(capsys):
    console.show_json({"a": 1.5, "b": None})
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "b": None}


def test_columns_named_in_right_are_aligned_to_the_right():
    table = console.figures_table("A title", "name", "figure", right=("figure",))
    table.add_row("x", "1")
    assert [column.justify for column in table.columns] == ["left", "right"]
    assert "A title" in printed(table)


def test_warnings_with_brackets_are_not_markup():
    screen = Console(file=io.StringIO(), width=100)
    console.show_warnings(screen, ["[red] is a name"])
    assert screen.file.getvalue() == "Warning: [red] is a name.\n"


@pytest.mark.parametrize(("rate", "shown"), [(0.0004, "< 0.1"), (0.9996, "> 99.9"), (0.0, "0"), (1.0, "100")])
def test_a_small_share_is_never_shown_as_zero(tmp_path, monkeypatch, rate, shown):
    """The terminal once showed 0.04 % as 0.0 %."""
    case = Case(tmp_path)
    original = UtilityFigures.__init__
    monkeypatch.chdir(tmp_path)

    def measured(self, *args, **kwargs):
        original(self, *args, **kwargs)
        object.__setattr__(self, "accuracy", rate)

    monkeypatch.setattr(UtilityFigures, "__init__", measured)
    result = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--no-report")
    [line] = [line for line in result.stdout.splitlines() if line.strip().startswith("Accuracy")]
    assert line.split("*")[1].strip().replace("\xa0", " ") == f"{shown} %"


def test_files_are_listed_with_what_they_contain(tmp_path):
    screen = Console(file=io.StringIO(), width=60)
    figures.show_files(screen, tmp_path, {"model.onnx": "the repaired network"})
    assert "model.onnx  the repaired network" in screen.file.getvalue()


def test_a_certificate_in_exact_arithmetic_is_shown_as_such_with_the_command_that_accepts_it(tmp_path):
    certificate, model = rounding_case().save(tmp_path)
    shown = io.StringIO()
    result = fairmend.check(certificate, model, real=True)
    figures.show_check(Console(file=shown, width=300), result, certificate, model, real=True)
    assert "in exact arithmetic only: rounding may change a prediction in inference" in shown.getvalue()
    assert f"fairmend check {certificate} {model} --real" in shown.getvalue()


def test_the_condition_of_a_state_dict_is_shown(tmp_path):
    certificate, model = case().save(tmp_path, "pth")
    shown = io.StringIO()
    figures.show_check(Console(file=shown, width=900), fairmend.check(certificate, model), certificate, model)
    assert (
        "Condition: the file stores weights only. The claim is about a module that computes in float32"
        in shown.getvalue()
    )
    assert '"layers.0" (4 to 6), relu, "layers.1" (6 to 5), relu, "layers.2" (5 to 1)' in shown.getvalue()


def test_the_command_that_checks_a_certificate_can_be_copied_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / "our models"
    folder.mkdir()
    certificate, model = case().save(folder)
    shown = io.StringIO()
    figures.show_check(Console(file=shown, width=900), fairmend.check(certificate, model), certificate, model)
    typed = next(line for line in shown.getvalue().splitlines() if "fairmend check" in line)
    assert shlex.split(typed) == ["fairmend", "check", str(certificate), str(model)]


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".nnet"])
@pytest.mark.parametrize(
    "command",
    [("certify", "--rows", 20), ("audit", "--report", "page"), ("quantify", "--share", 0.3, "--report", "page")],
    ids=lambda command: command[0],
)
def test_a_verdict_on_weights_alone_has_the_condition_that_check_prints(command, suffix, tmp_path, monkeypatch):
    """The same words in the terminal, in JSON, in the report and in Python."""
    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    model = tmp_path / f"model{suffix}"
    small_network().save(model)
    network = load_network(model)
    certificate, _ = certificate_of_fair(network, small_spec(), small_spec().encode(small_people().head(60)))
    certificate.save(tmp_path / "certificate.json", model)
    checked = fairmend.check(tmp_path / "certificate.json", model)
    assert checked.valid, checked.reasons
    # Here fairmend encodes numbers, and decides.
    condition = checked.condition.partition(" The program encodes numbers")[0].partition(" The file does not decide")[0]
    name, *more = command
    shown = run(name, model, "--data", case.data, "--spec", case.spec, *more)
    assert f"Condition: {condition}" in " ".join(shown.stdout.split()), shown.stderr
    printed = run(name, model, "--data", case.data, "--spec", case.spec, *more, "--json")
    assert json.loads(printed.stdout)["condition"] == condition
    if "page" in more:
        page = html.unescape(Path("page", "report.html").read_text())
        assert condition[1:] in page
    call = {"certify": fairmend.certify, "audit": fairmend.audit}.get(name)
    if call is not None:
        result = call(network, small_spec(), small_people().head(20))
        assert f"Condition: {condition}" in repr(result)
        assert condition in html.unescape(result._repr_html_())


def test_a_file_that_says_it_all_has_no_condition(tmp_path):
    case = Case(tmp_path)
    result = run("certify", case.model, "--data", case.data, "--spec", case.spec, "--rows", 5)
    assert "FAIR" in result.stdout
    assert "Condition" not in result.stdout
