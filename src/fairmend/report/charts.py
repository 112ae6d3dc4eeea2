"""The charts of a report, as SVG. Colours come from CSS classes, which the style sheet sets for screen and print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from fairmend.auditing.figures import DisparityFigures, ScoreFigures
from fairmend.base.text import fine_percent, number, percent, printable, score_difference
from fairmend.evaluate.document import ScoreRange, WeightChange
from fairmend.evaluate.nearest_counterfactuals import pick_evenly

# SVG, element by element: every attribute and every text is escaped here, and nowhere else


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is class, `text_anchor` is text-anchor, and None leaves an attribute out."""
    given = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else escape(printable(child)) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), given, inner)


def drawing(width: int, height: int, label: str, *children: object, class_: str = "chart") -> Markup:
    """Return an image of `width` by `height` units that scales to its place; screen readers read `label`."""
    # viewBox keeps its capital letter, which HTML parsers require.
    attributes = {"viewBox": f"0 0 {width} {height}", "role": "img", "aria_label": label, "class_": class_}
    return element("svg", *children, **attributes)


def strip(label: str, *children: object) -> Markup:
    """Return an image one line high and as wide as its place; its children have places in per cent."""
    return element("svg", *children, class_="strip", role="img", aria_label=label)


def text(x: float, y: float, content: object, *, class_: str = "", anchor: str | None = None) -> Markup:
    """Return a text element."""
    return element("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: object, y1: object, x2: object, y2: object, class_: str) -> Markup:
    """Return a line element."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(steps: Iterable[str], class_: str, **attributes: object) -> Markup:
    """Return a path element of all steps, or nothing if there are none."""
    shape = "".join(steps)
    return element("path", d=shape, class_=class_, **attributes) if shape else Markup("")


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(value)


# Differences of scores: how many people have which, with the delta of a claim marked


_DIFFERENCE_WIDTH, _DIFFERENCE_HEIGHT, _DIFFERENCE_LEFT, _DIFFERENCE_RIGHT, _DIFFERENCE_TOP, _DIFFERENCE_FLOOR = (
    520,
    250,
    52,
    12,
    24,
    206,
)


def difference_chart(scores: ScoreFigures | DisparityFigures) -> Markup:
    """Draw a histogram of the differences; bars above delta, if there is one, are marked."""
    end, most = scores.edges[-1], max([1, *scores.counts])
    delta = scores.delta if isinstance(scores, ScoreFigures) else None

    def place(value: float) -> float:
        return _DIFFERENCE_LEFT + (_DIFFERENCE_WIDTH - _DIFFERENCE_LEFT - _DIFFERENCE_RIGHT) * value / end

    parts = [
        line(_DIFFERENCE_LEFT, _DIFFERENCE_FLOOR, _DIFFERENCE_WIDTH - _DIFFERENCE_RIGHT, _DIFFERENCE_FLOOR, "grid"),
        text(_DIFFERENCE_LEFT - 8, _DIFFERENCE_TOP + 4, f"{most:,}", anchor="end", class_="tick"),
        text(_DIFFERENCE_LEFT - 8, _DIFFERENCE_FLOOR + 4, "0", anchor="end", class_="tick"),
    ]
    for low, high, count in zip(scores.edges, scores.edges[1:], scores.counts, strict=False):
        height = (_DIFFERENCE_FLOOR - _DIFFERENCE_TOP) * count / most
        state = "two" if delta is not None and (low + high) / 2 > delta else "one"
        width = max(1.0, place(high) - place(low) - 1)
        bar = {"x": place(low), "y": _DIFFERENCE_FLOOR - height, "width": width, "height": height}
        parts += [element("rect", class_=f"fill {state}", **bar)] if count else []
    for value, anchor in ((0.0, "start"), (end, "end")):
        caption = score_difference(value, scores.on)
        parts.append(text(place(value), _DIFFERENCE_FLOOR + 20, caption, anchor=anchor, class_="tick"))
    if delta is None:
        label = f"How many people have which difference of scores, from 0 to {score_difference(end, scores.on)}."
        return drawing(_DIFFERENCE_WIDTH, _DIFFERENCE_HEIGHT, label, *parts)
    limit = score_difference(delta, scores.on)
    at = place(delta)
    side = "end" if at > _DIFFERENCE_WIDTH / 2 else "start"
    parts += [
        line(at, _DIFFERENCE_TOP - 8, at, _DIFFERENCE_FLOOR, "decision"),
        text(at + (-6 if side == "end" else 6), _DIFFERENCE_TOP - 8, f"delta {limit}", anchor=side, class_="tick"),
    ]
    label = f"Differences of scores from 0 to {score_difference(end, scores.on)}, with delta {limit} marked."
    return drawing(_DIFFERENCE_WIDTH, _DIFFERENCE_HEIGHT, label, *parts)


# The share treated unequally against the threshold of the decision


_CURVE_WIDTH, _CURVE_HEIGHT, _CURVE_LEFT, _CURVE_RIGHT, _CURVE_TOP, _CURVE_FLOOR = 520, 250, 56, 14, 18, 206
_TOPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # ends of the vertical axis


def threshold_chart(figures: DisparityFigures) -> Markup:
    """Draw the curve from threshold 0 to 1, with the threshold that decides and the highest point."""
    most = max((point.share for point in figures.curve), default=0.0)
    top = next(end for end in _TOPS if end >= most or end == 1.0)

    def across(threshold: float) -> float:
        return _CURVE_LEFT + (_CURVE_WIDTH - _CURVE_LEFT - _CURVE_RIGHT) * threshold

    def up(share: float) -> float:
        return _CURVE_FLOOR - (_CURVE_FLOOR - _CURVE_TOP) * share / top

    parts: list[Markup] = []
    for share in (0.0, top / 2, top):
        digits = 0 if top >= 0.1 else max(0, 1 - math.floor(math.log10(100 * top)))
        parts += [
            line(_CURVE_LEFT, up(share), _CURVE_WIDTH - _CURVE_RIGHT, up(share), "grid"),
            text(_CURVE_LEFT - 8, up(share) + 4, percent(share, digits), anchor="end", class_="tick"),
        ]
    for mark in (0, 0.25, 0.5, 0.75, 1):
        parts.append(text(across(mark), _CURVE_FLOOR + 20, f"{mark:g}", anchor="middle", class_="tick"))
    steps = [
        f"{'L' if i else 'M'}{across(point.threshold):.1f} {up(point.share):.1f}"
        for i, point in enumerate(figures.curve)
    ]
    parts.append(path(steps, "curve two"))
    if figures.threshold is not None and figures.curve:
        at = across(figures.threshold)
        mine = figures.share_at(figures.threshold)
        side = "end" if at > _CURVE_WIDTH / 2 else "start"
        parts += [
            line(at, _CURVE_TOP - 6, at, _CURVE_FLOOR, "decision"),
            text(at + (-6 if side == "end" else 6), _CURVE_TOP - 6, "your threshold", anchor=side, class_="tick"),
            element("circle", cx=at, cy=up(mine), r=5, class_="dot two"),
        ]
    parts.append(
        text(
            _CURVE_WIDTH - _CURVE_RIGHT, _CURVE_HEIGHT - 6, "threshold of the probability", anchor="end", class_="tick"
        )
    )
    return drawing(_CURVE_WIDTH, _CURVE_HEIGHT, f"{describe_curve(figures)}.", *parts)


def describe_curve(figures: DisparityFigures) -> str:
    """Return the share at the threshold that decides and the highest one, in a few words."""
    if figures.threshold is None:
        return ""
    least = "" if figures.exact else "at least "
    at, share = figures.peak.threshold, figures.peak.share
    mine = figures.share_at(figures.threshold)
    if share == 0:
        return "no one, at any threshold" if figures.exact else "no one was found, at any threshold"
    return (
        f"{least}{percent(mine)} at {figures.threshold:g}, your threshold; highest at {at:g}: {least}{percent(share)}"
    )


# Score ranges

_WIDTH, _HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 12, 26
_FLOOR = _HEIGHT - _BOTTOM
_THINNEST = 5.0  # the height of a bar whose scores are all equal, so that it is visible


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

_MOST_STEPS = 400


def shown_losses(losses: Sequence[float | None]) -> list[float]:
    """Return the losses that a chart shows: of some steps, evenly spaced, where they are finite."""
    chosen = [losses[i] for i in pick_evenly(len(losses), _MOST_STEPS)]
    return [loss for loss in chosen if loss is not None]


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

_VISIBLE = 0.004  # the part of a bar that a share takes at least


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


def effect_bar(mean: float, low: float, high: float, largest: float, label: str) -> Markup:
    """Draw an effect as a dot on its interval, to the left or right of 0 in the middle; `largest` fills a side."""
    at = [f"{50 + 47 * value / (largest or 1.0):.2f}%" for value in (mean, low, high)]
    class_ = "two" if mean < 0 else "one"
    return strip(
        label,
        line("3%", "50%", "97%", "50%", "rail"),
        line("50%", "15%", "50%", "85%", "zero"),
        line(at[1], "50%", at[2], "50%", f"span bar {class_}"),
        element("circle", cx=at[0], cy="50%", r=5, class_=f"fill {class_}"),
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
