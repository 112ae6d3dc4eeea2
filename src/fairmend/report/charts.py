"""The charts of a report, as SVG. Colours come from CSS classes, which the style sheet sets for screen and print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Plot:
    """A chart with axes: its size, and the place of its area."""

    width: int
    height: int
    left: int
    right: int
    top: int
    floor: int

    def x(self, value: float, end: float = 1.0) -> float:
        """Return the place of a value on the horizontal axis, which goes from 0 to `end`."""
        return self.left + (self.width - self.left - self.right) * value / end

    def y(self, value: float, end: float = 1.0) -> float:
        """Return the place of a value on the vertical axis, which goes from 0 to `end`."""
        return self.floor - (self.floor - self.top) * value / end

    def grid(self, y: float) -> Markup:
        """Return a horizontal line."""
        return line(self.left, y, self.width - self.right, y, "grid")

    def scale(self, y: float, content: str) -> Markup:
        """Return the value at the left end of a horizontal line."""
        return text(self.left - 8, y + 4, content, anchor="end", class_="tick")

    def below(self, x: float, content: str, anchor: str = "middle") -> Markup:
        """Return the value below a place of the horizontal axis."""
        return text(x, self.floor + 20, content, anchor=anchor, class_="tick")

    def caption(self, content: str, y: float) -> Markup:
        """Return what the horizontal axis shows."""
        return text(self.width - self.right, y, content, anchor="end", class_="tick")

    def mark(self, x: float, rise: int, content: str) -> list[Markup]:
        """Return a vertical line that begins above the area, and its name on the side that has more room."""
        side = "end" if x > self.width / 2 else "start"
        return [
            line(x, self.top - rise, x, self.floor, "decision"),
            text(x + (-6 if side == "end" else 6), self.top - rise, content, anchor=side, class_="tick"),
        ]

    def draw(self, label: str, parts: Iterable[Markup]) -> Markup:
        """Return the chart."""
        return drawing(self.width, self.height, label, *parts)


# Differences of scores: how many people have which, with the delta of a claim marked

_DIFFERENCES = Plot(520, 250, 52, 12, 24, 206)


def difference_chart(scores: ScoreFigures | DisparityFigures) -> Markup:
    """Draw a histogram of the differences; bars above delta, if there is one, are marked."""
    plot, end, most = _DIFFERENCES, scores.edges[-1], max([1, *scores.counts])
    delta = scores.delta if isinstance(scores, ScoreFigures) else None
    parts = [plot.grid(plot.floor), plot.scale(plot.top, f"{most:,}"), plot.scale(plot.floor, "0")]
    for low, high, count in zip(scores.edges, scores.edges[1:], scores.counts, strict=False):
        height = (plot.floor - plot.top) * count / most
        state = "two" if delta is not None and (low + high) / 2 > delta else "one"
        width = max(1.0, plot.x(high, end) - plot.x(low, end) - 1)
        bar = {"x": plot.x(low, end), "y": plot.floor - height, "width": width, "height": height}
        parts += [element("rect", class_=f"fill {state}", **bar)] if count else []
    largest = score_difference(end, scores.on)
    parts += [plot.below(plot.x(0.0, end), score_difference(0.0, scores.on), "start")]
    parts += [plot.below(plot.x(end, end), largest, "end")]
    if delta is None:
        return plot.draw(f"How many people have which difference of scores, from 0 to {largest}.", parts)
    limit = score_difference(delta, scores.on)
    parts += plot.mark(plot.x(delta, end), 8, f"delta {limit}")
    return plot.draw(f"Differences of scores from 0 to {largest}, with delta {limit} marked.", parts)


# The share treated unequally against the threshold of the decision

_CURVE = Plot(520, 250, 56, 14, 18, 206)
_TOPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # ends of the vertical axis


def threshold_chart(figures: DisparityFigures) -> Markup:
    """Draw the curve from threshold 0 to 1, with the threshold that decides and the highest point."""
    plot, most = _CURVE, max((point.share for point in figures.curve), default=0.0)
    top = next(end for end in _TOPS if end >= most or end == 1.0)
    digits = 0 if top >= 0.1 else max(0, 1 - math.floor(math.log10(100 * top)))
    parts: list[Markup] = []
    for share in (0.0, top / 2, top):
        parts += [plot.grid(plot.y(share, top)), plot.scale(plot.y(share, top), percent(share, digits))]
    parts += [plot.below(plot.x(mark), f"{mark:g}") for mark in (0, 0.25, 0.5, 0.75, 1)]
    places = [f"{plot.x(point.threshold):.1f} {plot.y(point.share, top):.1f}" for point in figures.curve]
    parts.append(path(_joined(places), "curve two"))
    if figures.threshold is not None and figures.curve:
        at, mine = plot.x(figures.threshold), plot.y(figures.share_at(figures.threshold), top)
        parts += [*plot.mark(at, 6, "your threshold"), element("circle", cx=at, cy=mine, r=5, class_="dot two")]
    parts.append(plot.caption("threshold of the probability", plot.height - 6))
    return plot.draw(f"{describe_curve(figures)}.", parts)


def _joined(places: Iterable[str]) -> list[str]:
    """Return the steps of a path from place to place."""
    return [f"{'L' if i else 'M'}{place}" for i, place in enumerate(places)]


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

_RANGES = Plot(520, 300, 52, 8, 12, 274)
_THINNEST = 5.0  # the height of a bar whose scores are all equal, so that it is visible


def range_chart(ranges: Sequence[ScoreRange], score: str, label: str, order: str, threshold: float = 0.5) -> Markup:
    """Draw one bar for each input, from the lowest to the highest score in its neighbourhood, and the decision line.

    With more than two classes there is no such line: the most probable class is the prediction.
    """
    plot, decision = _RANGES, threshold if score == "positive" else None
    parts: list[Markup] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [plot.grid(_place(share)), plot.scale(_place(share), percent(share, 0))]
    step = (plot.width - plot.left - plot.right) / max(1, len(ranges))
    thick = max(1.0, min(9.0, 0.68 * step))
    bars: dict[str, list[str]] = {"bound": [], "open": [], "one": [], "two": []}
    own = []
    for i, entry in enumerate(ranges):
        x = plot.left + (i + 0.5) * step
        if (entry.low, entry.high) != (entry.seen_low, entry.seen_high):
            low, high = (0.0 if entry.low is None else entry.low), (1.0 if entry.high is None else entry.high)
            bars["bound"].append(_bar(x, low, high, decision))
        bars[entry.state].append(_bar(x, entry.seen_low, entry.seen_high, decision))
        if _place(entry.seen_low) - _place(entry.seen_high) > 2 * _THINNEST:  # otherwise the mark would hide the bar
            own.append(f"M{x - thick / 2:.1f} {_place(entry.own):.1f}h{thick:.1f}")
    parts += [path(steps, f"bar {state}", stroke_width=thick) for state, steps in bars.items()]
    parts.append(path(own, "own"))
    if decision is not None:
        parts.append(line(plot.left, _place(decision), plot.width - plot.right, _place(decision), "decision"))
    parts.append(plot.caption(order, plot.height - 8))
    return plot.draw(label, parts)


def _place(value: float) -> float:
    """Return the place of a probability on the axis; a file may hold any number."""
    return _RANGES.y(min(1.0, max(0.0, value)))


def _bar(x: float, low: float, high: float, line_at: float | None) -> str:
    """Return a bar; a very short one is extended, but never across the decision line or out of the chart."""
    decision, highest, floor = 0.0 if line_at is None else line_at, _RANGES.top, _RANGES.floor
    top, bottom = _place(high), _place(low)
    if bottom - top < _THINNEST:
        top, bottom = (bottom - _THINNEST, bottom) if low >= decision else (top, top + _THINNEST)
        if top < highest and _place(decision) >= highest + _THINNEST:
            top, bottom = highest, highest + _THINNEST
        elif bottom > floor and _place(decision) <= floor - _THINNEST:
            top, bottom = floor - _THINNEST, floor
    return f"M{x:.1f} {top:.1f}V{bottom:.1f}"


# Losses

_MOST_STEPS = 400


def shown_losses(losses: Sequence[float | None]) -> list[float]:
    """Return the losses that a chart shows: of some steps, evenly spaced, where they are finite."""
    chosen = [losses[i] for i in pick_evenly(len(losses), _MOST_STEPS)]
    return [loss for loss in chosen if loss is not None]


_LOSSES = Plot(460, 170, 48, 12, 14, 140)


def loss_chart(losses: Sequence[float], label: str, class_: str) -> Markup:
    """Draw a loss over the steps, from 0 up."""
    plot, most = _LOSSES, max(losses, default=0.0) or 1.0
    step = (plot.width - plot.left - plot.right) / max(1, len(losses) - 1)
    places = [(plot.left + i * step, plot.y(value, most)) for i, value in enumerate(losses)]
    parts = [
        plot.grid(plot.floor),
        plot.grid(plot.top),
        text(plot.left - 6, plot.top + 4, f"{most:.2g}", anchor="end", class_="tick"),
        text(plot.left - 6, plot.floor + 4, "0", anchor="end", class_="tick"),
        path(_joined(f"{x:.1f} {y:.1f}" for x, y in places), f"curve {class_}"),
        plot.caption(f"{len(losses)} steps", plot.height - 6),
    ]
    if places:
        parts.append(element("circle", cx=places[-1][0], cy=places[-1][1], r=4, class_=f"dot {class_}"))
    return plot.draw(label, parts)


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
    if None not in at:
        parts.append(line(at[0], "50%", at[1], "50%", "link"))
    dots = [(place, when) for place, when in zip(at, ("before", "after"), strict=True) if place is not None]
    return strip(label, *parts, *(element("circle", cx=place, cy="50%", r=5, class_=when) for place, when in dots))


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
