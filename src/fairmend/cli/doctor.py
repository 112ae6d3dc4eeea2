"""`fairmend doctor`: is everything here that fairmend needs, and what of the rest?

Nothing is imported above that may be what is missing.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from fairmend._version import __version__
from fairmend.cli.config import check_config
from fairmend.errors import FairmendError

CAN_WORK, CANNOT_WORK = 0, 2

_MODULES = {"scikit-learn": "sklearn", "python-flint": "flint"}
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(?:\(?>=\s*([0-9.]+))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_SOLVERS = ("highs", "scip", "gurobi")
_TOOLS = ("dev", "docs")  # extras of those who work on fairmend, not with it
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_LICENCE_FREE = 2000  # variables that Gurobi solves without a licence of one's own


@dataclass(frozen=True)
class Package:
    """A dependency: the version that is needed and the one that is there; ``problem`` is empty where it will do."""

    name: str
    needed: str
    found: str | None
    extra: str | None
    problem: str = ""


def run_doctor(commands: click.Group, config: Path | None = None, *, json_output: bool = False) -> int:
    """Look, say what was found, and return the exit code."""
    problems: list[str] = []
    packages = _packages(problems)
    document: dict[str, Any] = {
        "fairmend": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {p.name: asdict(p) for p in packages},
        "solvers": {name: _solver(name) for name in _SOLVERS},
        "threads": _threads(),
        "gpu": _gpu(),
        "extras_missing": {
            extra: f"pip install 'fairmend[{extra}]'"
            for extra in sorted({p.extra for p in packages if p.extra and p.problem} - set(_TOOLS))
        },
        "browser": next((found for found in map(shutil.which, _BROWSERS) if found), None),
        "config": None if config is None else str(config),
    }
    problems += [f"{p.name}: {p.problem}" for p in packages if p.problem and p.extra is None]
    if document["solvers"]["highs"] != "works":
        problems.append(f"the default solver, highs: {document['solvers']['highs']}")
    if config is not None:
        try:
            check_config(config, commands)
        except FairmendError as error:
            problems.append(str(error))
    document |= {"problems": problems, "can_work": not problems}
    if json_output:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _show(document, packages)
    return CANNOT_WORK if problems else CAN_WORK


def _packages(problems: list[str]) -> list[Package]:
    """Every requirement that the installed package states, those of extras among them."""
    try:
        stated = metadata.requires("fairmend") or []
    except metadata.PackageNotFoundError:
        problems.append("fairmend itself is not installed, only on the path; pip install it")
        return []
    packages = {}
    for line in stated:
        match, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        if match is None or match[1] == "fairmend" or (extra and extra[1] in _TOOLS):
            continue
        packages[match[1]] = _package(match[1], match[2] or "0", extra[1] if extra else None)
    return sorted(packages.values(), key=lambda p: (p.extra or "", p.name))


def _package(name: str, needed: str, extra: str | None) -> Package:
    fix = f"pip install 'fairmend[{extra}]'" if extra else f"pip install '{name}>={needed}'"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name, needed, None, extra, f"not installed; {fix}")
    if _numbers(found) < _numbers(needed):
        return Package(name, needed, found, extra, f"{found} is too old, {needed} is needed; {fix}")
    try:
        importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
    except Exception as error:  # whatever a broken installation raises
        return Package(name, needed, found, extra, f"{found} cannot be imported ({error}); reinstall it")
    return Package(name, needed, found, extra)


def _numbers(version: str) -> tuple[int, ...]:
    """The release as numbers without closing zeros: 2.13.0+cpu is (2, 13)."""
    numbers = [int(part) for part in re.findall(r"\d+", version.split("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _solver(name: str) -> str:
    """ "works", or why it does not; a limit on sizes is named."""
    try:
        from fairmend.milp import available_solvers

        if name not in available_solvers():
            return "not installed"
        if not _solves(name, 2):
            return "gives a wrong answer to a small problem"
        try:
            return "works" if name != "gurobi" or _solves(name, _LICENCE_FREE + 100) else "gives a wrong answer"
        except FairmendError:
            return f"works up to {_LICENCE_FREE:,} variables: no licence of one's own"
    except Exception as error:  # a solver that cannot even start says so in many ways
        return f"does not work: {error}"


def _solves(name: str, variables: int) -> bool:
    """Whether it finds the largest whole numbers up to 2.5."""
    from fairmend.milp import MilpBuilder, get_solver

    builder = MilpBuilder()
    builder.add_variables(variables, lower=0.0, upper=2.5, cost=-1.0, integer=True)
    solution = get_solver(name).solve(builder.build(), threads=1)
    return solution.x is not None and all(abs(value - 2) < 1e-6 for value in solution.x.tolist())


def _threads() -> dict[str, Any]:
    set_by_hand = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    torch = sys.modules.get("torch")
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "torch": None if torch is None else torch.get_num_threads(),
        "environment": set_by_hand,
    }


def _gpu() -> str | None:
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None


def _show(document: dict[str, Any], packages: list[Package]) -> None:
    click.echo(f"fairmend {document['fairmend']}, Python {document['python']}, {document['platform']}")
    for package in packages:
        good = not package.problem
        colour = "green" if good else "red" if package.extra is None else "yellow"
        click.secho(f"  {'✓' if good else '✗'} ", fg=colour, nl=False)
        needed = f" (at least {package.needed})" if good else ""
        extra = f", for the extra {package.extra}" if package.extra else ""
        click.echo(f"{package.name} {package.problem or package.found}{needed}{extra}")
    solvers = [f"{name} {words}" for name, words in document["solvers"].items()]
    click.echo(f"Solvers: {'; '.join(solvers)}")
    threads = document["threads"]
    click.echo(f"Processors: {threads['cpus']}; PyTorch uses {threads['torch']} threads")
    click.echo(f"GPU: {document['gpu'] or 'none'} (fairmend computes on the processor)")
    click.echo(f"Browser for pictures of a report: {document['browser'] or 'none, and none is needed'}")
    click.echo(f"fairmend.toml: {document['config'] or 'none in this folder or above'}")
    for problem in document["problems"]:
        click.secho(f"Problem: {problem}", fg="red")
    click.secho("fairmend cannot work here." if document["problems"] else "fairmend can work here.", bold=True)
