"""What pyproject.toml and the constraints say fits together."""

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

import fairmend
from fairmend.spec.toml import parse_toml

ROOT = Path(__file__).parent.parent
PYPROJECT = parse_toml((ROOT / "pyproject.toml").read_text())
PROJECT, TOOLS_OF_PROJECT = PYPROJECT["project"], PYPROJECT["tool"]
TOOLS = ("dev", "docs")
# Extras that are tested with a module in the place of theirs, or by `make test-clusters` alone: no release is tested.
NOT_INSTALLED = ("mlflow", "dask", "ray")


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    return dict(re.match(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines if line and line[0] != "#")


def bounds(requirements):
    matched = (re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in requirements)
    return {match[1]: match[2] for match in matched if match}


def release(version):
    return re.sub(r"(\.0)+$", "", version)


NEEDED = bounds(PROJECT["dependencies"]) | {
    name: version
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra not in (*TOOLS, *NOT_INSTALLED)
    for name, version in bounds(requirements).items()
}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_the_oldest_release_that_is_tested_is_the_lower_bound(name):
    pinned = pins("constraints-oldest.txt")
    if name == "torch":  # no build for the CPU of the oldest one: the file says so
        assert pinned[name] == pins("constraints.txt")[name]
    else:
        assert release(pinned[name]) == release(NEEDED[name])


def test_every_dependency_is_pinned():
    tools = [r for extra in TOOLS for r in PROJECT["optional-dependencies"][extra]]
    assert set(NEEDED) | set(bounds(tools)) <= set(pins("constraints.txt"))


def test_no_requirement_is_unbounded_below():
    every = [*PROJECT["dependencies"], *(r for rs in PROJECT["optional-dependencies"].values() for r in rs)]
    assert {r for r in every if ">=" not in r and not r.startswith("fairmend[")} <= {"pandas-stubs"}


def test_types_are_shipped():
    assert (ROOT / "src" / "fairmend" / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == fairmend.__version__
    assert citation["license"] == PROJECT["license"]


def test_the_changelog_starts_with_this_version():
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == fairmend.__version__


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/**/*.yml")), ids=lambda path: path.name)
def test_workflows_and_templates_are_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_the_workflow_tests_every_python_that_is_claimed():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    claimed = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert tested == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_make_targets_of_the_workflows_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = {
        target
        for path in ROOT.glob(".github/workflows/*.yml")
        for target in re.findall(r"make ([\w-]+)", path.read_text())
    }
    assert used <= targets


def test_changelog_fragments_have_a_known_type():
    types = {entry["directory"] for entry in TOOLS_OF_PROJECT["towncrier"]["type"]}
    for path in (ROOT / "changelog.d").glob("*"):
        if path.name != "README.md":
            assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(types)})\.md", path.name), path.name
            assert path.read_text().strip()


MODULES = {"bs4": "beautifulsoup4", "flint": "python-flint", "sklearn": "scikit-learn", "yaml": "pyyaml"}


def imported(path):
    """Return the modules that a file cannot do without: those that it imports at the top."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Import):
            yield from (name.name.partition(".")[0] for name in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module.partition(".")[0]


def test_what_the_benchmarks_import_is_installed_with_the_extra_dev():
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    own = {"benchmarks", "fairmend", "fairmend_check", "support", *sys.stdlib_module_names}
    needed = {MODULES.get(name, name) for path in files for name in imported(path) if name not in own}
    assert needed <= set(NEEDED) | set(bounds(PROJECT["optional-dependencies"]["dev"]))
