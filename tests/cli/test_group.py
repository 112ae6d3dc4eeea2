"""Errors of a command are one line with the way out, never a traceback."""

import subprocess
import sys

import click
import pytest

from fairmend.cli.group import typed_command
from fairmend.cli.main import main
from support.cli_case import Case, run

WITHOUT = """
import sys
sys.modules[{module!r}] = None
from fairmend.cli.main import main
main({arguments!r}, prog_name="fairmend")
"""


def without(module, *arguments):
    """Run a command in an environment where a module cannot be imported."""
    code = WITHOUT.format(module=module, arguments=[str(argument) for argument in arguments])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["rich", "pandas"])
def test_a_missing_requirement_is_one_line_that_says_how_to_install_it(tmp_path, module):
    case = Case(tmp_path)
    done = without(module, "audit", case.model, "--spec", case.spec, "--data", case.data)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(
        f'Error: fairmend audit needs the package "{module}", which is not installed. Run pip install'
    )
    assert "bug" not in line


def test_a_missing_extra_is_one_line_that_names_it(tmp_path):
    done = without("joblib", "bench", "table1", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.endswith("Run pip install 'fairmend[bench]'")
    assert "bug" not in line


def test_the_checker_works_without_rich_and_pandas(tmp_path):
    case = Case(tmp_path)
    assert case.repair(method="blind", steps=1).exit_code == 0
    certificate = case.out / "certificate.json"
    for module in ("rich", "pandas", "torch"):
        done = without(module, "check", certificate, case.out / "model.onnx", "-v")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("VALID")


def test_a_module_that_fairmend_itself_lacks_is_reported_as_a_bug(monkeypatch):
    def broken(*_):
        raise ModuleNotFoundError("No module named 'fairmend.nonsense'", name="fairmend.nonsense")

    monkeypatch.setattr("fairmend.cli.doctor.run_doctor", broken)
    monkeypatch.setattr(main.get_command(click.Context(main), "doctor"), "callback", broken)
    result = run("doctor")
    assert result.exit_code == 2
    assert "This is a bug in fairmend" in result.stderr


def test_the_command_is_remembered_as_typed():
    seen = []

    @click.command()
    @click.pass_context
    def inner(ctx):
        seen.append(typed_command(ctx))

    group = type(main)("root", package="nowhere", summaries={"inner": "Do something."})
    group.add_command(inner, "inner")
    group.main(["inner"], standalone_mode=False)
    assert seen == ["fairmend inner"]
