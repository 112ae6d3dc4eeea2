"""The checker shares no code with the rest of fairmend."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fairmend_check

FOLDER = Path(fairmend_check.__file__).parent
ALLOWED = set(sys.stdlib_module_names) | {"numpy", "tomlkit"}
FORBIDDEN = {"__import__", "import_module", "exec", "eval", "compile"}


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_only_the_standard_library_numpy_and_tomlkit_are_imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports could reach beyond the checker"
            names = [node.module]
            if node.module in ("fairmend", "fairmend_check"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Name):
            assert node.id not in FORBIDDEN
        for name in names:
            own = name == "fairmend_check" or name.startswith("fairmend_check.")
            assert own or name.split(".")[0] in ALLOWED, f"{path.name} imports {name}"


def test_checking_loads_nothing_else(tmp_path):
    from support.checker_cases import case

    certificate, _ = case().save(tmp_path)
    for suffix in ("onnx", "pth", "safetensors", "h5", "keras", "nnet"):
        case().network.save(tmp_path / f"model.{suffix}")
    code = (
        "import sys, fairmend\n"
        "before = set(sys.modules)\n"
        "from fairmend_check import check\n"
        "for suffix in ('onnx', 'pth', 'safetensors', 'h5', 'keras', 'nnet'):\n"
        f"    assert check({str(certificate)!r}, {str(tmp_path)!r} + '/model.' + suffix).valid\n"
        "new = set(sys.modules) - before\n"
        "print(sorted(n for n in new if n.startswith('fairmend') and not n.startswith('fairmend_check')))\n"
        "print(sorted({n.split('.')[0] for n in new} & {'torch', 'onnx', 'safetensors', 'h5py', 'pandas', 'scipy'}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["[]", "[]"]
