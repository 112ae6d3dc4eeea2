"""The network over one box as mixed-integer constraints, and the unit intervals that these need.

The encoding is that of Tjeng, Xiao and Tedrake (2019), "Evaluating Robustness of Neural Networks with Mixed Integer
Programming", with which the paper measures CUR: one binary for each unit that can be on either side of its kink.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from fairmend.arrays import Floats
from fairmend.bounds.linear import Boxes, propagate
from fairmend.milp import MilpBuilder
from fairmend.network import Network

__all__ = ["Intervals", "encode_network", "unit_intervals"]

Intervals = list[tuple[Floats, Floats]]
"""The lowest and highest value of every unit before its activation, layer by layer, each (boxes, units)."""

# Bounds in float64 lose far less than this. A unit that crosses its kink by no more counts as stable. That changes its
# output by no more, far below the tolerance on margins, while HiGHS 1.15.1 has returned a wrong optimum for constraints
# with coefficients this small.
_NEGLIGIBLE = 1e-10


def unit_intervals(net: Network, lower: Floats, upper: Floats) -> Intervals:
    """Return the intervals over boxes (boxes, inputs): the tighter of linear bounds and interval arithmetic."""
    parameters = [
        (torch.tensor(a.weight, dtype=torch.float64), torch.tensor(a.bias, dtype=torch.float64)) for a in net.affines
    ]
    boxes = Boxes.from_arrays(lower, upper, torch.float64)
    found: Intervals = []
    low, high = lower, upper
    with torch.no_grad():
        for layer, activation in enumerate(net.activations):
            weight, bias = (part.numpy() for part in parameters[layer])
            middle, spread = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ np.abs(weight).T
            forms = propagate(parameters[: layer + 1], net.activations[: layer + 1], boxes).preactivation
            linear_low, linear_high = (part.numpy() for part in forms.concretise())
            low, high = np.maximum(linear_low, middle - spread), np.minimum(linear_high, middle + spread)
            slack = _NEGLIGIBLE * (1 + np.maximum(np.abs(low), np.abs(high)))
            low, high = (
                np.where(np.abs(low) <= slack, 0.0, low - slack),
                np.where(np.abs(high) <= slack, 0.0, high + slack),
            )
            found.append((low.copy(), high.copy()))
            activation.apply(low)
            activation.apply(high)
    return found


class EncodedNetwork(NamedTuple):
    """A network over one box: its logits are A·v + c in the builder's variables v, the first of which are `inputs`."""

    builder: MilpBuilder
    inputs: npt.NDArray[np.int64]
    A: Floats
    c: Floats


def encode_network(
    net: Network, A: Floats, c: Floats, highest: Floats, whole: npt.NDArray[np.bool_], known: Intervals
) -> EncodedNetwork:
    """Return the network over x = A·t + c, 0 <= t <= highest: A (inputs, varying), c (inputs,), the rest (varying,).

    Where `whole`, t takes whole numbers only. `known` holds intervals (1, units) of this box. A stable unit is its own
    linear expression and needs no variable; an unstable one, y = max(z, s·z) with z in [l, u], becomes

        y >= z,   y >= s·z,   y <= z - (1 - s)·l·(1 - a),   y <= s·z + (1 - s)·u·a,   a binary.
    """
    builder = MilpBuilder()
    inputs = builder.add_variables(len(highest), 0.0, highest, integer=whole)
    for layer, affine in enumerate(net.affines):
        weight = affine.weight.astype(np.float64)
        A, c = weight @ A, weight @ c + affine.bias
        if layer < len(net.activations) and net.activations[layer].name != "identity":
            slope = net.activations[layer].slope
            A, c = _kinked(builder, slope, A, c, known[layer][0][0], known[layer][1][0])
    return EncodedNetwork(builder, inputs, A, c)


def _kinked(
    builder: MilpBuilder, slope: float, A: Floats, c: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Return max(z, slope·z) for z = A·v + c, and add the variables that it needs."""
    unstable = np.flatnonzero((low < 0) & (high > 0))
    factor = np.where(low >= 0, 1.0, slope)
    before, count = A.shape[1], len(unstable)
    after = np.zeros((len(c), before + 2 * count))
    after[:, :before] = A * factor[:, None]
    constant = c * factor
    if count:
        z, shift, low, high = A[unstable], c[unstable], low[unstable], high[unstable]
        smallest = np.where(slope > 0, slope * low, 0.0)
        builder.add_variables(count, smallest, high)
        builder.add_variables(count, 0.0, 1.0, integer=True)
        every = np.arange(before + 2 * count)
        one, none = np.eye(count), np.zeros((count, count))
        drop, rise = (1 - slope) * low, (1 - slope) * high
        builder.add_rows(every, np.hstack([-z, one, none]), lower=shift)
        if slope > 0:
            builder.add_rows(every, np.hstack([-slope * z, one, none]), lower=slope * shift)
        builder.add_rows(every, np.hstack([-z, one, -np.diag(drop)]), upper=shift - drop)
        builder.add_rows(every, np.hstack([-slope * z, one, -np.diag(rise)]), upper=slope * shift)
        after[unstable] = 0.0
        constant[unstable] = 0.0
        after[unstable, before + np.arange(count)] = 1.0
    return after, constant
