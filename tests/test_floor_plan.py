"""The floor plan: imports run one way, and the checker stands alone. docs/architecture.md explains it."""

from pathlib import Path

import pytest
from import_graph import CHECKER, FLOOR, SRC, draw, import_graph, part_graph, part_of, without_detours

# The kernel decides what is proven, so parts that bound networks import it, and the errors that it raises. Nothing else
# calls the checker but these (quantify certifies what it confirms). The paper, workflows and the command line use
# public names, such as `fairmend.check`.
ROOT = "fairmend"
KERNEL = ("fairmend_check.kernel", "fairmend_check.errors")
LOWEST_OF_KERNEL = FLOOR["bounds"]
SHARES = "fairmend_check.shares"  # decides boxes of people and counts them, for quantify
MAY_CALL_THE_CHECKER = {
    ROOT,
    "fairmend.cli.check",
    "fairmend.workflows.dossier",
    "fairmend.workflows.outputs",
    "fairmend.models.export",  # whether a file that it wrote is read
    "fairmend.prove.deployment",
    "fairmend.quantifying.certificate",
}
MAY_USE_THE_PUBLIC_NAMES = {"paper", "workflows", "cli"}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "imports.svg"


def violations(graph: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {target}"
        for module, targets in sorted(graph.items())
        for target in sorted(targets)
        if not allowed(module, target)
    ]


def allowed(module: str, target: str) -> bool:
    mine, theirs = part_of(module), part_of(target)
    if mine == CHECKER:
        return theirs == CHECKER
    if theirs == CHECKER:
        if target.startswith(SHARES) and mine == "quantifying":
            return True
        return module in MAY_CALL_THE_CHECKER or (target.startswith(KERNEL) and FLOOR[mine] >= LOWEST_OF_KERNEL)
    if mine == ROOT:
        return True
    if theirs == ROOT:
        return mine in MAY_USE_THE_PUBLIC_NAMES
    return mine == theirs or FLOOR[theirs] < FLOOR[mine]


@pytest.fixture(scope="module")
def graph():
    return import_graph()


def test_every_part_has_a_floor(graph):
    assert {part_of(module) for module in graph} == {*FLOOR, ROOT, CHECKER}


def test_imports_run_one_way(graph):
    assert violations(graph) == []


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("fairmend/bounds/linear.py", "from fairmend.repairing.run import repair"),
        ("fairmend/report/page.py", "from fairmend.cli.console import console"),
        ("fairmend/network/network.py", "from fairmend.spec import Spec"),
        ("fairmend/evaluate/groups.py", "import fairmend.report.page"),
        ("fairmend/base/text.py", "from fairmend.network import network"),
        ("fairmend/network/formats/keras/h5.py", "from fairmend_check import check"),
        ("fairmend/network/network.py", "from fairmend_check.kernel.model import Model"),
        ("fairmend/prove/certify.py", "from fairmend_check.readers.read_model import read_model"),
        ("fairmend_check/check.py", "from fairmend.base.errors import FairmendError"),
        ("fairmend_check/check.py", "import fairmend"),
    ],
)
def test_a_wrong_import_is_seen(module, statement, tmp_path):
    """The module is as it is; of the others the names are enough."""
    for path in SRC.rglob("*.py"):
        file = tmp_path / path.relative_to(SRC)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    source = (SRC / module).read_text(encoding="utf-8")
    (tmp_path / module).write_text(f"{source}\n\ndef planted():\n    {statement}\n", encoding="utf-8")
    assert len(violations(import_graph(tmp_path))) == 1


def test_a_relative_import_is_refused(tmp_path):
    package = tmp_path / "fairmend"
    package.mkdir()
    (package / "text.py").write_text("from . import errors\n")
    with pytest.raises(ValueError, match="relative import"):
        import_graph(tmp_path)


def test_detours_are_left_out_of_the_picture():
    assert without_detours({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_the_picture_shows_the_code_as_it_is(graph):
    expected = draw(part_graph(graph))
    assert PICTURE.read_text() == expected, "run: python docs/import_graph.py docs/images/imports.svg"
