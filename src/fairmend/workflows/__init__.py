"""From files to a result: read model, spec and data once, check them, compute, and write what a command leaves behind.

Each function does what a command of the same name does, without printing, and returns the result, the document that
--json prints, the files that were written, and warnings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmend.workflows.audit import audit_files
    from fairmend.workflows.certify import certify_files
    from fairmend.workflows.export import ExportedFiles, export_files
    from fairmend.workflows.inputs import InputOptions, WorkerOptions
    from fairmend.workflows.outputs import FilesResult
    from fairmend.workflows.quantify import quantify_files
    from fairmend.workflows.repair import RepairedFiles, repair_files
    from fairmend.workflows.search import search_files
    from fairmend.workflows.spec import CheckedSpec, DraftedSpec, check_spec_file, draft_pipeline_spec, draft_spec_file

# Where each name is defined. It is imported on first use: a command loads no more than it needs.
_HOME = {
    "CheckedSpec": "spec",
    "DraftedSpec": "spec",
    "ExportedFiles": "export",
    "FilesResult": "outputs",
    "InputOptions": "inputs",
    "RepairedFiles": "repair",
    "WorkerOptions": "inputs",
    "audit_files": "audit",
    "certify_files": "certify",
    "check_spec_file": "spec",
    "draft_pipeline_spec": "spec",
    "draft_spec_file": "spec",
    "export_files": "export",
    "quantify_files": "quantify",
    "repair_files": "repair",
    "search_files": "search",
}

__all__ = [
    "CheckedSpec",
    "DraftedSpec",
    "ExportedFiles",
    "FilesResult",
    "InputOptions",
    "RepairedFiles",
    "WorkerOptions",
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


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fairmend.workflows.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
