"""The checker: says whether a certificate holds for a model file, and trusts nothing else of fairmend.

It shares no code with the rest of the package: its own readers, its own arithmetic, its own neighbourhoods, written
from docs/certificate.md. Only the standard library, NumPy and tomlkit (for specs) are imported.
"""

from fairmend_check.check import check
from fairmend_check.report import CheckResult

__all__ = ["CheckResult", "check"]
