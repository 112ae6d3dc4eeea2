"""Bounds of a network over boxes of inputs.

Interval and linear (CROWN) bounds, vectorised and differentiable, to repair with; and rigorous ones, to prove with.
"""

from fairmend.bounds.linear import METHODS, Boxes, Forms, Propagation, feature_bounds, propagate
from fairmend.bounds.relaxation import Lines, apply, relax
from fairmend.bounds.rigorous import (
    Slopes,
    choose_slopes,
    rigorous_bounds,
    rigorous_differences,
    rigorous_point_logits,
    slopes_from,
)

__all__ = [
    "METHODS",
    "Boxes",
    "Forms",
    "Lines",
    "Propagation",
    "Slopes",
    "apply",
    "choose_slopes",
    "feature_bounds",
    "propagate",
    "relax",
    "rigorous_bounds",
    "rigorous_differences",
    "rigorous_point_logits",
    "slopes_from",
]
