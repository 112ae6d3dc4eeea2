"""Figures as SVG text: a line with a band around it, for the losses of step 1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, LEFT, BOTTOM = 420, 240, 44, 28
COLOURS = ("#0969da", "#bc4c00")


def loss_figure(title: str, curves: Mapping[str, NDArray[np.float64]]) -> str:
    """Mean and standard deviation of each loss over runs: curves ``(runs, steps)``."""
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
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui,sans-serif" fill="currentColor">{body}</svg>'
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
