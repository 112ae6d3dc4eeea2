"""`fairmend doctor`: check the installation.

This module imports only the standard library and click at the top: any other package may be the one that is missing.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.cli.config import check_config
from fairmend.cli.group import BareCommand, config_in_use, echo_line
from fairmend.cli.options import common_options, json_option

if TYPE_CHECKING:
    from packaging.requirements import Requirement


READY, NOT_READY = 0, 2

_SOLVERS = ("highs", "scip", "gurobi")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_LICENCE_FREE = 2000  # variables that Gurobi solves without a licence
_FOR_CHECK = ("click", "numpy")  # all that `fairmend check` needs


_DEVELOPMENT_EXTRAS = ("dev", "docs")

_MODULES = {"mlflow-skinny": "mlflow", "scikit-learn": "sklearn", "python-flint": "flint"}


@dataclass(frozen=True)
class PackageStatus:
    """A required package: the version that is needed and the one that is found; `problem` is empty if it works."""

    name: str
    needed: str
    found: str | None
    extra: str | None
    problem: str = ""


@dataclass(frozen=True)
class RequiredPackage:
    """A requirement of fairmend; `extra` is None if fairmend always needs it."""

    requirement: Requirement
    extra: str | None

    @property
    def name(self) -> str:
        """The name of the package."""
        return self.requirement.name

    @property
    def needed(self) -> str:
        """The oldest version that works."""
        return next((s.version for s in self.requirement.specifier if s.operator == ">="), "0")

    @property
    def install_command(self) -> str:
        """The command that installs it."""
        if self.extra is not None:
            return f"pip install 'fairmend[{self.extra}]'"
        return f"pip install '{self.name}{self.requirement.specifier}'"


def required_packages() -> list[RequiredPackage]:
    """Return what fairmend and its extras require on this Python, without the extras for development.

    Raise `importlib.metadata.PackageNotFoundError` if fairmend is not installed.
    """
    from packaging.requirements import Requirement

    distribution = metadata.distribution("fairmend")
    extras = distribution.metadata.get_all("Provides-Extra") or []
    found: dict[str, RequiredPackage] = {}
    for text in metadata.requires("fairmend") or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if requirement.name == "fairmend":
            continue
        if marker is None or marker.evaluate({"extra": ""}):
            found[requirement.name] = RequiredPackage(requirement, None)
            continue
        extra = next((e for e in extras if e not in _DEVELOPMENT_EXTRAS and marker.evaluate({"extra": e})), None)
        if extra is not None:
            found.setdefault(requirement.name, RequiredPackage(requirement, extra))
    return sorted(found.values(), key=lambda package: (package.extra or "", package.name))


def module_of(package: str) -> str:
    """Return the name under which a package is imported."""
    return _MODULES.get(package, package.replace("-", "_"))


def how_to_install(module: str) -> str | None:
    """Say which package has a module that cannot be imported and how to install it; None for modules of fairmend."""
    top = module.partition(".")[0]
    if top in ("", "fairmend", "fairmend_check"):
        return None
    try:
        package = next((p for p in required_packages() if module_of(p.name) == top), None)
    except (metadata.PackageNotFoundError, ModuleNotFoundError):  # fairmend runs from its source, or without packaging
        package = None
    if package is None:
        return f'the module "{top}", which is not installed. Run pip install fairmend'
    if package.extra is not None:
        return f'the package "{package.name}" of the extra "{package.extra}". Run {package.install_command}'
    doctor = "fairmend doctor lists everything that is missing"
    return f'the package "{package.name}", which is not installed. Run {package.install_command}; {doctor}'


@click.command("doctor", cls=BareCommand)
@json_option
@common_options
@click.pass_context
def command(ctx: click.Context, /, json_output: bool) -> None:
    """Check the installation.

    Shows the versions of the required packages, the extras, the solvers and their licences, threads, the GPU and
    fairmend.toml. Exits with 0 if fairmend is ready to use, 2 if a required package is missing or too old.
    """
    commands, config = ctx.find_root().command, config_in_use(ctx)
    assert isinstance(commands, click.Group)
    problems: list[str] = []
    packages = _check_packages(problems)
    document: dict[str, Any] = {
        "fairmend": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {p.name: asdict(p) for p in packages},
        "solvers": {name: _check_solver(name) for name in _SOLVERS},
        "threads": _threads(),
        **_gpu(),
        "extras_missing": {
            extra: f"pip install 'fairmend[{extra}]'"
            for extra in sorted({p.extra for p in packages if p.extra and p.problem})
        },
        "browser": next((found for found in map(shutil.which, _BROWSERS) if found), None),
        "config": None if config is None else str(config),
    }
    broken = [p for p in packages if p.problem and p.extra is None]
    problems += [f"{p.name}: {p.problem}" for p in broken]
    if document["solvers"]["highs"] != "works" and not any(p.name in ("highspy", "numpy") for p in broken):
        problems.append(f"the default solver, highs: {document['solvers']['highs']}")
    if config is not None:
        try:
            check_config(config, commands)
        except FairmendError as error:
            problems.append(str(error))
        except ModuleNotFoundError as error:
            problems.append(f"{config}: not checked, because the package {error.name} is missing")
    document |= {"problems": problems, "can_work": not problems}
    if json_output:
        click.echo(json.dumps(document, indent=2))
    else:
        _show(document, packages)
        _show_conclusion(broken, problems)
    ctx.exit(NOT_READY if problems else READY)


def _check_packages(problems: list[str]) -> list[PackageStatus]:
    try:
        return [_check_package(package) for package in required_packages()]
    except metadata.PackageNotFoundError:
        problems.append("fairmend is on the path but not installed; install it with pip")
    except ModuleNotFoundError as error:
        problems.append(f"{error.name}: not installed; pip install {error.name}")
    return []


def _check_package(package: RequiredPackage) -> PackageStatus:
    name, needed, extra = package.name, package.needed, package.extra
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return PackageStatus(name, needed, None, extra, f"not installed; {package.install_command}")
    if not package.requirement.specifier.contains(found, prereleases=True):
        problem = f"{found} is too old, {needed} is needed; {package.install_command}"
        return PackageStatus(name, needed, found, extra, problem)
    try:
        importlib.import_module(module_of(name))
    except Exception as error:  # a broken installation can raise anything
        return PackageStatus(name, needed, found, extra, f"{found} cannot be imported ({error}); reinstall it")
    return PackageStatus(name, needed, found, extra)


def _check_solver(name: str) -> str:
    """Return "works", or why the solver does not; name a limit on the size."""
    try:
        from fairmend.milp import available_solvers

        if name not in available_solvers():
            return "not installed"
        if not _solves(name, 2):
            return "solves a small problem incorrectly"
        try:
            return "works" if name != "gurobi" or _solves(name, _LICENCE_FREE + 100) else "solves a problem incorrectly"
        except FairmendError:
            return f"works without a licence, up to {_LICENCE_FREE:,} variables"
    except Exception as error:  # a solver that cannot start can raise anything
        return f"does not work: {error}"


def _solves(name: str, variables: int) -> bool:
    """Return whether the solver finds the largest integers up to 2.5."""
    from fairmend.milp import MilpBuilder, get_solver

    builder = MilpBuilder()
    builder.add_variables(variables, lower=0.0, upper=2.5, cost=-1.0, integer=True)
    solution = get_solver(name).solve(builder.build(), threads=1)
    return solution.x is not None and all(abs(value - 2) < 1e-6 for value in solution.x.tolist())


def _threads() -> dict[str, Any]:
    set_by_user = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ}
    torch = sys.modules.get("torch")
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "torch": None if torch is None else torch.get_num_threads(),
        "environment": set_by_user,
    }


def _gpu() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {"gpu": None, "no_gpu": "PyTorch is not loaded"}
    from fairmend.base.gpu import count_gpus, why_no_gpu

    found = count_gpus()
    return {"gpu": torch.cuda.get_device_name(0) if found else None, "no_gpu": None if found else why_no_gpu(0)}


def _show(document: dict[str, Any], packages: list[PackageStatus]) -> None:
    echo_line(f"fairmend {document['fairmend']}, Python {document['python']}, {document['platform']}")
    for package in packages:
        good = not package.problem
        colour = "green" if good else "red" if package.extra is None else "yellow"
        click.secho(f"  {'✓' if good else '✗'} ", fg=colour, nl=False)
        needed = f" (at least {package.needed})" if good else ""
        extra = f", for the extra {package.extra}" if package.extra else ""
        echo_line(f"{package.name} {package.problem or package.found}{needed}{extra}")
    solvers = [f"{name} {status}" for name, status in document["solvers"].items()]
    echo_line(f"Solvers: {'; '.join(solvers)}")
    threads = document["threads"]
    used = "is not loaded" if threads["torch"] is None else f"uses {_counted(threads['torch'], 'thread')}"
    echo_line(f"CPUs: {threads['cpus']} (PyTorch {used})")
    use = (
        "for --device cuda or auto of audit, certify, quantify, repair and search"
        if document["gpu"]
        else f"fairmend computes on the CPU: {document['no_gpu']}"
    )
    echo_line(f"GPU: {document['gpu'] or 'none'} ({use})")
    echo_line(f"Browser for screenshots of a report: {document['browser'] or 'none (optional)'}")
    echo_line(f"fairmend.toml: {document['config'] or 'none in this folder or a parent folder'}")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _show_conclusion(broken: list[PackageStatus], problems: list[str]) -> None:
    for problem in problems:
        echo_line(f"Problem: {problem}", fg="red")
    if not problems:
        click.secho("fairmend is ready to use.", bold=True)
    elif len(broken) == len(problems) and not any(p.name in _FOR_CHECK for p in broken):
        missing = ", ".join(p.name for p in broken)
        click.secho(
            f"Only fairmend check is ready to use. The other commands need {missing}: pip install fairmend", bold=True
        )
    else:
        click.secho("fairmend is not ready to use: solve the problems above.", bold=True)
