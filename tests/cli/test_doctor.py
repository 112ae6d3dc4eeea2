"""`fairmend doctor`: what it finds, and what it says when something is missing."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from fairmend.cli import doctor
from support.cli_case import run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def document():
    result = run("doctor", "--json")
    return result.exit_code, json.loads(result.stdout)


def test_all_is_well_here():
    code, shown = document()
    assert (code, shown["problems"], shown["can_work"]) == (0, [], True)
    assert shown["solvers"]["highs"] == "works"
    assert shown["packages"]["numpy"]["found"] == metadata.version("numpy")
    assert shown["threads"]["torch"] >= 1
    text = run("doctor")
    assert text.exit_code == 0
    assert "fairmend can work here" in text.stdout


@pytest.mark.parametrize("name", ["numpy", "torch", "tomlkit"])
def test_a_missing_requirement_exits_2_with_the_remedy(monkeypatch, name):
    real = metadata.version

    def version(package):
        if package == name:
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor.metadata, "version", version)
    code, shown = document()
    assert (code, shown["can_work"]) == (2, False)
    assert any(p.startswith(f"{name}: not installed; pip install '{name}>=") for p in shown["problems"])


def test_a_requirement_that_is_too_old_exits_2(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "1.14.0" if name == "highspy" else real(name))
    code, shown = document()
    assert code == 2
    assert any("highspy: 1.14.0 is too old, 1.15.1 is needed" in p for p in shown["problems"])


def test_a_missing_extra_is_no_problem_and_its_command_is_shown(monkeypatch):
    real = metadata.version

    def version(package):
        if package == "pyscipopt":
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor.metadata, "version", version)
    code, shown = document()
    assert code == 0
    assert shown["extras_missing"]["scip"] == "pip install 'fairmend[scip]'"


def test_it_works_where_numpy_does_not():
    code = (
        "import sys; sys.modules['numpy'] = None; sys.modules['pandas'] = None\n"
        "from fairmend.cli.main import main; main(['doctor', '--json'])"
    )
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    shown = json.loads(result.stdout)
    assert "cannot be imported" in shown["packages"]["numpy"]["problem"]


def test_the_config_in_force_is_named_and_checked(tmp_path):
    (tmp_path / "fairmend.toml").write_text("[repair]\nseed = 3\n")
    assert document()[1]["config"] == str(tmp_path / "fairmend.toml")
    (tmp_path / "fairmend.toml").write_text("[repair]\nsede = 3\n")
    code, shown = document()
    assert code == 2
    assert 'did you mean "seed"' in shown["problems"][0]
    assert run("doctor", "--no-config").exit_code == 0


@pytest.mark.parametrize(
    ("found", "needed", "older"),
    [("2.13.0+cpu", "2.4", False), ("1.9", "1.10", True), ("2.0", "2", False), ("2", "2.0.1", True)],
)
def test_versions_are_compared_as_numbers(found, needed, older):
    assert (doctor._numbers(found) < doctor._numbers(needed)) == older
