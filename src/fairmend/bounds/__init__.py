"""Bounds of a network over boxes of inputs, to train and to search with. Nothing here is a proof.

In PyTorch and differentiable in the weights:

- `linear`: interval and linear (CROWN) bounds, of the forms in `forms`; `symbols` is for wide networks, `stacked`
  for GPUs
- `forward`: the network itself

They are rounded as they come. What is proven is decided by `fairmend_check.kernel` (`prove.kernel_bounds`).
"""

from fairmend.bounds.linear import METHODS, Boxes, Forms, Propagation, feature_bounds, propagate

__all__ = ["METHODS", "Boxes", "Forms", "Propagation", "feature_bounds", "propagate"]
