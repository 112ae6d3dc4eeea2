"""Linear relaxations of activations: two lines that enclose the function on an interval.

ReLU follows CROWN (Zhang et al., 2018), and LeakyReLU is its convex combination with the identity. Tanh and sigmoid
take tangent and chord if the curvature has one sign, and the DeepPoly rule (Singh et al., 2019) if it changes. The
others take the lines of least area. All of it is differentiable, because step 1 trains through it. The mathematics of
each function is in its own file, in `fairmend.network.functions`.
"""

from __future__ import annotations

from torch import Tensor

from fairmend.network import Activation
from fairmend.network.functions import Lines

__all__ = ["Lines", "apply_activation", "relax"]


def apply_activation(activation: Activation, z: Tensor) -> Tensor:
    """Return f(z) for an activation f."""
    return activation.function.torch(z)


def relax(activation: Activation, lower: Tensor, upper: Tensor) -> Lines:
    """Return lines that enclose the activation on ``[lower, upper]``, elementwise."""
    return activation.function.relax(lower, upper)
