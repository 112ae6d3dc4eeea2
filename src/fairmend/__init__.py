"""fairmend: find, repair and prove individual fairness in neural networks that score people."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairmend._version import __version__
from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.auditing.result import AuditResult
    from fairmend.auditing.run import audit
    from fairmend.models import RunModel, load_model
    from fairmend.network import Network, load_network
    from fairmend.prove.certify import certify
    from fairmend.prove.deployment import DeploymentResult, verify_deployment
    from fairmend.prove.result import CertifyResult, Verdict
    from fairmend.prove.vnnlib import export_vnnlib
    from fairmend.quantifying.result import QuantifyResult
    from fairmend.quantifying.run import quantify
    from fairmend.repairing.options import HeadOptions, TrainingOptions
    from fairmend.repairing.result import RepairResult
    from fairmend.repairing.run import repair
    from fairmend.searching.result import SearchResult
    from fairmend.searching.run import search
    from fairmend.spec import Claim, Feature, Label, Link, Spec
    from fairmend_check import CheckResult, check

# Applications that use fairmend as a library decide where its log goes.
logging.getLogger("fairmend").addHandler(logging.NullHandler())

# Where each public name is defined. It is imported on first use, so that `import fairmend` and the command line start
# fast; what a caller gets is the function or class itself, with its own signature and documentation.
_HOME = {
    "AuditResult": "fairmend.auditing.result",
    "CertifyResult": "fairmend.prove.result",
    "CheckResult": "fairmend_check",
    "Claim": "fairmend.spec",
    "DeploymentResult": "fairmend.prove.deployment",
    "Feature": "fairmend.spec",
    "HeadOptions": "fairmend.repairing.options",
    "Label": "fairmend.spec",
    "Link": "fairmend.spec",
    "Network": "fairmend.network",
    "QuantifyResult": "fairmend.quantifying.result",
    "RepairResult": "fairmend.repairing.result",
    "RunModel": "fairmend.models",
    "SearchResult": "fairmend.searching.result",
    "Spec": "fairmend.spec",
    "TrainingOptions": "fairmend.repairing.options",
    "Verdict": "fairmend.prove.result",
    "audit": "fairmend.auditing.run",
    "certify": "fairmend.prove.certify",
    "check": "fairmend_check",
    "export_vnnlib": "fairmend.prove.vnnlib",
    "load_model": "fairmend.models",
    "load_network": "fairmend.network",
    "quantify": "fairmend.quantifying.run",
    "repair": "fairmend.repairing.run",
    "search": "fairmend.searching.run",
    "verify_deployment": "fairmend.prove.deployment",
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
    "HeadOptions",
    "Label",
    "Link",
    "Network",
    "QuantifyResult",
    "RepairResult",
    "RunModel",
    "SearchResult",
    "Spec",
    "TrainingOptions",
    "Verdict",
    "__version__",
    "audit",
    "certify",
    "check",
    "export_vnnlib",
    "load_model",
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
