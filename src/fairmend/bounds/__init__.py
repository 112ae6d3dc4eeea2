"""Bounds of a network over boxes of inputs.

To prove with, in NumPy with every rounding error accounted for:

- `rigorous`: bounds of the logits over boxes and at points (`enclosure` bounds the activations, `pieces` the memory)
- `dual`: bounds of piecewise linear networks from the multipliers of a linear program
- `inference`: how far floating-point inference can be from real arithmetic

To repair with, in PyTorch and differentiable in the weights:

- `linear`: interval and linear (CROWN) bounds (of `forms`; `relaxation` encloses the activations in lines)
- `forward`: the network itself
- `slopes`: the slopes of these lines, for `rigorous`

Other parts import these names from here, or from the modules. PyTorch is loaded once a name that needs it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairmend.bounds.inference import closing_error, inference_error
from fairmend.bounds.rigorous import Slopes, rigorous_bounds, rigorous_differences, rigorous_point_logits

if TYPE_CHECKING:
    from fairmend.bounds.linear import METHODS, Boxes, Forms, Propagation, feature_bounds, propagate
    from fairmend.bounds.relaxation import Lines, apply_activation, relax
    from fairmend.bounds.slopes import choose_slopes, slopes_from

__all__ = [
    "METHODS",
    "Boxes",
    "Forms",
    "Lines",
    "Propagation",
    "Slopes",
    "apply_activation",
    "choose_slopes",
    "closing_error",
    "feature_bounds",
    "inference_error",
    "propagate",
    "relax",
    "rigorous_bounds",
    "rigorous_differences",
    "rigorous_point_logits",
    "slopes_from",
]

_WITH_TORCH = {
    "linear": ("METHODS", "Boxes", "Forms", "Propagation", "feature_bounds", "propagate"),
    "relaxation": ("Lines", "apply_activation", "relax"),
    "slopes": ("choose_slopes", "slopes_from"),
}
_MODULES = {name: f"fairmend.bounds.{module}" for module, names in _WITH_TORCH.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
