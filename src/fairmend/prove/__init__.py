"""Verdicts on individual fairness: who is treated unequally, and who provably is not.

Light to import: `fairmend.prove` is also the public function, and PyTorch is only needed once it runs.
"""

from typing import Any

__all__ = ["CertifyResult", "Verdict", "Witness", "certify"]


def __getattr__(name: str) -> Any:
    if name == "certify":
        from fairmend.prove.certify import certify

        return certify
    if name in ("CertifyResult", "Verdict", "Witness"):
        from fairmend.prove import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
