"""What pyproject.toml and the constraints say fits together."""

import re
from pathlib import Path

import pytest
import tomlkit

ROOT = Path(__file__).parent.parent
PROJECT = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()["project"]
TOOLS = ("dev", "docs")


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
    if extra not in TOOLS
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
