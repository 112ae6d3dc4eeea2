"""Interval and backward linear (CROWN) bounds of a network over many boxes at once.

Differentiable in the weights, in float32 or float64. Step 1 runs this some hundred times on small networks, where the
number of tensor operations is the cost, so the layout keeps that number small: a linear form has coefficients only for
the columns that vary, these are scaled to [-1, 1], and value and slopes are stacked in one tensor. A whole layer is one
matrix product, and concretising is a sum of absolute values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairmend.bounds.relaxation import Lines, apply_activation, relax
from fairmend.errors import FairmendError
from fairmend.network import Activation

__all__ = ["METHODS", "Boxes", "Forms", "Parameters", "Propagation", "feature_bounds", "propagate"]

Parameters = Sequence[tuple[Tensor, Tensor]]
"""The affine layers, each ``(weight (out, in), bias (out,))``."""

METHODS = ("linear", "interval")


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


class Forms(NamedTuple):
    """Two linear forms around a vector v of units, in the scaled coordinates t of the boxes.

    ``lower[0] + sum_k t_k lower[k] <= v <= upper[0] + sum_k t_k upper[k]``; both ``(1 + varying, pieces, units)``.
    """

    lower: Tensor
    upper: Tensor

    def concretise(self) -> tuple[Tensor, Tensor]:
        """Return the interval that the forms span over the boxes, each ``(pieces, units)``."""
        if self.lower is self.upper:
            spread = self.lower[1:].abs().sum(0)
            return self.lower[0] - spread, self.lower[0] + spread
        return self.lower[0] - self.lower[1:].abs().sum(0), self.upper[0] + self.upper[1:].abs().sum(0)

    def through(self, lines: Lines, first: Tensor) -> Forms:
        """Return the forms of an activation's output, given its lines, whose slopes are not negative."""
        return Forms(
            torch.addcmul(lines.lower_slope * self.lower, first, lines.lower_intercept),
            torch.addcmul(lines.upper_slope * self.upper, first, lines.upper_intercept),
        )


class Propagation(NamedTuple):
    """The result of the backward pass: forms of the last affine output, and the lines of every activation."""

    preactivation: Forms
    relaxations: list[Lines]

    def features(self, boxes: Boxes) -> Forms:
        """Return symbolic bounds of the features h = f_{1:L}(x), the paper's Eq. (def-hat-H)."""
        return self.preactivation.through(self.relaxations[-1], boxes.first)

    def feature_bounds(self) -> tuple[Tensor, Tensor]:
        """Return concrete bounds of the features, from the symbolic ones."""
        lower, upper = self.preactivation.concretise()
        lines = self.relaxations[-1]
        return (
            torch.addcmul(lines.lower_intercept, lines.lower_slope, lower),
            torch.addcmul(lines.upper_intercept, lines.upper_slope, upper),
        )


def propagate(parameters: Parameters, activations: Sequence[Activation], boxes: Boxes) -> Propagation:
    """Return linear bounds of the extractor: ``parameters`` are its affine layers, each followed by an activation.

    The lines of a layer rest on intervals from its own backward pass, except for kinked units (ReLU, LeakyReLU) that
    interval arithmetic already proves stable in every box: those keep that interval. auto_LiRPA does this to save time,
    and the paper's numbers depend on it, because the interval is the tighter one where the lower lines are loose. The
    lines of an S-shaped unit follow their interval, stable or not, so there the tighter interval matters, and its
    gradient.
    """
    first = forms = _first_layer(parameters, boxes)
    lower, upper = forms.concretise()
    interval = (lower.detach(), upper.detach())
    relaxations: list[Lines] = []
    for layer, activation in enumerate(activations):
        if layer > 0:
            forms = _backward(parameters, relaxations, layer, first, boxes.first)
            lower, upper = forms.concretise()
            with torch.no_grad():
                before = activations[layer - 1]
                interval = (apply_activation(before, interval[0]), apply_activation(before, interval[1]))
                interval = _interval_affine(*parameters[layer], *interval)
                stable = ((interval[0] >= 0) | (interval[1] <= 0)).all(dim=0)
            if activation.piecewise_linear and stable.any():
                lower, upper = torch.where(stable, interval[0], lower), torch.where(stable, interval[1], upper)
        relaxations.append(relax(activation, lower, upper))
    return Propagation(forms, relaxations)


