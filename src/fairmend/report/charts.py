"""The charts of a report. Colours come from CSS classes: the style sheet sets them for light, dark and print."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fairmend.base.text import fine_percent, number, percent
from fairmend.evaluate.document import ScoreRange, WeightChange
from fairmend.report.svg import drawing, element, line, path, strip, text

_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 12, 26
_FLOOR = _HEIGHT - _BOTTOM
_VISIBLE = 0.004  # the part of a bar that a share takes at least
_THINNEST = 5.0  # the height of a bar whose scores are all equal, so that it is visible


# Score ranges


def range_chart(ranges: Sequence[ScoreRange], score: str, label: str, order: str, threshold: float = 0.5) -> Markup:
    """Draw one bar for each input, from the lowest to the highest score in its neighbourhood, and the decision line.

    With more than two classes there is no such line: the most probable class is the prediction.
    """
    decision = threshold if score == "positive" else None
    parts = [
        part
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
        for part in (
            line(_LEFT, _place(share), _WIDTH - _RIGHT, _place(share), "grid"),
            text(_LEFT - 8, _place(share) + 4, percent(share, 0), anchor="end", class_="tick"),
        )
    ]
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(ranges))
    thick = max(1.0, min(9.0, 0.68 * step))
    bars: dict[str, list[str]] = {"bound": [], "open": [], "one": [], "two": []}
    own = []
    for i, entry in enumerate(ranges):
        x = _LEFT + (i + 0.5) * step
        if (entry.low, entry.high) != (entry.seen_low, entry.seen_high):
            low, high = (0.0 if entry.low is None else entry.low), (1.0 if entry.high is None else entry.high)
            bars["bound"].append(_bar(x, low, high, decision))
        bars[entry.state].append(_bar(x, entry.seen_low, entry.seen_high, decision))
        if _place(entry.seen_low) - _place(entry.seen_high) > 2 * _THINNEST:  # otherwise the mark would hide the bar
            own.append(f"M{x - thick / 2:.1f} {_place(entry.own):.1f}h{thick:.1f}")
    parts += [path(steps, f"bar {state}", stroke_width=thick) for state, steps in bars.items()]
    parts.append(path(own, "own"))
    if decision is not None:
        parts.append(line(_LEFT, _place(decision), _WIDTH - _RIGHT, _place(decision), "decision"))
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 8, order, anchor="end", class_="tick"))
    return drawing(_WIDTH, _HEIGHT, label, *parts)


def _place(value: float) -> float:
    """Return the place of a probability on the axis; a file may hold any number."""
    return _FLOOR - (_FLOOR - _TOP) * min(1.0, max(0.0, value))


def _bar(x: float, low: float, high: float, line_at: float | None) -> str:
    """Return a bar; a very short one is extended, but never across the decision line or out of the chart."""
    decision = 0.0 if line_at is None else line_at
    top, bottom = _place(high), _place(low)
    if bottom - top < _THINNEST:
        top, bottom = (bottom - _THINNEST, bottom) if low >= decision else (top, top + _THINNEST)
        if top < _TOP and _place(decision) >= _TOP + _THINNEST:
            top, bottom = _TOP, _TOP + _THINNEST
        elif bottom > _FLOOR and _place(decision) <= _FLOOR - _THINNEST:
            top, bottom = _FLOOR - _THINNEST, _FLOOR
    return f"M{x:.1f} {top:.1f}V{bottom:.1f}"


# Losses


def loss_chart(losses: Sequence[float], label: str, class_: str) -> Markup:
    """Draw a loss over the steps, from 0 up."""
    width, height, left, right, floor = 460, 170, 48, 12, 140
    most = max(losses, default=0.0) or 1.0
    step = (width - left - right) / max(1, len(losses) - 1)
    points = [(left + i * step, floor - (floor - 14) * value / most) for i, value in enumerate(losses)]
    steps = [f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points)]
    parts = [
        line(left, floor, width - right, floor, "grid"),
        line(left, 14, width - right, 14, "grid"),
        text(left - 6, 18, f"{most:.2g}", anchor="end", class_="tick"),
        text(left - 6, floor + 4, "0", anchor="end", class_="tick"),
        path(steps, f"curve {class_}"),
        text(width - right, height - 6, f"{len(losses)} steps", anchor="end", class_="tick"),
    ]
    if points:
        parts.append(element("circle", cx=points[-1][0], cy=points[-1][1], r=4, class_=f"dot {class_}"))
    return drawing(width, height, label, *parts)


# Small charts in tables


def before_after(before: float | None, after: float | None, most: float = 1.0, least: float = 0.0) -> Markup:
    """Draw the value before as a ring and the value after as a dot, on a line from `least` to `most`."""
    spread = (most - least) or 1.0
    label = f"before {number(before)}, after {number(after)}" if after is not None else number(before)
    # From 3 to 97 %, so that a dot at the end is not cut off.
    at = [None if v is None else f"{3 + 94 * (v - least) / spread:.2f}%" for v in (before, after)]
    parts = [line("3%", "50%", "97%", "50%", "rail")]
    if least < 0 < most:
        zero = f"{3 + 94 * -least / spread:.2f}%"
        parts.append(line(zero, "15%", zero, "85%", "zero"))
    if at[0] is not None and at[1] is not None:
        parts.append(line(at[0], "50%", at[1], "50%", "link"))
    if at[0] is not None:
        parts.append(element("circle", cx=at[0], cy="50%", r=5, class_="before"))
    if at[1] is not None:
        parts.append(element("circle", cx=at[1], cy="50%", r=5, class_="after"))
    return strip(label, *parts)


def share_bar(share: float, class_: str = "two") -> Markup:
    """Draw a share (0 to 1) as a bar."""
    return strip(
        percent(share),
        element("rect", x="0", y="25%", width="100%", height="50%", rx=3, class_="trough"),
        element(
            "rect", x="0", y="25%", width=f"{100 * min(1.0, share):.2f}%", height="50%", rx=3, class_=f"fill {class_}"
        ),
    )


def shares_bar(shares: Sequence[tuple[str, float, str]]) -> Markup:
    """Draw shares that add up to 1 side by side: the name, the share and the class of the colour of each.

    A share above 0 is never too thin to be seen.
    """
    label = ", ".join(f"{name} {fine_percent(share)}" for name, share, _ in shares)
    widths = [0.0 if share <= 0 else max(share, _VISIBLE) for _, share, _ in shares]
    total, start, parts = sum(widths) or 1.0, 0.0, []
    for width, (_, _, class_) in zip(widths, shares, strict=True):
        place, wide = f"{100 * start / total:.3f}%", f"{100 * width / total:.3f}%"
        parts.append(element("rect", x=place, y="10%", width=wide, height="80%", class_=f"fill {class_}"))
        start += width
    return strip(label, *parts)


def value_ends(changes: Sequence[WeightChange]) -> tuple[float, float]:
    """Return the largest and the smallest of all values, including 0."""
    values = [value for change in changes for value in (change.before, change.after)]
    return max([0.0, *values]), min([0.0, *values])
