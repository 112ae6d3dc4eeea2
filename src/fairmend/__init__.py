"""fairmend: find, repair and prove individual fairness in neural networks that score people."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

# The package of the same name must be imported before the function takes its name here: a first import later on
# would put the module back.
import fairmend.audit as _audit_package
import fairmend.certify as _certify_package
import fairmend.repair as _repair_package
import fairmend.search as _search_package
from fairmend._version import __version__
from fairmend.api import audit, certify, export_vnnlib, load_network, repair, search
from fairmend.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.audit.report import AuditReport
    from fairmend.certify.verdict import CertifyReport, Verdict
    from fairmend.checker import CheckReport, check
    from fairmend.network import Network
    from fairmend.repair.result import RepairResult
    from fairmend.search.report import SearchReport
    from fairmend.spec import Feature, Label, Spec

del _audit_package, _certify_package, _repair_package, _search_package

# Who uses fairmend as a library decides where its log goes.
logging.getLogger("fairmend").addHandler(logging.NullHandler())

_LAZY = {
    "AuditReport": "fairmend.audit.report",
    "CertifyReport": "fairmend.certify.verdict",
    "CheckReport": "fairmend.checker",
    "Feature": "fairmend.spec",
    "Label": "fairmend.spec",
    "Network": "fairmend.network",
    "RepairResult": "fairmend.repair.result",
    "SearchReport": "fairmend.search.report",
    "Spec": "fairmend.spec",
    "Verdict": "fairmend.certify.verdict",
    "check": "fairmend.checker",
}

__all__ = [
    "AuditReport",
    "CertifyReport",
    "CheckReport",
    "FairmendError",
    "Feature",
    "Label",
    "Network",
    "RepairResult",
    "SearchReport",
    "Spec",
    "Verdict",
    "__version__",
    "audit",
    "certify",
    "check",
    "export_vnnlib",
    "load_network",
    "repair",
    "search",
]


def __getattr__(name: str) -> Any:
    """Import what needs pandas or PyTorch when it is first asked for, so that the command line starts fast."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fairmend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
