"""Which weights a repair changed: by layer, by input column, and in the head."""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.text import short
from fairmend.evaluate.document import LayerChange, WeightChange, WeightChanges
from fairmend.network import Network
from fairmend.spec import Spec

_MOST_COLUMNS, _MOST_UNITS = 30, 40


def compare_weights(before: Network, after: Network, spec: Spec) -> WeightChanges:
    """Compare the weights of two networks of the same shape."""
    columns = _columns(before, after, spec)
    head = _head(before, after)
    return WeightChanges(
        _layers(before, after),
        _most_changed(columns, _MOST_COLUMNS),
        max(0, len(columns) - _MOST_COLUMNS),
        _most_changed(head, _MOST_UNITS),
        max(0, len(head) - _MOST_UNITS),
    )


def _layers(before: Network, after: Network) -> list[LayerChange]:
    layers = []
    for name, old, new in zip(before.names, before.affines, after.affines, strict=True):
        was, now = (affine.parameters.astype(np.float64) for affine in (old, new))
        distance = np.abs(now - was)
        outputs, inputs = old.weight.shape
        changed = int((was != now).sum())
        l1, largest = float(distance.sum()), float(distance.max())
        layers.append(LayerChange(short(name), inputs, outputs, changed, len(was), l1, largest))
    return layers


def _columns(before: Network, after: Network, spec: Spec) -> list[WeightChange]:
    """Return the l1 norm of the weights that read each input column first."""
    was, now = (_first_weights(net) for net in (before, after))
    protected = np.zeros(spec.width, dtype=np.bool_)
    for feature in spec.protected:
        protected[spec.columns(feature.name)] = True
    names = spec.column_names
    return [
        WeightChange(short(n), *v) for n, *v in zip(names, was.tolist(), now.tolist(), protected.tolist(), strict=True)
    ]


def _first_weights(net: Network) -> Floats:
    """Return the sum of the sizes of all weights that read an input column before any other weight does (inputs,).

    Look-ups count with the spread of their table.
    """
    total = np.zeros(net.inputs)
    passed: list[Ints] = []  # for each number of a node, the input column that it passes on; -1 if it is none
    for node, width in zip(net.nodes, net.widths, strict=True):
        sources, sizes = [passed[source] for source in node.sources], node.operation.weight_sizes
        if sizes is None:
            passed.append(node.operation.follow(sources, width))
        else:
            known = sources[0] >= 0
            np.add.at(total, sources[0][known], sizes[known])
            passed.append(np.full(width, -1))
    return total


def _head(before: Network, after: Network) -> list[WeightChange]:
    """Return the weights and biases of the head, class by class."""
    several = before.outputs > 1
    changes = []
    for output in range(before.outputs):
        who = f"class {output}, " if several else ""
        was, now = (net.head.weight[output].astype(np.float64).tolist() for net in (before, after))
        changes += [
            WeightChange(f"{who}unit {unit + 1}", a, b) for unit, (a, b) in enumerate(zip(was, now, strict=True))
        ]
        if before.head.derived_bias is None:
            changes.append(WeightChange(f"{who}bias", float(before.head.bias[output]), float(after.head.bias[output])))
    return changes


def _most_changed(changes: list[WeightChange], most: int) -> list[WeightChange]:
    """Return at most `most` of them, in their own order: protected columns first, then those that changed most."""
    if len(changes) <= most:
        return changes
    rank = sorted(
        range(len(changes)), key=lambda i: (not changes[i].marked, -abs(changes[i].after - changes[i].before))
    )
    return [changes[i] for i in sorted(rank[:most])]
