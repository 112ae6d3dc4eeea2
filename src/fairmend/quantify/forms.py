"""Linear forms of the lead of class 1 over boxes: below it, above it, and with every rounding accounted for.

The *lead* is the logit of class 1, or the second of two logits minus the first. Lines of one slope enclose each
elementwise function from below and above, so that both forms have nearly the same coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.arrays import Floats
from fairmend.bounds.enclosure import TINY, enclose_value, gamma, largest
from fairmend.bounds.rigorous import Choice, Slopes, analyse
from fairmend.bounds.substitution import Known, Rows, lower_forms, over_box
from fairmend.network import Activation, Affine, Network
from fairmend.network.operations import Columns, Concatenate, Lookup, Scale, Sum

__all__ = ["LeadForms", "lead_forms"]


@dataclass(frozen=True, eq=False)
class LeadForms:
    """Forms with ``A_low·x + c_low <= lead <= A_high·x + c_high`` for x in a box, if evaluated exactly.

    ``A_low`` and ``A_high (n, inputs)``, the others ``(n,)``; ``least`` and ``most`` bound the lead by intervals.
    ``looseness (n, inputs)`` says how much a unit of width of each column adds to the distance of the forms, roughly.
    """

    A_low: Floats
    c_low: Floats
    A_high: Floats
    c_high: Floats
    least: Floats
    most: Floats
    looseness: Floats


@np.errstate(all="ignore")
def lead_forms(network: Network, lower: Floats, upper: Floats) -> LeadForms:
    """Return the forms over boxes ``(n, inputs)``; where numbers overflow, the constants are infinite."""
    known = analyse(network, lower, upper, _parallel(network))
    features = network.nodes[-1].sources[0]
    rows = _lead_rows(network, known, features)
    interval = over_box(rows, *known.intervals[features])
    found = lower_forms(rows, features, known)
    A = np.broadcast_to(found.A, (len(lower), 2, network.inputs))
    c = np.broadcast_to(np.nextafter(found.c - found.slack, -np.inf), (len(lower), 2))
    usable = np.isfinite(A).all(axis=2) & np.isfinite(c)
    A, c = np.where(usable[:, :, None], A, 0.0), np.where(usable, c, -np.inf)
    return LeadForms(
        A[:, 0], c[:, 0], -A[:, 1], -c[:, 1], interval[:, 0], -interval[:, 1], _looseness(network, known, rows)
    )


def _lead_rows(network: Network, known: Known, features: int) -> Rows:
    """Return the lead and its negative as functions of what the head reads."""
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    if network.outputs == 1:
        A, c = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
        return Rows(A[None], c[None], np.zeros((1, 2)))
    A, c = weight[[1, 0]] - weight[[0, 1]], bias[[1, 0]] - bias[[0, 1]]
    # The differences of weights are rounded; the slack accounts for that.
    slack = gamma(2) * (largest(*known.intervals[features]) @ np.abs(A).T + np.abs(c)) + TINY
    return Rows(A[None], c[None], slack)


def _parallel(network: Network) -> Choice:
    """Return slopes that are the same below and above: those of the chord."""
    functions = [network.nodes[i].operation for i in network.functions]

    def choose(number: int, low: Floats, high: Floats) -> Slopes:
        activation = functions[number]
        assert isinstance(activation, Activation)
        rise = enclose_value(activation, high)[0] - enclose_value(activation, low)[0]
        slope = np.where(high > low, rise / (high - low), 0.0)
        slope = np.where(np.isfinite(slope), slope, 0.0)
        return Slopes(slope, slope)

    return choose


def _looseness(network: Network, known: Known, rows: Rows) -> Floats:
    """Return how much each input column adds to the distance between the forms; a heuristic, for splitting only.

    Backward go how much the lead changes with each unit, and how much of the distance comes through it.
    """
    pieces = len(known.box[0])
    sensitivity: dict[int, Floats] = {}
    blame: dict[int, Floats] = {}
    _add(sensitivity, network.nodes[-1].sources[0], np.broadcast_to(np.abs(rows.A[:, 0]), (pieces, rows.A.shape[2])))
    for i in range(len(network.nodes) - 2, 0, -1):
        if i not in sensitivity:
            continue
        node, s = network.nodes[i], sensitivity.pop(i)
        b = blame.pop(i, np.zeros_like(s))
        operation, source = node.operation, node.sources[0]
        if isinstance(operation, Activation):
            low, high = known.intervals[source]
            lines = known.lines[i]
            gap = np.maximum(lines.upper_intercept - lines.lower_intercept, 0.0)
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
