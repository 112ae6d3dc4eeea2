"""Bounds of a network over boxes of inputs, to train and to search with. Nothing here is a proof.

In PyTorch and differentiable in the weights:

- `linear`: interval and linear (CROWN) bounds, of the forms in `forms`; `symbols` is for wide networks, `stacked` and
  `fused` for GPUs
- `forward`: the network itself

They are rounded as they come. What is proven is decided by `fairmend_check.kernel` (`prove.kernel_bounds`).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmend.bounds.linear import METHODS, Boxes, Forms, Propagation, feature_bounds, propagate

__all__ = ["METHODS", "Boxes", "Forms", "Propagation", "feature_bounds", "propagate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fairmend.bounds import linear  # PyTorch comes with it

    return getattr(linear, name)
