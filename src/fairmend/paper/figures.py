"""Figures as SVG text: losses over the steps, and values of two methods beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, LEFT, BOTTOM = 420, 240, 56, 28
COLOURS = ("#0969da", "#bc4c00")


def loss_figure(title: str, curves: Mapping[str, NDArray[np.float64]]) -> str:
    """Return the mean of each loss over runs as a line, with a band of one standard deviation; curves (runs, steps)."""
    top = max(float((c.mean(0) + c.std(0)).max()) for c in curves.values()) * 1.05 or 1.0
    steps = max(c.shape[1] for c in curves.values())

    def place(values: NDArray[np.float64]) -> list[str]:
        x = LEFT + np.arange(len(values)) / max(1, steps - 1) * (WIDTH - LEFT - 8)
        y = (HEIGHT - BOTTOM) - values / top * (HEIGHT - BOTTOM - 24)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]

    parts = [f'<text x="{LEFT}" y="14" font-size="13">{title}</text>', *_axes(top, steps)]
    for colour, (name, runs) in zip(COLOURS, curves.items(), strict=False):
        mean, deviation = runs.mean(0), runs.std(0)
        band = " ".join([*place(mean + deviation), *reversed(place(np.maximum(mean - deviation, 0)))])
        parts.append(f'<polygon points="{band}" fill="{colour}" opacity=".2"/>')
        parts.append(f'<polyline points="{" ".join(place(mean))}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        row = 30 + 14 * list(curves).index(name)
        parts.append(f'<text x="{WIDTH - 90}" y="{row}" font-size="11" fill="{colour}">{name}</text>')
    return _svg(WIDTH, HEIGHT, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui,sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def _axes(top: float, steps: int) -> list[str]:
    floor = HEIGHT - BOTTOM
    line = f'<path d="M{LEFT} 24V{floor}H{WIDTH - 8}" fill="none" stroke="currentColor" opacity=".5"/>'
    labels = [
        f'<text x="{LEFT - 4}" y="{28}" font-size="10" text-anchor="end">{top:.2f}</text>',
        f'<text x="{LEFT - 4}" y="{floor}" font-size="10" text-anchor="end">0</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 12}" font-size="10" text-anchor="end">step {steps}</text>',
    ]
    return [line, *labels]


def comparison_figure(
    title: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]], *, logarithmic: bool = False
) -> str:
    """Return the values of each label as dots on a vertical line, without missing values and zeros on a log scale."""
    width, floor = LEFT + 30 * len(labels) + 8, HEIGHT - BOTTOM
    height = HEIGHT + 80  # room for the rotated labels
    known = [v for values in series.values() for v in values if v is not None and (v > 0 or not logarithmic)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if logarithmic:
        low, high = np.log10(low), np.log10(high)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low) or 1.0

    def place(value: float) -> float:
        at = np.log10(value) if logarithmic else value
        return float(floor - (at - low) / ((high - low) or 1.0) * (floor - 32))

    ends = (10**low, 10**high) if logarithmic else (low, high)
    scale = " (log scale; zeros are left out)" if logarithmic else ""
    parts = [f'<text x="{LEFT}" y="14" font-size="13">{escape(title)}{scale}</text>']
    parts.append(f'<path d="M{LEFT} 24V{floor}H{width - 8}" fill="none" stroke="currentColor" opacity=".5"/>')
    for end, y in zip(ends, (floor, 32), strict=True):
        parts.append(f'<text x="{LEFT - 4}" y="{y}" font-size="10" text-anchor="end">{end:.3g}</text>')
    for number, label in enumerate(labels):
        x = LEFT + 15 + 30 * number
        turned = f'transform="rotate(-60 {x} {floor + 14})" text-anchor="end"'
        parts.append(f'<text x="{x}" y="{floor + 14}" font-size="10" {turned}>{escape(label)}</text>')
        values = [values[number] for values in series.values()]
        heights = [None if v is None or (logarithmic and v <= 0) else place(v) for v in values]
        drawn = [h for h in heights if h is not None]
        if len(drawn) > 1:
            parts.append(f'<path d="M{x} {min(drawn):.1f}V{max(drawn):.1f}" stroke="currentColor" opacity=".35"/>')
        for place_in_turn, (colour, h) in enumerate(zip(COLOURS, heights, strict=False)):
            if h is not None:  # a dot with a ring around it, so that equal values stay visible
                inside = (
                    f'fill="{colour}"' if not place_in_turn else f'fill="none" stroke="{colour}" stroke-width="1.5"'
                )
                parts.append(f'<circle cx="{x}" cy="{h:.1f}" r="{3 + 3 * place_in_turn}" {inside}/>')
    for number, (colour, name) in enumerate(zip(COLOURS, series, strict=False)):
        x = width - 90 * (len(series) - number)
        parts.append(
            f'<text x="{x}" y="14" font-size="11" fill="{colour}">{"○" if number else "●"} {escape(name)}</text>'
        )
    return _svg(width, height, parts)
