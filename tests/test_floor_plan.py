"""The floor plan: imports run one way, and the checker stands alone."""

import shutil

import pytest

from support.import_graph import SRC, import_graph

# From the bottom up. A module imports from its own part or from parts above it in this list; parts that share a line do
# not import each other.
FLOORS = (
    ("errors", "arrays", "_version"),
    ("text", "progress", "atomic", "threads", "metrics"),
    ("tables",),
    ("network", "spec"),
    ("bounds", "milp"),
    ("prove",),
    ("audit",),
    ("search", "repair"),
    ("evaluate",),
    ("report",),
    ("datasets",),
    ("bench", "sklearn", "vnnlib"),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(FLOORS) for part in parts}

# The package itself offers the public names of every part, and says where each is; nothing but these asks the checker.
ROOT = "fairmend"
MAY_CALL_THE_CHECKER = {ROOT, "fairmend.cli.check"}
MAY_USE_THE_PUBLIC_NAMES = {"bench", "cli"}


def part_of(module: str) -> str:
    return module.split(".")[1]


def violations(graph: dict[str, set[str]]) -> list[str]:
    found = []
    for module, targets in sorted(graph.items()):
        found += [f"{module} imports {target}" for target in sorted(targets) if not _allowed(module, target)]
    return found


def _allowed(module: str, target: str) -> bool:
    if module.partition(".")[0] == "fairmend_check":
        return target.partition(".")[0] == "fairmend_check"
    if target.partition(".")[0] == "fairmend_check":
        return module in MAY_CALL_THE_CHECKER
    if module == ROOT:
        return True
    if target == ROOT:
        return part_of(module) in MAY_USE_THE_PUBLIC_NAMES
    mine, theirs = part_of(module), part_of(target)
    return mine == theirs or RANK[theirs] < RANK[mine]


def test_every_part_has_a_floor():
    parts = {part_of(module) for module in import_graph() if module.startswith("fairmend.")}
    assert parts == set(RANK)


def test_imports_run_one_way():
    assert violations(import_graph()) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("fairmend/bounds/linear.py", "from fairmend.repair.run import repair"),
        ("fairmend/report/page.py", "from fairmend.cli.console import console"),
        ("fairmend/network/network.py", "from fairmend.spec import Spec"),
        ("fairmend/evaluate/groups.py", "import fairmend.report.page"),
        ("fairmend/errors.py", "from fairmend import text"),
        ("fairmend/network/formats/keras/h5.py", "from fairmend_check.hdf5 import File"),
        ("fairmend_check/check.py", "from fairmend.errors import FairmendError"),
        ("fairmend_check/check.py", "import fairmend"),
    ],
)
def test_a_wrong_import_is_seen(module, statement, tmp_path):
    src = tmp_path / "src"
    shutil.copytree(SRC, src, ignore=shutil.ignore_patterns("__pycache__"))
    file = src / module
    file.write_text(f"{file.read_text()}\n\ndef planted():\n    {statement}\n")
    assert len(violations(import_graph(src))) == len(violations(import_graph())) + 1
