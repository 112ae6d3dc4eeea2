"""Bounds of a network over boxes of inputs: interval and linear (CROWN), vectorised and differentiable."""

from fairmend.bounds.linear import METHODS, Boxes, Forms, Propagation, feature_bounds, propagate
from fairmend.bounds.relaxation import Lines, apply, relax

__all__ = [
    "METHODS",
    "Boxes",
    "Forms",
    "Lines",
    "Propagation",
    "apply",
    "feature_bounds",
    "propagate",
    "relax",
]
