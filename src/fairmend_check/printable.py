"""Text from files, made safe to print, and bounds, rounded to the safe side."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

# Characters that count as printable and show nothing: fillers, a blank, and selectors of variants.
_BLANK = {0x034F, 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


def printable(text: str) -> str:
    """Escape control characters: a name in a certificate must not move the cursor and draw another verdict.

    Letters of every script stay. Line breaks, bidirectional overrides and invisible characters are escaped too.
    """
    safe = (c if c.isprintable() and ord(c) not in _BLANK else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(safe)


def at_least(number: float) -> str:
    """Return a lower bound with three digits, rounded down: what is printed must not say more than is proven."""
    return f"{float(Context(prec=3, rounding=ROUND_FLOOR).plus(Decimal(number))):.3g}"


def at_most(number: float) -> str:
    """Return an upper bound with three digits, rounded up."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(number))):.3g}"
