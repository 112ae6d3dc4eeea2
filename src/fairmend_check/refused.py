"""Why a certificate is refused."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 (it is an answer, not an error)
    """What is wrong and where; the text becomes a reason of the report."""
