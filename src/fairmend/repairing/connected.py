"""Neighbourhoods that share people must get one prediction: which are connected, and which rows are in them.

A proof for the repair inputs gives each of their neighbourhoods one prediction. Where two of them overlap, someone is
in both, so both have the same prediction, and so on along a chain (2 ~ 3 ~ 4 prior offences …). In data with few
different people most neighbourhoods are connected to others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Bools, FloatArray, Ints
from fairmend.spec.neighbourhoods import Regions

_ROUNDING = 1e-6
"""The relative distance by which ends that are equal may differ in float32."""


def connected_groups(regions: Regions) -> Ints:
    """Return the number of the group that each input belongs to, ``(inputs,)``: from 0, in the order of the inputs.

    Two inputs belong to one group if their neighbourhoods overlap, or if a chain of others connects them.
    """
    owner = regions.owner
    group = np.arange(regions.count)
    for piece, others in _overlaps(regions, regions.lower, regions.upper):
        joined = np.unique(group[owner[[piece, *others]]])
        group[np.isin(group, joined)] = joined[0]
    return np.asarray(np.unique(group, return_inverse=True)[1])


def groups_of_rows(X: FloatArray, regions: Regions, groups: Ints) -> Ints:
    """Return the group of the neighbourhoods that contain each row, ``(rows,)``; -1 for rows that are in none."""
    found = np.full(len(X), -1)
    for piece, rows in _overlaps(regions, X, X):
        found[rows] = groups[regions.owner[piece]]
    return found


def _overlaps(regions: Regions, lower: FloatArray, upper: FloatArray) -> list[tuple[int, Ints]]:
    """Return for each piece the numbers of the boxes lower..upper that overlap with it, ``[(piece, boxes), …]``."""
    varies = (regions.lower < regions.upper).any(axis=0) | (lower < upper).any(axis=0)
    places = _same_values(np.concatenate([regions.lower[:, ~varies], lower[:, ~varies]]))
    own, theirs = np.split(places, [len(regions.lower)])
    order = np.argsort(theirs, kind="stable")
    ends = np.searchsorted(theirs[order], np.stack([own, own + 1]))
    found = []
    for piece, (first, last) in enumerate(ends.T):
        boxes = order[first:last]
        low, high = regions.lower[piece, varies], regions.upper[piece, varies]
        found.append((piece, boxes[_touch(low, high, lower[boxes][:, varies], upper[boxes][:, varies])]))
    return found


def _same_values(values: FloatArray) -> NDArray[np.intp]:
    """Return a number for each row, which is the same for equal rows: ``(rows,)``."""
    if values.shape[1] == 0:
        return np.zeros(len(values), dtype=np.intp)
    return np.asarray(np.unique(values, axis=0, return_inverse=True)[1]).reshape(-1)


def _touch(low: FloatArray, high: FloatArray, lower: FloatArray, upper: FloatArray) -> Bools:
    """Return which of the boxes lower..upper ``(boxes, columns)`` overlap with the box low..high ``(columns,)``."""
    slack = _ROUNDING * (1 + np.abs(low))
    return np.asarray(((lower <= high + slack) & (upper >= low - slack)).all(axis=1))
