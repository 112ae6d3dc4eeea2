"""The checker stands alone: it imports NumPy and the standard library, and nothing of fairmend."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fairmend_check
from support.checker_cases import SUFFIXES, case

FOLDER = Path(fairmend_check.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
ALLOWED = set(sys.stdlib_module_names) | {"numpy", "tomllib", "fairmend_check"}  # Python 3.10 has no tomllib
RUNTIMES = {"onnxruntime", "keras"}  # which the process that runs models may import, runtimes.py alone
FORBIDDEN = {"__import__", "import_module", "exec", "eval", "compile"}


def violations(source):
    """What a file of the checker must not import or call."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] not in ALLOWED]
        elif isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] not in ALLOWED:
                found.append("." * node.level + (node.module or ""))
            found += [alias.name for alias in node.names if alias.name in FORBIDDEN]
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            found += [name] if name in FORBIDDEN else []
    return found


def test_every_file_is_read():
    assert {"__main__.py", "check.py", "spec_toml.py", "onnx_nodes.py"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_standard_library_and_numpy_are_imported(path):
    found = violations(path.read_text())
    assert found == [] or (path.name == "runtimes.py" and set(found) == RUNTIMES)


@pytest.mark.parametrize(
    "statement",
    [
        "import fairmend",
        "import fairmend.spec.toml as toml",
        "from fairmend.base.errors import FairmendError",
        "from fairmend.base import text",
        "from ..fairmend import text",
        "from . import spec",
        "import pandas",
        "import numpy, onnx",
        "import fairmend_checker",
        "toml = __import__('pandas')",
        "import importlib\nimportlib.import_module('pandas')",
        "from importlib import import_module",
    ],
)
def test_a_planted_import_is_noticed(statement):
    source = (FOLDER / "check.py").read_text()
    body = statement.replace("\n", "\n    ")
    assert len(violations(f"{source}\n\ndef planted():\n    {body}\n")) == 1


def test_checking_loads_nothing_else(tmp_path):
    certificate, _ = case().save(tmp_path)
    case().spec.save(tmp_path / "spec.toml")
    (tmp_path / "spec.toml").write_text("# a comment\n" + (tmp_path / "spec.toml").read_text())
    for suffix in SUFFIXES:
        case().network.save(tmp_path / f"model.{suffix}")
    spec = str(tmp_path / "spec.toml") if sys.version_info >= (3, 11) else None
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import fairmend_check\n"
        f"for suffix in {SUFFIXES!r}:\n"
        f"    model = {str(tmp_path / 'model.')!r} + suffix\n"
        f"    result = fairmend_check.check({str(certificate)!r}, model, {spec!r}, run=False)\n"
        "    assert result.valid, result\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["fairmend_check", "numpy"]


def test_the_files_are_listed_in_reading_order():
    listed = (Path(__file__).parents[2] / "docs" / "kernel.md").read_text(encoding="utf-8")
    for path in FILES:
        if not path.name.startswith("_"):
            assert f"{path.name}`" in listed, f"list {path.name} in docs/kernel.md"
