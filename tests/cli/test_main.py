"""`fairmend` itself: its version, its help and its list of commands."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import fairmend
import fairmend.cli.main
from fairmend.cli.main import main
from support.cli_case import refused, run, succeeded


def test_python_runs_the_same_command():
    done = subprocess.run([sys.executable, "-m", "fairmend", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"fairmend {fairmend.__version__}\n"


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"fairmend {fairmend.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help(arguments):
    result = succeeded(run(*arguments))
    assert "Usage: fairmend" in result.stdout


@pytest.mark.parametrize("command", sorted(set(main.list_commands(click.Context(main))) - {"spec"}))
def test_help_is_written_for_people_and_names_no_class_of_the_code(command):
    words = succeeded(run(command, "--help")).stdout.split()
    assert words[:2] == ["Usage:", "fairmend"]
    assert [word for word in words if re.fullmatch(r"([A-Z][a-z]+){2,}", word)] == []


@pytest.mark.parametrize("path", [(), ("spec",)], ids=["fairmend", "fairmend spec"])
def test_the_list_of_commands_repeats_the_first_line_of_their_help(path):
    group, ctx = main, click.Context(main)
    for name in path:
        group = group.get_command(ctx, name)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command.name == name
        assert group._summaries[name] == command.get_short_help_str(limit=1000)


def test_every_module_with_a_command_is_listed():
    folder = Path(fairmend.cli.main.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "def command(" in path.read_text()}
    listed = {name.replace("-", "_") for name in main.list_commands(click.Context(main))}
    assert modules == {*listed, "spec_check"}


def test_a_command_that_does_not_exist_is_a_usage_error():
    refused(run("nonsense"), "No such command 'nonsense'")
