"""Format values, shares and lists: the same text in the terminal, in JSON sentences and in the report.

Names and values come from files, so they are made printable. Only the tables for notebooks, at the end, are HTML, and
they escape what they hold.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from numbers import Integral, Real

LONGEST = 80
"""Characters of a name or value before `short` cuts it."""

MOST_NAMES = 8
"""Names that `listed` writes out before it counts the others."""

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Printable characters that show nothing: fillers, a blank, and selectors of variants.
_BLANK = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
    0x16FE4, 0x1D159, *range(0xE0100, 0xE01F0),
}  # fmt: skip
"""Categories of Unicode: control, format (such as bidirectional overrides), surrogate, and ends of lines."""

_NBSP = "\N{NO-BREAK SPACE}"  # keeps a number and its unit on one line
_MINUS = "\N{MINUS SIGN}"
_NONE = "\N{EN DASH}"


# Text from files


_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# Where a spreadsheet may start to read a formula: at the start, and after a sign at which some of them split a cell.
_FORMULA = re.compile(r"""(^(?=["' ]*[=+\-@\t\r\n＝＋－＠])|[;\t\r\n](?=["'\s]*[=+\-@＝＋－＠]))""")


def spreadsheet_text(text: str) -> str:
    """Return a text for a cell of a CSV file: with an apostrophe where a spreadsheet would start to run a formula.

    Different texts stay different, but for blanks around them: one that has such an apostrophe already gets another. A
    number stays as it is.
    """
    if _PLAIN_NUMBER.fullmatch(text) or not _FORMULA.search(text):
        return text
    return _FORMULA.sub(r"\1'", text.strip())


def condition_text(condition: str) -> str:
    """Return the condition of a result for the end of its repr; nothing if there is none."""
    return f". Condition: {condition}" if condition else ""


def printable(text: object, keep: str = "") -> str:
    """Return text with control characters, line breaks, bidirectional overrides and invisible characters escaped.

    A name in a file must not move the cursor, end a line or turn the order of the letters around. Letters of every
    script stay as they are, and so do the characters in `keep`.
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    odd = {char for char in set(whole) - set(keep) if unicodedata.category(char) in _INVISIBLE or ord(char) in _BLANK}
    return whole.translate({ord(char): char.encode("unicode_escape").decode("ascii") for char in odd})


# Values


def as_text(value: object) -> str:
    """Return the text by which values are compared: 1 and 1.0 are "1", True is "True"."""
    if isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer():
        return str(int(float(value)))
    return str(value).strip()


def shown(value: object, most: int = 60) -> str:
    """Return a value of the user's data for a message: one short line, with control characters escaped."""
    text = printable(str(value)[: most + 1])
    return text if len(text) <= most else f"{text[:most]}…"


def short(text: object, longest: int = LONGEST) -> str:
    """Return a printable text with at most `longest` characters; an ellipsis marks the cut."""
    whole = printable(str(text)[: longest + 1])
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


def plain_value(value: object) -> str:
    """Return one of the user's values, shortened; floats with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else short(value)


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error message, or the name of its class if it has no message."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # a class of the user's, whose text fails as well
        lines = []
    return printable(lines[0]) if lines else type(error).__name__


def capitalized(sentence: str) -> str:
    """Return a sentence with a capital letter at its start."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


# Lists


def listed(names: Sequence[str], joint: str = "and", most: int | None = MOST_NAMES) -> str:
    """Return "a, b and c"; of more than `most` names, the first ones and the number of the others.

    Long names are cut as by `short`. With `most=None`, every name is written in full.
    """
    if not names:
        return ""
    parts = [printable(name) for name in names] if most is None else [short(name) for name in names[:most]]
    if most is not None and len(names) > most:
        parts.append(f"{len(names) - most} others")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {joint} {parts[-1]}"


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word nearest to `word`, ignoring case; empty if none is near."""
    import difflib

    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f' (did you mean "{by_case[near[0]]}"?)' if near else ""


# Numbers


def fine_percent(share: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a share with three digits after the point, and with three digits at all if it is smaller or near 100 %.

    Only a share of exactly 0 or 1 is written as 0 % or 100 %. A bound is rounded to its safe side.
    """
    if share in (0, 1):
        return f"{100 * share:.0f}{_NBSP}%"
    value = 100 * Decimal(share)
    distance = min(value, 100 - value)
    digits = 3 if distance >= Decimal("0.001") else 2 - distance.adjusted()
    return f"{value.quantize(Decimal(1).scaleb(-digits), rounding):f}{_NBSP}%"


def at_least_percent(share: float) -> str:
    """Return a proven share, rounded down: the text claims no more than is proven."""
    return fine_percent(share, ROUND_FLOOR)


def at_most_percent(share: float) -> str:
    """Return an upper bound on a share, rounded up."""
    return fine_percent(share, ROUND_CEILING)


def percent(rate: float | None, digits: int = 1) -> str:
    """Return a share as "12.5 %", and a dash for None.

    Only a share of exactly 0 or 1 is written as 0 % or 100 %: a smaller one is "< 0.1 %", a larger one "> 99.9 %".
    """
    if rate is None:
        return _NONE
    if rate in (0, 1):
        return f"{100 * rate:.0f}{_NBSP}%"
    rounded, least = f"{100 * rate:.{digits}f}", 10.0**-digits
    if float(rounded) == 0:
        rounded = f"< {least:g}"
    elif float(rounded) == 100:
        rounded = f"> {100 - least:g}"
    return f"{rounded}{_NBSP}%"


def points(before: float | None, after: float | None, digits: int = 1) -> str:
    """Return the change of a share in percentage points; empty if one of the two is None.

    It is the difference of the two shares as `percent` writes them, so that it fits the numbers beside it.
    """
    if before is None or after is None:
        return ""
    change = round(100 * after, digits) - round(100 * before, digits)
    shown = f"{change:+.{digits}f} points".replace("-", _MINUS)
    return shown if float(f"{change:.{digits}f}") else "unchanged"


def in_points(difference: float | None) -> str:
    """Return a difference of shares or probabilities in percentage points, as "2.4 points", and a dash for None."""
    return _NONE if difference is None else f"{without_unit(difference)}{_NBSP}points"


def without_unit(difference: float | None) -> str:
    """Return a difference in percentage points without the unit, as "2.4", and a dash for None.

    Only a difference of exactly 0 is written as 0: a smaller one than 0.05 is "< 0.1".
    """
    if difference is None:
        return _NONE
    rounded = f"{100 * difference:.1f}"
    return "0" if difference == 0 else "< 0.1" if rounded == "0.0" else rounded


def ratio(value: float | None) -> str:
    """Return an impact ratio with two digits, and a dash for None; one below 0.8 is never written as 0.80."""
    if value is None:
        return _NONE
    rounded = f"{value:.2f}"
    return "< 0.80" if value < 0.8 and rounded == "0.80" else rounded


def number(value: float | None) -> str:
    """Return a number with four digits, or whole and with commas from 10,000 on; a dash for None."""
    if value is None:
        return _NONE
    return (f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}").replace("-", _MINUS)


def probabilities(
    shares: Sequence[float], threshold: float | None = None, most: int = 6, score_range: Sequence[float] = (0, 1)
) -> list[str]:
    """Return probabilities in per cent, with enough digits to tell them apart, and from the threshold if there is one.

    Otherwise 49.98 % would read as 50.0 %, which is another prediction. With a range of scores that stand for the
    probabilities 0 and 1, they are shown as these scores.
    """
    low, high = score_range
    plain = (low, high) == (0, 1)

    def show(share: float, digits: int) -> str:
        return percent(share, digits) if plain else f"{low + (high - low) * share:.{digits}f}"

    different = {*shares} if threshold is None else {*shares, threshold}
    digits = next((d for d in range(1, most) if len({show(s, d) for s in different}) == len(different)), most)
    return [show(share, digits) for share in shares]


def score_difference(value: float, on: str | None) -> str:
    """Return a difference of scores: in percentage points of probability, or as a number for other scores."""
    return f"{number(100 * value)}{_NBSP}points" if on == "probability" else number(value)


def signed_difference(value: float, on: str | None) -> str:
    """Return a difference with its sign: "+2.4" percentage points of probability, or as a number for other scores."""
    shown = f"{100 * value:+.1f}" if on == "probability" else f"{value:+.4g}"
    return shown.replace("-", _MINUS) if float(shown) else "0"


def loss(fall: float) -> str:
    """Return how many percentage points are lost, as "0.4"; what is gained has a minus."""
    return f"{round(100 * fall, 1) + 0.0:.1f}".replace("-", _MINUS)


def exact_number(number: float, *, grouped: bool = False) -> str:
    """Return a number with all its digits, so that a sentence does not claim more than is proven."""
    if int(number) != number:
        return repr(float(number))
    return f"{int(number):,}" if grouped else str(int(number))


def count(value: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,}"


def describe_seconds(seconds: float) -> str:
    """Return a duration in the unit that fits: "40 s", "3 min", "2.5 h" or "12 days"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.2g} h"
    days = seconds / 86_400
    return f"{days:,.0f} days" if days < 1000 else "years"


# Small HTML tables: how notebooks show specs, networks and results.


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a table with a title above it and notes below; every text is escaped."""
    from html import escape

    head = "".join(f'<th scope="col" style="text-align: left">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    heading_row = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<p><strong>{escape(title)}</strong></p><table>{heading_row}<tbody>{body}</tbody></table>{below}"


def html_pairs(title: str, pairs: Iterable[tuple[str, object]], notes: Iterable[str] = ()) -> str:
    """Return a table of names and values."""
    return html_table(title, (), pairs, notes)


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
