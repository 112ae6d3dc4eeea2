"""Text from files, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape control characters: a name in a certificate must not move the cursor and draw another verdict.

    Letters of every script stay. Line breaks, bidirectional overrides and invisible characters are escaped too.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
