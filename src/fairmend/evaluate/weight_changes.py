"""Which weights a repair changed."""

from __future__ import annotations

import numpy as np

from fairmend.evaluate.document import Dumbbell, LayerChange, Weights
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.text import short

MOST_COLUMNS, MOST_UNITS = 30, 40


def weight_changes(before: Network, after: Network, spec: Spec) -> Weights:
    """Compare two networks of one shape."""
    columns = _columns(before, after, spec)
    head = _head(before, after)
    return Weights(
        _layers(before, after),
        _chosen(columns, MOST_COLUMNS),
        max(0, len(columns) - MOST_COLUMNS),
        _chosen(head, MOST_UNITS),
        max(0, len(head) - MOST_UNITS),
    )


def _layers(before: Network, after: Network) -> list[LayerChange]:
    layers = []
    for name, old, new in zip(before.names, before.affines, after.affines, strict=True):
        was, now = (np.concatenate([a.weight.ravel(), a.bias]).astype(np.float64) for a in (old, new))
        distance = np.abs(now - was)
        outputs, inputs = old.weight.shape
        changed = int((was != now).sum())
        l1, largest = float(distance.sum()), float(distance.max())
        layers.append(LayerChange(short(name), inputs, outputs, changed, len(was), l1, largest))
    return layers


def _columns(before: Network, after: Network, spec: Spec) -> list[Dumbbell]:
    """What each input weighs in the first layer: the l1 norm of its column."""
    was, now = (np.abs(net.affines[0].weight.astype(np.float64)).sum(axis=0) for net in (before, after))
    protected = np.zeros(spec.width, dtype=np.bool_)
    for feature in spec.protected:
        protected[spec.columns(feature.name)] = True
    names = spec.column_names
    return [Dumbbell(short(n), *v) for n, *v in zip(names, was.tolist(), now.tolist(), protected.tolist(), strict=True)]


def _head(before: Network, after: Network) -> list[Dumbbell]:
    """The weights and the bias of the last layer; of several outputs, class by class."""
    several = before.outputs > 1
    bells = []
    for output in range(before.outputs):
        who = f"class {output}, " if several else ""
        was, now = (net.head.weight[output].astype(np.float64).tolist() for net in (before, after))
        bells += [Dumbbell(f"{who}unit {unit + 1}", a, b) for unit, (a, b) in enumerate(zip(was, now, strict=True))]
        bells.append(Dumbbell(f"{who}bias", float(before.head.bias[output]), float(after.head.bias[output])))
    return bells


def _chosen(bells: list[Dumbbell], most: int) -> list[Dumbbell]:
    """Of too many those that changed most, the protected ones before all others; in their own order."""
    if len(bells) <= most:
        return bells
    rank = sorted(range(len(bells)), key=lambda i: (not bells[i].marked, -abs(bells[i].after - bells[i].before)))
    return [bells[i] for i in sorted(rank[:most])]
