"""Verdicts on individual fairness: who is treated unequally, and who provably is not.

Light to import: `fairmend.certify` is also the public function, and PyTorch is only needed once it runs.
"""

from typing import Any

__all__ = ["CertifyReport", "Verdict", "Witness", "certify"]


def __getattr__(name: str) -> Any:
    if name == "certify":
        from fairmend.certify.run import certify

        return certify
    if name in ("CertifyReport", "Verdict", "Witness"):
        from fairmend.certify import verdict

        return getattr(verdict, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
