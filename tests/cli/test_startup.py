"""The command line answers at once, and each command loads only what it needs."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fairmend.cli.config import commands_of
from fairmend.cli.main import main
from support.cli_case import Case

HEAVY = {"torch", "pandas", "numpy", "sklearn", "scipy", "onnx", "highspy", "fairlearn", "pyarrow", "rich", "joblib"}


def loaded_by(code):
    """Top-level modules beyond the standard library that the code loads, less those that any start of Python loads."""
    return _modules(code) - _modules("pass") - sys.stdlib_module_names


@cache
def _modules(code):
    listing = "import json, sys; print('\\n' + json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{listing}"], capture_output=True, text=True, check=True)
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


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


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    case = Case(tmp_path_factory.mktemp("startup"))
    assert case.repair(method="blind", steps=1).exit_code == 0
    return case


# Until the parts below load PyTorch only where they compute with it.


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("audit MODEL --spec SPEC --data DATA --report AUDIT", id="audit"),
        pytest.param("audit MODEL --spec SPEC --data DATA --no-report", id="audit --no-report"),
        pytest.param("certify MODEL --spec SPEC --data DATA --engine enumerate", id="certify"),
        pytest.param("spec check SPEC --data DATA --model MODEL", id="spec check"),
        pytest.param("spec init DATA --protected age --label good --out DRAFT --model MODEL", id="spec init"),
        pytest.param("report OUT", id="report"),
        pytest.param("check OUT/certificate.json OUT/model.onnx", id="check"),
    ],
)
def test_a_command_that_does_not_train_does_not_load_torch(case, arguments):
    paths = {
        "MODEL": case.model,
        "SPEC": case.spec,
        "DATA": case.data,
        "OUT": case.out,
        "AUDIT": case.folder / "audit",
        "DRAFT": case.folder / "draft.toml",
    }
    words = [str(Path(*(paths.get(part, part) for part in word.split("/")))) for word in arguments.split()]
    code = (
        f"from fairmend.cli.main import main\ntry: main({words!r})\nexcept SystemExit as end: assert end.code in (0, 1)"
    )
    assert "torch" not in loaded_by(code)


def test_the_checker_needs_no_torch_and_no_solver():
    assert not loaded_by("import fairmend; fairmend.check") & {"torch", "highspy", "sklearn", "pandas"}
