"""The chart of the share treated unequally against the threshold of the decision."""

from __future__ import annotations

import math

from markupsafe import Markup

from fairmend.base.text import percent
from fairmend.evaluate.document import DisparityFigures
from fairmend.report.svg import drawing, element, line, path, text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _FLOOR = 520, 250, 56, 14, 18, 206
_TOPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # ends of the vertical axis


def threshold_chart(figures: DisparityFigures) -> Markup:
    """Draw the curve from threshold 0 to 1, with the threshold that decides and the highest point."""
    most = max(figures.unequal, default=0.0)
    top = next(end for end in _TOPS if end >= most or end == 1.0)

    def across(threshold: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * threshold

    def up(share: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * share / top

    parts: list[Markup] = []
    for share in (0.0, top / 2, top):
        digits = 0 if top >= 0.1 else max(0, 1 - math.floor(math.log10(100 * top)))
        parts += [
            line(_LEFT, up(share), _WIDTH - _RIGHT, up(share), "grid"),
            text(_LEFT - 8, up(share) + 4, percent(share, digits), anchor="end", class_="tick"),
        ]
    for mark in (0, 0.25, 0.5, 0.75, 1):
        parts.append(text(across(mark), _FLOOR + 20, f"{mark:g}", anchor="middle", class_="tick"))
    points = list(zip(figures.thresholds, figures.unequal, strict=True))
    steps = [f"{'L' if i else 'M'}{across(t):.1f} {up(share):.1f}" for i, (t, share) in enumerate(points)]
    parts.append(path(steps, "curve two"))
    if figures.threshold is not None and points:
        at = across(figures.threshold)
        mine = _share_at(figures, figures.threshold)
        side = "end" if at > _WIDTH / 2 else "start"
        parts += [
            line(at, _TOP - 6, at, _FLOOR, "decision"),
            text(at + (-6 if side == "end" else 6), _TOP - 6, "your threshold", anchor=side, class_="tick"),
            element("circle", cx=at, cy=up(mine), r=5, class_="dot two"),
        ]
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 6, "threshold of the probability", anchor="end", class_="tick"))
    return drawing(_WIDTH, _HEIGHT, f"{describe_curve(figures)}.", *parts)


def describe_curve(figures: DisparityFigures) -> str:
    """Return the share at the threshold that decides and the highest one, in a few words."""
    if figures.threshold is None:
        return ""
    least = "" if figures.exact else "at least "
    share = max(figures.unequal)
    at = figures.thresholds[figures.unequal.index(share)]
    mine = _share_at(figures, figures.threshold)
    if share == 0:
        return "no one, at any threshold" if figures.exact else "no one was found, at any threshold"
    return (
        f"{least}{percent(mine)} at {figures.threshold:g}, your threshold; highest at {at:g}: {least}{percent(share)}"
    )


def _share_at(figures: DisparityFigures, threshold: float) -> float:
    return figures.unequal[figures.thresholds.index(threshold)]
