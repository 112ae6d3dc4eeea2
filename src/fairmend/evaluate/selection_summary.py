"""The choice that auto made, in sentences: the policy, the recipes not run, and what may help after a collapse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.text import listed, number
from fairmend.spec import Spec

if TYPE_CHECKING:  # these import PyTorch
    from fairmend.repairing.options import Policy
    from fairmend.repairing.result import RepairResult
    from fairmend.repairing.selection import Candidate


_LARGE = 10.0
"""Inputs beyond this are not scaled: standardized values hardly ever reach it."""


def describe_policy(policy: Policy, measure: str = "balanced accuracy") -> str:
    """Return how the policy selects a candidate, in a sentence or two; `measure` is the accuracy that it looks at."""
    points = f"{number(100 * policy.keep)} point{'' if policy.keep == 0.01 else 's'}"
    first = "or the first of those that are not clearly different"
    if policy.prefer == "accuracy":
        figures = f"{measure} is at most {number(policy.keep)}"
        if measure != "R²":
            figures = f"accuracy and {measure} are at most {points}"
        kept = f"whose {figures} below the original network's"
        most = f"keeps the most {measure}, {first}"
    else:
        kept = f"whose agreement with the original network's decisions is at most {points} below 100 %"
        most = f"keeps the most of its decisions, {first}"
    if policy.guarantee == "everyone":
        return f"Only a proof for everyone counts. Of the candidates {kept}, auto takes the one that {most}."
    if policy.guarantee == "listed":
        return f"A proof for the repair inputs is enough. Of the candidates {kept}, auto takes the one that {most}."
    return f"Of the candidates {kept}, auto takes those with the strongest guarantee, and of these the one that {most}."


def accuracy_measure(result: RepairResult) -> str:
    """Return what the candidates' ``balanced_accuracy`` is: for a regression network, R²."""
    return "R²" if result.original_accuracy is None else "balanced accuracy"


def was_run(candidate: Candidate) -> bool:
    """Return whether the recipe was run and evaluated."""
    return not candidate.problem.startswith(("not run", "time limit"))


def describe_unrun(candidates: Sequence[Candidate]) -> str:
    """Return how many recipes were not run, and why, in one sentence; empty if all were."""
    reasons = [candidate.problem for candidate in candidates if not was_run(candidate)]
    if not reasons:
        return ""
    recipes = "1 recipe was" if len(reasons) == 1 else f"{len(reasons)} recipes were"
    return f"{recipes} not run: {'; '.join(dict.fromkeys(reason.removeprefix('not run: ') for reason in reasons))}."


def describe_collapse(result: RepairResult, spec: Spec, calibration_rows: int) -> str:
    """Return that the network collapsed and what would help, in one line."""
    every = "the repaired network, like every proven candidate," if result.candidates else "the repaired network"
    help_ = [f"more calibration rows than {calibration_rows:,} (--calibration-rows)"]
    if any(feature.varies and not feature.protected for feature in spec.features):
        help_.append("smaller tolerances in the spec")
    if spec.links:
        help_.append("fewer links in the spec")
    if unscaled := _unscaled(spec):
        help_.append(f"a network with scaled inputs (not scaled: {listed(unscaled)})")
    if result.policy is None:
        help_.append("method auto")
    elif result.policy.guarantee != "listed":
        help_.append("--guarantee listed, which accepts a proof for the repair inputs")
    return (
        f"Collapsed: {every} lost a class, or agrees with the original hardly more than chance would. A proof of its "
        f"fairness is worth little. What may help: {listed(help_, 'or', most=None)}."
    )


def _unscaled(spec: Spec) -> list[str]:
    numbers = [feature for feature in spec.features if not feature.one_hot]
    return [f.name for f in numbers if np.abs(f.scaled(np.array(f.bounds))).max() > _LARGE]
