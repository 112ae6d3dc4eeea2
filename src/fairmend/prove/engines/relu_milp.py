"""The network over one box as mixed-integer constraints, and the unit intervals that these need.

The encoding is that of Tjeng, Xiao and Tedrake (2019), "Evaluating Robustness of Neural Networks with Mixed Integer
Programming", with which the paper measures CUR: one binary for each unit that can be on either side of its kink. Its
coefficients are rounded, so it guides a proof and is none. The intervals are rigorous.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmend.arrays import Bools, FloatArray, Floats, Ints
from fairmend.bounds.dual import Interval, Intervals, line_slopes
from fairmend.bounds.rigorous import Slopes, rigorous_bounds
from fairmend.milp import MilpBuilder
from fairmend.network import Network

__all__ = ["EncodedLayer", "EncodedNetwork", "encode_network", "unit_intervals"]


def unit_intervals(net: Network, lower: FloatArray, upper: FloatArray) -> Intervals:
    """Return rigorous intervals (boxes, units) of each layer before its activation, over boxes (boxes, inputs)."""
    found: Intervals = []
    slopes: list[Slopes] = []
    for layer, activation in enumerate(net.activations):
        until = Network(net.affines[: layer + 1], net.activations[:layer])
        low, high = rigorous_bounds(until, lower, upper, slopes)
        found.append((low, high))
        slopes.append(Slopes(*line_slopes(activation, low, high)))
    return found


class EncodedLayer(NamedTuple):
    """The units of a layer that can be on either side of their kink, (k,), with their variables and rows.

    outputs, active : the variables of the unit's output, and of its side: 1 above the kink, 0 below
    rows : (r, k), the rows that mention the unit's input z
    slopes : (r, 1), the coefficient of -z in these rows
    """

    units: Ints
    outputs: Ints
    active: Ints
    rows: Ints
    slopes: Floats


class EncodedNetwork(NamedTuple):
    """A network over one box: its logits are A·v + c in the builder's variables v, the first of which are `inputs`.

    `layers` has one entry for each activation, or None if no unit of it needs a variable.
    """

    builder: MilpBuilder
    inputs: Ints
    A: Floats
    c: Floats
    layers: list[EncodedLayer | None]


def encode_network(
    net: Network, A: Floats, c: Floats, highest: Floats, whole: Bools, units: Intervals
) -> EncodedNetwork:
    """Return the network over x = A·t + c, 0 <= t <= highest: A (inputs, varying), c (inputs,), the rest (varying,).

    Where `whole`, t takes whole numbers only. `units` holds intervals (units,) of this box. A stable unit is its own
    linear expression and needs no variable; an unstable one, y = max(z, s·z) with z in [l, u], becomes

        y >= z,   y >= s·z,   y <= z - (1 - s)·l·(1 - a),   y <= s·z + (1 - s)·u·a,   a binary.
    """
    builder = MilpBuilder()
    inputs = builder.add_variables(len(highest), 0.0, highest, integer=whole)
    layers: list[EncodedLayer | None] = []
    for layer, affine in enumerate(net.affines):
        weight = affine.weight.astype(np.float64)
        A, c = weight @ A, weight @ c + affine.bias
        if layer < len(net.activations):
            encoded = None
            if net.activations[layer].name != "identity":
                A, c, encoded = _kinked(builder, net.activations[layer].slope, A, c, units[layer])
            layers.append(encoded)
    return EncodedNetwork(builder, inputs, A, c, layers)


def _kinked(
    builder: MilpBuilder, slope: float, A: Floats, c: Floats, z: Interval
) -> tuple[Floats, Floats, EncodedLayer | None]:
    """Return max(z, slope·z) for z = A·v + c, and add the variables and rows that it needs."""
    low, high = z
    unstable = np.flatnonzero((low < 0) & (high > 0))
    factor = np.where(low >= 0, 1.0, slope)
    before, count = A.shape[1], len(unstable)
    after = np.zeros((len(c), before + 2 * count))
    after[:, :before] = A * factor[:, None]
    constant = c * factor
    if not count:
        return after, constant, None
    z_A, shift, low, high = A[unstable], c[unstable], low[unstable], high[unstable]
    outputs = builder.add_variables(count, slope * low if slope > 0 else 0.0, high)
    active = builder.add_variables(count, 0.0, 1.0, integer=True)
    every = np.arange(before + 2 * count)
    one, none = np.eye(count), np.zeros((count, count))
    drop, rise = (1 - slope) * low, (1 - slope) * high
    rows = np.stack(
        [
            builder.add_rows(every, np.hstack([-z_A, one, none]), lower=shift),
            builder.add_rows(every, np.hstack([-slope * z_A, one, none]), lower=slope * shift),
            builder.add_rows(every, np.hstack([-z_A, one, -np.diag(drop)]), upper=shift - drop),
            builder.add_rows(every, np.hstack([-slope * z_A, one, -np.diag(rise)]), upper=slope * shift),
        ]
    )
    after[unstable] = 0.0
    constant[unstable] = 0.0
    after[unstable, before + np.arange(count)] = 1.0
    slopes = np.array([[1.0], [slope], [1.0], [slope]])
    return after, constant, EncodedLayer(unstable, outputs, active, rows, slopes)
