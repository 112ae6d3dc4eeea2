"""fairmend_check: says whether a fairmend certificate holds for a model file.

The checker is a program of its own. It needs NumPy and the standard library, imports nothing of fairmend, and trusts
neither the certificate nor the model file. It is written from docs/certificate.md, which defines what it checks; the
readers, the arithmetic and the neighbourhoods are its own. To audit it, read docs/kernel.md, which names all of its
files in order.
"""

from __future__ import annotations

from fairmend_check._version import __version__
from fairmend_check.check import check
from fairmend_check.result import CheckResult

__all__ = ["CheckResult", "__version__", "check"]
