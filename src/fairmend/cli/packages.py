"""The packages that fairmend requires according to its metadata, and how to install one that is missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement


_DEVELOPMENT_EXTRAS = ("dev", "docs")

_MODULES = {"mlflow-skinny": "mlflow", "scikit-learn": "sklearn", "python-flint": "flint"}


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
