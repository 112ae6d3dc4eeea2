"""Linear forms of the network below the leads of its classes, over boxes, with every rounding accounted for.

The *lead* of a class over another is the difference of their logits; with a single logit, the lead of class 1 is the
logit, and that of class 0 its negative. A class is predicted where all of its leads are above 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.bounds.enclosure import TINY, enclose_value, gamma, largest
from fairmend.bounds.rigorous import Choice, Slopes, analyse
from fairmend.bounds.substitution import Known, Rows, both_signs, lower_forms, over_box
from fairmend.network import Activation, Affine, Network
from fairmend.network.functions.kinked import Kinked
from fairmend.network.operations import Columns, Concatenate, Lookup, Scale, Sum


@dataclass(frozen=True, eq=False)
class LeadForms:
    """Forms with ``A·x + c <= lead`` for x in a box, if evaluated exactly: one for each of `leads`.

    ``A (n, leads, inputs)``, ``c (n, leads)``; ``least (n, leads)`` bounds the leads by intervals. ``looseness (n,
    inputs)`` says how much a unit of width of each column adds to the distance of the forms from the leads, roughly.
    """

    A: Floats
    c: Floats
    least: Floats
    looseness: Floats


def leads(network: Network) -> Ints:
    """Return the class and the other class of each lead: ``(leads, 2)``."""
    classes = max(2, network.outputs)
    if classes == 2:
        return np.array([[1, 0], [0, 1]])
    return np.array([[k, j] for k in range(classes) for j in range(classes) if j != k])


@np.errstate(all="ignore")
def lead_forms(network: Network, lower: Floats, upper: Floats, *, outputs: bool = False) -> LeadForms:
    """Return the forms over boxes ``(n, inputs)``; where numbers overflow, the constants are infinite.

    With ``outputs``, they are forms below each output and then below each negative output instead.
    """
    known = analyse(network, lower, upper, _tight(network))
    features = network.nodes[-1].sources[0]
    rows = both_signs(network.head.weight, network.head.bias) if outputs else _lead_rows(network, known, features)
    interval = over_box(rows, *known.intervals[features])
    found = lower_forms(rows, features, known)
    count = rows.A.shape[1]
    A = np.broadcast_to(found.A, (len(lower), count, network.inputs))
    c = np.broadcast_to(np.nextafter(found.c - found.slack, -np.inf), (len(lower), count))
    usable = np.isfinite(A).all(axis=2) & np.isfinite(c)
    A, c = np.where(usable[:, :, None], A, 0.0), np.where(usable, c, -np.inf)
    return LeadForms(A, c, interval, _looseness(network, known, rows))


def _lead_rows(network: Network, known: Known, features: int) -> Rows:
    """Return the leads as functions of what the head reads."""
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    if network.outputs == 1:
        A, c = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
        return Rows(A[None], c[None], np.zeros((1, 2)))
    own, other = leads(network).T
    A, c = weight[own] - weight[other], bias[own] - bias[other]
    # The differences of weights are rounded; the slack accounts for that.
    slack = gamma(2) * (largest(*known.intervals[features]) @ np.abs(A).T + np.abs(c)) + TINY
    return Rows(A[None], c[None], slack)


def _tight(network: Network) -> Choice:
    """Return slopes of the chord, and on the other side of a kink the tangent in the middle of the interval."""
    functions = [network.nodes[i].operation for i in network.functions]

    def choose(number: int, low: Floats, high: Floats) -> Slopes:
        activation = functions[number]
        assert isinstance(activation, Activation)
        rise = enclose_value(activation, high)[0] - enclose_value(activation, low)[0]
        slope = np.where(high > low, rise / (high - low), 0.0)
        slope = np.where(np.isfinite(slope), slope, 0.0)
        function = activation.function
        if not isinstance(function, Kinked):
            return Slopes(slope, slope)
        tangent = function.derivative(low + high, slope)
        convex = np.asarray(function.negative) <= 1
        return Slopes(np.where(convex, tangent, slope), np.where(convex, slope, tangent))

    return choose


def _looseness(network: Network, known: Known, rows: Rows) -> Floats:
    """Return how much each input column adds to the distance between the forms; a heuristic, for splitting only.

    Backward go how much the lead changes with each unit, and how much of the distance comes through it.
    """
    pieces = len(known.box[0])
    sensitivity: dict[int, Floats] = {}
    blame: dict[int, Floats] = {}
    _add(
        sensitivity,
        network.nodes[-1].sources[0],
        np.broadcast_to(np.abs(rows.A).mean(axis=1), (pieces, rows.A.shape[2])),
    )
    for i in range(len(network.nodes) - 2, 0, -1):
        if i not in sensitivity:
            continue
        node, s = network.nodes[i], sensitivity.pop(i)
        b = blame.pop(i, np.zeros_like(s))
        operation, source = node.operation, node.sources[0]
        if isinstance(operation, Activation):
            low, high = known.intervals[source]
            lines = known.lines[i]
            middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, 0.0)
            tilt = (lines.upper_slope - lines.lower_slope) * middle
            gap = np.maximum(tilt + lines.upper_intercept - lines.lower_intercept, 0.0)
            slope = np.abs(lines.upper_slope)
            own = np.where(high > low, s * gap / (high - low), 0.0)
            _add(sensitivity, source, s * slope)
            _add(blame, source, b * slope + own)
        elif isinstance(operation, Affine):
            weight = np.abs(operation.weight.astype(np.float64))
            _add(sensitivity, source, s @ weight)
            _add(blame, source, b @ weight)
        elif isinstance(operation, Scale):
            factor = np.abs(operation.factor.astype(np.float64))
            _add(sensitivity, source, s * factor)
            _add(blame, source, b * factor)
        elif isinstance(operation, Sum):
            for each in node.sources:
                _add(sensitivity, each, s)
                _add(blame, each, b)
        elif isinstance(operation, Concatenate):
            ends = np.cumsum([network.widths[each] for each in node.sources])[:-1]
            parts = zip(node.sources, np.split(s, ends, axis=1), np.split(b, ends, axis=1), strict=True)
            for each, part, of_blame in parts:
                _add(sensitivity, each, part)
                _add(blame, each, of_blame)
        elif isinstance(operation, Columns):
            place = np.eye(network.widths[source])[list(operation.indices)]
            _add(sensitivity, source, s @ place)
            _add(blame, source, b @ place)
        elif isinstance(operation, Lookup):
            low, high = known.intervals[i]
            index_low, index_high = known.intervals[source]
            spread = (s * (high - low)).sum(axis=1, keepdims=True)
            _add(sensitivity, source, np.zeros((pieces, 1)))
            _add(blame, source, np.where(index_high > index_low, spread / (index_high - index_low), 0.0))
        else:
            raise NotImplementedError(f"the looseness of {operation.kind}")
    found = blame.get(0, np.zeros((pieces, network.inputs)))
    return np.where(np.isfinite(found), found, 0.0)


def _add(into: dict[int, Floats], node: int, values: Floats) -> None:
    into[node] = into[node] + values if node in into else values
