"""Options that several commands share."""

import importlib

import click
import pytest
from click.testing import CliRunner

from fairmend.cli import options
from fairmend.cli.config import commands_of
from fairmend.cli.main import main
from fairmend.network.formats.suffixes import MODULES
from support.cli_case import Case, refused, run


def test_the_help_names_every_format_that_can_be_read():
    named = set(options.MODEL_FORMATS.replace(" or ", ", ").split(", "))
    assert named <= set(MODULES)
    described = options.insert_formats(lambda: None)
    described.__doc__ = "MODEL is a file: {formats}."
    formats = f"{options.MODEL_FORMATS}; or a fitted pipeline of scikit-learn, .skops, or a model folder of MLflow"
    assert options.insert_formats(described).__doc__ == f"MODEL is a file: {formats}."


def commands():
    return {" ".join(path): command for path, command in commands_of(main)}


def test_no_help_has_an_unfilled_placeholder_or_names_a_class_of_the_code_or_an_answer():
    for path, command in commands_of(main):
        text = command.get_help(click.Context(command))
        for word in ("{formats}", "{files}", "DataSplit", "answer", "nobody", "somebody", "everybody"):
            assert word not in text, (path, word)


def test_options_are_added_in_the_order_given():
    @click.command()
    @options.add_options(click.option("--first"), click.option("--second"))
    def command(first, second):
        click.echo(f"{first} {second}")

    assert [parameter.name for parameter in command.params] == ["first", "second"]
    assert CliRunner().invoke(command, ["--second", "b", "--first", "a"]).output == "a b\n"


def test_every_command_has_the_common_options():
    for path, command in commands_of(main):
        names = {option for parameter in command.params for option in parameter.opts}
        assert {"--verbose", "--log-file", "--config", "--no-config"} <= names, path


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        ("repair", "method", lambda: importlib.import_module("fairmend.repairing.options").METHODS),
        ("repair", "solver", lambda: importlib.import_module("fairmend.milp")._SOLVERS),
        ("certify", "engine", lambda: importlib.import_module("fairmend.prove.certify")._ENGINES),
        ("search", "method", lambda: importlib.import_module("fairmend.searching.run").METHODS),
    ],
)
def test_the_choices_of_an_option_are_those_of_the_library(command, option, known):
    """The command line lists them itself, so that --help loads nothing heavy."""
    declared = importlib.import_module(f"fairmend.cli.{command}").command
    choices = next(parameter.type.choices for parameter in declared.params if parameter.name == option)
    assert set(choices) == set(known())


def test_the_help_names_the_limit_and_the_default_of_what_the_report_carries():
    from fairmend.evaluate.what_if import MOST_WEIGHTS, WHAT_IF_ROWS

    for name in ("audit", "repair"):
        declared = {parameter.name: parameter for parameter in commands()[name].params}
        assert f"at most {MOST_WEIGHTS:,} weights" in declared["no_what_if"].help
        assert declared["what_if_rows"].default == WHAT_IF_ROWS


def test_doctor_looks_for_every_solver():
    from fairmend.cli import doctor
    from fairmend.milp import _SOLVERS

    assert set(doctor._SOLVERS) == set(_SOLVERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "--samples", 10], "--samples has no effect with --data"),
        (["audit", "--report", "folder", "--no-report"], "--report has no effect with --no-report"),
        (["repair", "--out", "out", "--repair-data", "DATA", "--repair-rows", 5], "--repair-rows has no effect with"),
        (["audit", "--no-what-if", "--no-report"], "--no-what-if has no effect with --no-report"),
        (["audit", "--what-if-rows", 3, "--no-report"], "--what-if-rows has no effect with --no-report"),
        (["repair", "--out", "out", "--what-if-rows", 3, "--no-what-if"], "--what-if-rows has no effect with"),
        (["certify", "--certificate", "nowhere/certificate.json"], "nowhere/certificate.json: no such folder"),
    ],
)
def test_what_has_no_effect_or_cannot_be_written_is_refused_before_the_work(tmp_path, arguments, message):
    case = Case(tmp_path)
    filled = [case.data if argument == "DATA" else argument for argument in arguments[1:]]
    refused(run(arguments[0], case.model, "--data", case.data, "--spec", case.spec, *filled), message)
    assert not (tmp_path / "out").exists()
