"""Text from files, made safe to print."""

from __future__ import annotations

# Characters that count as printable and show nothing: fillers, a blank, and selectors of variants.
_BLANK = {0x034F, 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


def printable(text: str) -> str:
    """Escape control characters: a name in a certificate must not move the cursor and draw another verdict.

    Letters of every script stay. Line breaks, bidirectional overrides and invisible characters are escaped too.
    """
    safe = (c if c.isprintable() and ord(c) not in _BLANK else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(safe)
