"""fairmend: find, repair and prove individual fairness in neural networks that score people."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fairmend._version import __version__
from fairmend.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.audit.result import AuditResult
    from fairmend.audit.run import audit
    from fairmend.deployment import DeploymentResult, verify_deployment
    from fairmend.network import Network, load_network
    from fairmend.prove.certify import certify
    from fairmend.prove.result import CertifyResult, Verdict
    from fairmend.quantify.result import QuantifyResult
    from fairmend.quantify.run import quantify
    from fairmend.repair.result import RepairResult
    from fairmend.repair.run import repair
    from fairmend.search.result import SearchResult
    from fairmend.search.run import search
    from fairmend.spec import Claim, Feature, Label, Link, Spec
    from fairmend.vnnlib import export_vnnlib
    from fairmend_check import CheckResult, check

# Applications that use fairmend as a library decide where its log goes.
logging.getLogger("fairmend").addHandler(logging.NullHandler())

# Where each public name is defined. It is imported on first use, so that `import fairmend` and the command line start
# fast; what a caller gets is the function or class itself, with its own signature and documentation.
_HOME = {
    "AuditResult": "fairmend.audit.result",
    "CertifyResult": "fairmend.prove.result",
    "CheckResult": "fairmend_check",
    "Claim": "fairmend.spec",
    "DeploymentResult": "fairmend.deployment",
    "Feature": "fairmend.spec",
    "Label": "fairmend.spec",
    "Link": "fairmend.spec",
    "Network": "fairmend.network",
    "QuantifyResult": "fairmend.quantify.result",
    "RepairResult": "fairmend.repair.result",
    "SearchResult": "fairmend.search.result",
    "Spec": "fairmend.spec",
    "Verdict": "fairmend.prove.result",
    "audit": "fairmend.audit.run",
    "certify": "fairmend.prove.certify",
    "check": "fairmend_check",
    "export_vnnlib": "fairmend.vnnlib",
    "load_network": "fairmend.network",
    "quantify": "fairmend.quantify.run",
    "repair": "fairmend.repair.run",
    "search": "fairmend.search.run",
    "verify_deployment": "fairmend.deployment",
}

# Further names of the classes of results, for annotations.
_ALIASES = {
    "AuditReport": "AuditResult",
    "CertifyReport": "CertifyResult",
    "CheckReport": "CheckResult",
    "QuantifyReport": "QuantifyResult",
    "SearchReport": "SearchResult",
}

__all__ = [
    "AuditResult",
    "CertifyResult",
    "CheckResult",
    "Claim",
    "DeploymentResult",
    "FairmendError",
    "Feature",
    "Label",
    "Link",
    "Network",
    "QuantifyResult",
    "RepairResult",
    "SearchResult",
    "Spec",
    "Verdict",
    "__version__",
    "audit",
    "certify",
    "check",
    "export_vnnlib",
    "load_network",
    "quantify",
    "repair",
    "search",
    "verify_deployment",
]


def __getattr__(name: str) -> Any:
    home = _ALIASES.get(name, name)
    if home in _HOME:
        return getattr(import_module(_HOME[home]), home)
    raise AttributeError(f"module 'fairmend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Keeps `fairmend.audit`, `fairmend.quantify`, `fairmend.repair` and `fairmend.search` the public functions.

    There are packages of the same names, and importing a submodule sets an attribute on its parent.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
