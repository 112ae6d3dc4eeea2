"""From files to a result: read model, spec and data once, check them, compute, and write what a command leaves behind.

Each function does what a command of the same name does, without printing, and returns the result, the document that
--json prints, the files that were written, and warnings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmend.workflows.audit import AuditedFiles, audit_files
    from fairmend.workflows.certify import CertifiedFiles, certify_files
    from fairmend.workflows.export import ExportedFiles, export_files
    from fairmend.workflows.quantify import QuantifiedFiles, quantify_files
    from fairmend.workflows.repair import RepairedFiles, repair_files
    from fairmend.workflows.search import SearchedFiles, search_files
    from fairmend.workflows.spec import CheckedSpec, DraftedSpec, check_spec_file, draft_pipeline_spec, draft_spec_file

__all__ = [
    "AuditedFiles",
    "CertifiedFiles",
    "CheckedSpec",
    "DraftedSpec",
    "ExportedFiles",
    "QuantifiedFiles",
    "RepairedFiles",
    "SearchedFiles",
    "audit_files",
    "certify_files",
    "check_spec_file",
    "draft_pipeline_spec",
    "draft_spec_file",
    "export_files",
    "quantify_files",
    "repair_files",
    "search_files",
]

# Where each name is defined. It is imported on first use: a command loads no more than it needs.
_HOME = {
    "audit": ("AuditedFiles", "audit_files"),
    "certify": ("CertifiedFiles", "certify_files"),
    "export": ("ExportedFiles", "export_files"),
    "quantify": ("QuantifiedFiles", "quantify_files"),
    "repair": ("RepairedFiles", "repair_files"),
    "search": ("SearchedFiles", "search_files"),
    "spec": ("CheckedSpec", "DraftedSpec", "check_spec_file", "draft_pipeline_spec", "draft_spec_file"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"fairmend.workflows.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
