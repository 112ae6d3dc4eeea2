"""The chart of differences of scores: how many people have which, with the delta of a claim marked."""

from __future__ import annotations

from markupsafe import Markup

from fairmend.base.text import score_difference
from fairmend.evaluate.document import DisparityFigures, ScoreFigures
from fairmend.report.svg import drawing, element, line, text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FLOOR = 520, 250, 52, 12, 24, 206


def difference_chart(scores: ScoreFigures | DisparityFigures) -> Markup:
    """Draw a histogram of the differences; bars above delta, if there is one, are marked."""
    end, most = scores.edges[-1], max([1, *scores.counts])
    delta = scores.delta if isinstance(scores, ScoreFigures) else None

    def place(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / end

    parts = [
        line(_LEFT, _FLOOR, _WIDTH - _RIGHT, _FLOOR, "grid"),
        text(_LEFT - 8, _TOP + 4, f"{most:,}", anchor="end", class_="tick"),
        text(_LEFT - 8, _FLOOR + 4, "0", anchor="end", class_="tick"),
    ]
    for low, high, count in zip(scores.edges, scores.edges[1:], scores.counts, strict=False):
        height = (_FLOOR - _TOP) * count / most
        state = "two" if delta is not None and (low + high) / 2 > delta else "one"
        width = max(1.0, place(high) - place(low) - 1)
        bar = {"x": place(low), "y": _FLOOR - height, "width": width, "height": height}
        parts += [element("rect", class_=f"fill {state}", **bar)] if count else []
    for value, anchor in ((0.0, "start"), (end, "end")):
        caption = score_difference(value, scores.on)
        parts.append(text(place(value), _FLOOR + 20, caption, anchor=anchor, class_="tick"))
    if delta is None:
        label = f"How many people have which difference of scores, from 0 to {score_difference(end, scores.on)}."
        return drawing(_WIDTH, _HEIGHT, label, *parts)
    limit = score_difference(delta, scores.on)
    at = place(delta)
    side = "end" if at > _WIDTH / 2 else "start"
    parts += [
        line(at, _TOP - 8, at, _FLOOR, "decision"),
        text(at + (-6 if side == "end" else 6), _TOP - 8, f"delta {limit}", anchor=side, class_="tick"),
    ]
    label = f"Differences of scores from 0 to {score_difference(end, scores.on)}, with delta {limit} marked."
    return drawing(_WIDTH, _HEIGHT, label, *parts)
