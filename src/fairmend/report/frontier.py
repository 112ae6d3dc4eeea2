"""The chart of the candidates of auto: a lane for each guarantee, and from left to right what is kept of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from fairmend.base.text import percent
from fairmend.evaluate.document import PolicySummary, RecipeSummary
from fairmend.report.charts import drawing, element, line, text

GUARANTEES = ("everyone", "everyone, and the repair inputs with tolerance or links", "the repair inputs", "nobody")
"""From the strongest, which is at the top of the chart, to the weakest."""

_WIDTH, _LEFT, _RIGHT, _TOP = 520, 30, 30, 26
_HEADING, _GAP, _LOWEST = 34, 12, 92  # the heading of a lane, the space around its circles, and its least height
_SMALLEST, _LARGEST = 10.0, 17.0  # radii
_SHIFTS = (0, 26, -26, 13, -13, 39, -39, 52, -52, 78, -78, 104, -104)  # of circles that would overlap
_STEPS = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # R² may be far below 0


def proven_candidates(candidates: Sequence[RecipeSummary]) -> list[RecipeSummary]:
    """Return the candidates that the chart shows."""
    return [candidate for candidate in candidates if candidate.proven]


def frontier_chart(candidates: Sequence[RecipeSummary], policy: PolicySummary) -> Markup:
    """Draw each proven candidate in the lane of its guarantee: the further up and to the right, the better.

    A circle grows with the share that is still treated unequally. The dashed line is the original network, and the
    band the loss that the policy allows.
    """
    proven = proven_candidates(candidates)
    levels = [guarantee for guarantee in GUARANTEES if any(c.guarantee == guarantee for c in proven)]
    axis = _Axis([_kept(c, policy) for c in proven], policy)
    lanes, floor = [], float(_TOP)
    for level in levels:
        members = [(number, c) for number, c in enumerate(candidates, 1) if c.proven and c.guarantee == level]
        lane, height = _lane(level, members, axis, policy, floor)
        lanes.append(lane)
        floor += height
    parts = [*_allowed_loss(axis, policy, floor), *_ticks(axis, floor), *_original(axis, policy, floor), *lanes]
    parts.append(text(_WIDTH - _RIGHT, floor + 40, _axis_name(policy), anchor="end", class_="tick"))
    return drawing(_WIDTH, math.ceil(floor) + 46, _label(candidates, levels, policy), *parts)


def _lane(
    level: str, members: Sequence[tuple[int, RecipeSummary]], axis: _Axis, policy: PolicySummary, top: float
) -> tuple[Markup, float]:
    """Return the candidates of one guarantee, and the height that they need below `top`."""
    places: list[tuple[float, float, float]] = []
    # The selected candidate is drawn last, on top of the others.
    drawn = sorted(members, key=lambda member: (member[1].chosen, member[1].on_frontier))
    for _, candidate in drawn:
        x, radius = axis.place(_kept(candidate, policy)), _radius(candidate)
        places.append((x, _free_shift(x, radius, places), radius))
    above, below = (max(radius + side * shift for _, shift, radius in places) for side in (-1, 1))
    height = max(_LOWEST, _HEADING + above + below + _GAP)
    middle = top + height - _GAP - below
    parts = [
        line(_LEFT, middle, _WIDTH - _RIGHT, middle, "grid"),
        text(_LEFT, top + 22, f"proven for {level}", class_="level"),
    ]
    for (number, candidate), (x, shift, radius) in zip(drawn, places, strict=True):
        style = "chosen" if candidate.chosen else "frontier" if candidate.on_frontier else "other"
        collapsed = " collapsed" if candidate.collapsed else ""
        parts += [
            element("circle", cx=x, cy=middle + shift, r=radius, class_=f"candidate {style}{collapsed}"),
            text(x, middle + shift + 4, number, anchor="middle", class_=f"key {style}"),
        ]
    return Markup("").join(parts), height


class _Axis:
    """The horizontal axis: from a round value below all candidates and the original to one above them."""

    def __init__(self, values: Sequence[float], policy: PolicySummary) -> None:
        shown = [*values, *([] if policy.original is None else [policy.original])] or [0.0, 1.0]
        low, high = min(shown), max(shown)
        self.plain = _is_r2(policy)
        self.step = next((step for step in _STEPS if _covers(step, low, high)), _STEPS[-1])
        self.low = min(math.floor(low / self.step + 1e-9) * self.step, 1 - 4 * self.step)
        self.high = self.low + 4 * self.step

    def place(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share

    def marks(self) -> Iterator[tuple[float, str]]:
        for i in range(5):
            value = self.low + i * self.step
            digits = 0 if self.step >= 0.01 else 1 if self.step == 0.005 else 2
            if value <= 1 + 1e-9:
                yield value, f"{value:.{digits + 2}f}" if self.plain else percent(value, digits)


def _covers(step: float, low: float, high: float) -> bool:
    return high <= (math.floor(low / step + 1e-9) + 4) * step + 1e-9


def _kept(candidate: RecipeSummary, policy: PolicySummary) -> float:
    return candidate.balanced_accuracy if policy.prefer == "accuracy" else candidate.agreement


def _is_r2(policy: PolicySummary) -> bool:
    return policy.prefer == "accuracy" and policy.measure == "R²"


def _figure(kept: float, policy: PolicySummary) -> str:
    return f"{kept:.3f}" if _is_r2(policy) else percent(kept)


def _axis_name(policy: PolicySummary) -> str:
    if policy.prefer == "accuracy":
        return f"{policy.measure} on rows that the recipe did not use"
    return "agreement with the original network's decisions"


def _radius(candidate: RecipeSummary) -> float:
    """Return a radius that tells a share of 0 from the smallest one, and grows most among small shares."""
    share = candidate.unfair_rate
    return _SMALLEST if share <= 0 else min(_LARGEST, _SMALLEST + 2 + 20 * math.sqrt(share))


def _free_shift(x: float, radius: float, others: Sequence[tuple[float, float, float]]) -> float:
    """Return how far from the middle of the lane a circle meets no other one; 0 if it does everywhere."""

    def free(shift: float) -> bool:
        return all(math.dist((x, shift), (u, v)) > radius + r for u, v, r in others)

    return next((shift for shift in _SHIFTS if free(shift)), 0)


def _ticks(axis: _Axis, floor: float) -> list[Markup]:
    parts = []
    for value, name in axis.marks():
        x = axis.place(value)
        parts += [
            line(x, _TOP, x, floor, "grid faint"),
            text(x, floor + 18, name, anchor="middle", class_="tick"),
        ]
    return parts


def _allowed_loss(axis: _Axis, policy: PolicySummary, floor: float) -> list[Markup]:
    if policy.original is None:
        return []
    left = axis.place(policy.original - policy.keep)
    band = {"x": left, "y": _TOP, "width": axis.place(policy.original) - left, "height": floor - _TOP}
    return [element("rect", **band, class_="allowed")]


def _original(axis: _Axis, policy: PolicySummary, floor: float) -> list[Markup]:
    if policy.original is None:
        return []
    x = axis.place(policy.original)
    anchor = "end" if x > _WIDTH * 0.75 else "start" if x < _WIDTH * 0.25 else "middle"
    return [
        line(x, _TOP - 8, x, floor, "decision"),
        text(x, _TOP - 12, f"original {_figure(policy.original, policy)}", anchor=anchor, class_="tick"),
    ]


def _label(candidates: Sequence[RecipeSummary], levels: Sequence[str], policy: PolicySummary) -> str:
    """Return the text alternative: what is selected, and which candidates are on the frontier, by guarantee."""
    chosen = next((c.name for c in candidates if c.chosen), "none")
    sentences = [f"The candidates by guarantee and {_axis_name(policy)}. Selected: {chosen}."]
    for level in levels:
        best = [
            f"{c.name} ({_figure(_kept(c, policy), policy)})"
            for c in proven_candidates(candidates)
            if c.guarantee == level and c.on_frontier
        ]
        if best:
            sentences.append(f"On the frontier, proven for {level}: {'; '.join(best)}.")
    if policy.original is not None:
        sentences.append(f"The original network: {_figure(policy.original, policy)}.")
    return " ".join([*sentences, "The table below has the figures."])
