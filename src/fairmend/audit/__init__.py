"""Audits: how many people are treated unequally (`run`), by looking at their neighbours (`look`, `scores`).

Light to import: `fairmend.audit` is also the public function, and what it needs comes once it runs.
"""

from typing import Any

__all__ = ["AuditPair", "AuditResult", "audit"]


def __getattr__(name: str) -> Any:
    if name == "audit":
        from fairmend.audit.run import audit

        return audit
    if name in ("AuditPair", "AuditResult"):
        from fairmend.audit import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
