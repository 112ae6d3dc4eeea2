"""Numbers and names as people write them; nothing here is HTML, and nothing is escaped yet."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 80
MOST_NAMES = 8
_NBSP = "\N{NO-BREAK SPACE}"


def short(text: object, longest: int = LONGEST) -> str:
    """Return a text, cut where it is very long."""
    words = str(text)
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def listed(names: Sequence[str], joint: str = "and") -> str:
    """Return a, b and c; of very many the first few, and how many more there are."""
    words = [short(name) for name in names[:MOST_NAMES]]
    if len(names) > MOST_NAMES:
        words.append(f"{len(names) - MOST_NAMES} others")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def percent(rate: float | None, digits: int = 1) -> str:
    """Return a share as 12.5 %; never 0 or 100 % where it is not; a dash where there is none."""
    if rate is None:
        return "–"
    if rate in (0, 1):
        return f"{100 * rate:.0f}{_NBSP}%"
    least = 10.0**-digits
    if 0 < 100 * rate < least / 2:
        return f"< {least:g}{_NBSP}%"
    if 100 - least / 2 <= 100 * rate < 100:
        return f"> {100 - least:g}{_NBSP}%"
    return f"{100 * rate:.{digits}f}{_NBSP}%"


def number(value: float | None) -> str:
    """Return a number with four digits; a dash where there is none."""
    return "–" if value is None else f"{value:.4g}".replace("-", "−")


def score(value: float) -> str:
    """Return a score with its sign."""
    return f"{value:+.3g}".replace("-", "−")


def count(value: int) -> str:
    """Return a whole number with separators."""
    return f"{value:,}"


def plain_value(value: object) -> str:
    """Return one of the user's values."""
    return f"{value:.6g}" if isinstance(value, float) else short(value)


def points(before: float | None, after: float | None) -> str:
    """Return by how many percentage points a share changed."""
    if before is None or after is None:
        return ""
    change = 100 * (after - before)
    return "unchanged" if abs(change) < 0.05 else f"{change:+.1f} points".replace("-", "−")


def wider(before: float | None, after: float | None) -> bool:
    """Return whether a gap grew by more than half a percentage point."""
    return before is not None and after is not None and after - before > 0.005