def feature_bounds(
    parameters: Parameters, activations: Sequence[Activation], boxes: Boxes, method: str = "linear"
) -> tuple[Tensor, Tensor]:
    """Return concrete bounds of the features (ConcreteBounds of Alg. 1), each ``(pieces, units)``."""
    if method == "linear":
        return propagate(parameters, activations, boxes).feature_bounds()
    if method != "interval":
        raise FairmendError(f"unknown bounds {method!r}; use {', '.join(METHODS)}")
    lower, upper = _first_layer(parameters, boxes).concretise()
    for layer, activation in enumerate(activations):
        if layer > 0:
            lower, upper = _interval_affine(*parameters[layer], lower, upper)
        lower, upper = apply_activation(activation, lower), apply_activation(activation, upper)
    return lower, upper


def _interval_affine(weight: Tensor, bias: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return the interval of an affine layer's output, Eq. (ibp-linear)."""
    middle = torch.addmm(bias, lower + upper, weight.T, alpha=0.5)
    spread = (upper - lower) @ weight.abs().T / 2
    return middle - spread, middle + spread


def _first_layer(parameters: Parameters, boxes: Boxes) -> Forms:
    """Return the first affine layer as linear forms; they are exact."""
    weight, bias = parameters[0]
    form = torch.addcmul(boxes.rows @ weight.T, boxes.first, bias)
    return Forms(form, form)


def _backward(
    parameters: Parameters, relaxations: Sequence[Lines], layer: int, first: Forms, value_row: Tensor
) -> Forms:
    """Return the forms of the affine output ``layer``, substituted back to the forms of the ``first`` affine output."""
    weight, bias = parameters[layer]
    if layer == 1:
        # Both passes start from the same weight W, so they share a product of the forms' middle and half distance:
        # W+ a + W- b = W (a + b)/2 + |W| (a - b)/2.
        lower, upper = first.through(relaxations[0], value_row)
        middle = torch.addcmul((lower + upper) @ (weight / 2).T, value_row, bias)
        spread = (upper - lower) @ (weight / 2).abs().T
        return Forms(middle - spread, middle + spread)
    # Coefficients on the outputs of earlier layers, (pieces, units, width) once the passes differ.
    lower_A = upper_A = weight.unsqueeze(0)
    lower_value = upper_value = bias
    for earlier in range(layer - 1, 0, -1):
        lines = relaxations[earlier]
        flipped = Lines(lines.upper_slope, lines.upper_intercept, lines.lower_slope, lines.lower_intercept)
        lower_A, lower_constant = _through_activation(lower_A, lines)
        upper_A, upper_constant = _through_activation(upper_A, flipped)
        weight, bias = parameters[earlier]
        lower_value = lower_value + lower_constant + lower_A @ bias
        upper_value = upper_value + upper_constant + upper_A @ bias
        lower_A, upper_A = lower_A @ weight, upper_A @ weight
    forms = first.through(relaxations[0], value_row)
    return Forms(
        torch.addcmul(_signed_product(lower_A, forms.lower, forms.upper), value_row, lower_value),
        torch.addcmul(_signed_product(upper_A, forms.upper, forms.lower), value_row, upper_value),
    )


def _signed_product(A: Tensor, where_positive: Tensor, where_negative: Tensor) -> Tensor:
    """Return ``A+ @ where_positive + A- @ where_negative`` for each piece: A ``(pieces, units, width)``."""
    positive = A.clamp(min=0)
    return torch.einsum("puw,kpw->kpu", positive, where_positive) + torch.einsum(
        "puw,kpw->kpu", A - positive, where_negative
    )


def _through_activation(A: Tensor, lines: Lines) -> tuple[Tensor, Tensor]:
    """Replace an activation's outputs by the lower line if A is positive and by the upper line if it is negative.

    Return the new coefficients and the constant ``(pieces, units)``.
    """
    positive = A.clamp(min=0)
    negative = A - positive
    constant = positive @ lines.lower_intercept.unsqueeze(-1) + negative @ lines.upper_intercept.unsqueeze(-1)
    return (
        positive * lines.lower_slope.unsqueeze(-2) + negative * lines.upper_slope.unsqueeze(-2),
        constant.squeeze(-1),
    )
