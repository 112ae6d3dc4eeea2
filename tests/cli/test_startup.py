"""What is imported, and what is not: the command line answers at once, the library loads what it is asked for."""

import json
import subprocess
import sys

import pytest

from fairmend.cli.config import commands_of
from fairmend.cli.main import main

HEAVY = {"torch", "pandas", "numpy", "sklearn", "scipy", "onnx", "highspy", "fairlearn", "pyarrow", "rich", "joblib"}


def loaded_by(code):
    """Top-level modules beyond the standard library that the code loads, less those that any start of Python loads."""
    listing = "import json, sys; print('\\n' + json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"

    def modules(what):
        done = subprocess.run([sys.executable, "-c", f"{what}\n{listing}"], capture_output=True, text=True, check=True)
        return set(json.loads(done.stdout.splitlines()[-1]))

    return modules(code) - modules("pass") - sys.stdlib_module_names


def helped(*arguments):
    return f"from fairmend.cli.main import main\ntry: main({[*arguments, '--help']!r})\nexcept SystemExit: pass"


def test_import_fairmend_loads_nothing_but_itself():
    assert loaded_by("import fairmend") == {"fairmend"}


def test_help_loads_click_and_nothing_heavy():
    assert loaded_by(helped()) == {"fairmend", "click"}


@pytest.mark.parametrize("path", [path for path, _ in commands_of(main)], ids=" ".join)
def test_the_help_of_a_command_loads_nothing_heavy(path):
    assert not loaded_by(helped(*path)) & HEAVY


def test_a_spec_needs_no_network_and_a_network_no_torch():
    assert not loaded_by("import fairmend; fairmend.Spec") & {"torch", "onnx", "sklearn", "pandas"}
    assert not loaded_by("import fairmend; fairmend.Network") & {"torch", "onnx", "sklearn", "pandas"}


def test_the_checker_needs_no_torch_and_no_solver():
    assert not loaded_by("import fairmend; fairmend.check") & {"torch", "highspy", "sklearn", "pandas"}
