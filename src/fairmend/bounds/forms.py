"""Boxes of inputs, and linear forms of the numbers in a network over them, for `linear`.

Step 1 runs this some hundred times on small networks, where the number of tensor operations is the cost, so the layout
keeps that number small: a linear form has coefficients only for the columns that vary, these are scaled to [-1, 1], and
value and slopes are stacked in one tensor. A whole layer is one matrix product, and concretising is a sum of absolute
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairmend.network.functions import Lines

Interval = tuple[Tensor, Tensor]
"""Lower and upper ends, each ``(pieces, units)``."""


class Boxes(NamedTuple):
    """Boxes of inputs, x = centre + sum_k t_k * (radius_k * unit vector of column k) with every t_k in [-1, 1].

    ``rows (1 + varying, pieces, inputs)`` stacks the centre and those scaled unit vectors; ``columns (varying,)``
    are the columns that vary in any box; ``first (1 + varying, 1, 1)`` is 1 for the centre and 0 elsewhere.
    """

    rows: Tensor
    columns: Tensor
    first: Tensor

    @staticmethod
    def from_arrays(lower: np.ndarray, upper: np.ndarray, dtype: torch.dtype) -> Boxes:
        """Return the boxes ``lower <= x <= upper``, each ``(pieces, inputs)``."""
        low, high = lower.astype(np.float64), upper.astype(np.float64)
        columns = np.flatnonzero((low != high).any(axis=0))
        rows = np.zeros((1 + len(columns), *low.shape))
        rows[0] = (low + high) / 2
        for position, column in enumerate(columns):
            rows[1 + position, :, column] = (high[:, column] - low[:, column]) / 2
        first = torch.zeros(len(rows), 1, 1, dtype=dtype)
        first[0] = 1
        return Boxes(torch.from_numpy(rows).to(dtype), torch.from_numpy(columns), first)

    def to(self, device: torch.device) -> Boxes:
        """Return the boxes on a device."""
        return Boxes(*(tensor.to(device) for tensor in self))


class Forms(NamedTuple):
    """Two linear forms around a vector v of units, in the scaled coordinates t of the boxes.

    ``lower[0] + sum_k t_k lower[k] <= v <= upper[0] + sum_k t_k upper[k]``; both ``(1 + varying, pieces, units)``.
    """

    lower: Tensor
    upper: Tensor

    def concretise(self) -> Interval:
        """Return the interval that the forms span over the boxes, each ``(pieces, units)``."""
        if self.lower is self.upper:
            spread = self.lower[1:].abs().sum(0)
            return self.lower[0] - spread, self.lower[0] + spread
        # One split takes less time than two slices: its gradient is one concatenation.
        slopes = [1, len(self.lower) - 1]
        (low, low_slopes), (high, high_slopes) = (form.split_with_sizes(slopes) for form in self)
        return (low - low_slopes.abs().sum(0)).squeeze(0), (high + high_slopes.abs().sum(0)).squeeze(0)

    def through(self, lines: Lines, first: Tensor, increasing: bool = True) -> Forms:
        """Return the forms of a function's output, given its lines; those of increasing functions do not fall."""
        if increasing or self.lower is self.upper:
            return Forms(
                torch.addcmul(lines.lower_slope * self.lower, first, lines.lower_intercept),
                torch.addcmul(lines.upper_slope * self.upper, first, lines.upper_intercept),
            )
        lower, upper = (
            least_of_line(lines.lower_slope, self.lower, self.upper),
            least_of_line(lines.upper_slope, self.upper, self.lower),
        )
        return Forms(
            torch.addcmul(lower, first, lines.lower_intercept), torch.addcmul(upper, first, lines.upper_intercept)
        )


def least_of_line(slope: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return slope times the lower end, or times the upper one where the slope is negative; exchange them for the most.

    ``lower`` and ``upper`` are ends or forms.
    """
    rising = slope.clamp(min=0)
    return rising * lower + (slope - rising) * upper


def signed_product(A: Tensor, where_positive: Tensor, where_negative: Tensor) -> Tensor:
    """Return ``A+ @ where_positive + A- @ where_negative`` for each piece: A ``(pieces, units, width)``."""
    positive = A.clamp(min=0)
    return torch.einsum("puw,kpw->kpu", positive, where_positive) + torch.einsum(
        "puw,kpw->kpu", A - positive, where_negative
    )


def total(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of tensors, added up in their order."""
    added = parts[0]
    for part in parts[1:]:
        added = added + part
    return added
