"""People in the data: which cell each falls into, and what is proven about these cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.quantifying.score_decide import make_decider
from fairmend.quantifying.space import Axis, Boxes, Space, make_space
from fairmend.spec import Spec

_PIECES = (8, 64)
_BATCH = 2048  # boxes at a time


@dataclass(frozen=True)
class DataShares:
    """How many rows of the data are proven to be treated equally and unequally, and how many are undecided."""

    fair: int
    unfair: int
    undecided: int

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.fair + self.unfair + self.undecided


def find_cells(space: Space, X: FloatArray) -> Ints:
    """Return the cells ``(rows, axes)`` of valid inputs."""
    columns = [X[:, space.spec.columns(axis.feature.name)] for axis in space.axes]
    return np.stack([_cells_of(axis, own) for axis, own in zip(space.axes, columns, strict=True)], axis=1)


def _cells_of(axis: Axis, columns: FloatArray) -> Ints:
    feature = axis.feature
    if feature.one_hot:
        return feature.category_of(columns)
    values = feature.nearest(columns[:, 0])
    low, high = feature.bounds
    if feature.kind == "continuous" and high > low:
        values = np.floor((values - low) / (high - low) * axis.cells)
    else:
        values = values - low
    return np.clip(values, 0, axis.cells - 1).astype(np.int64)


def prove_cells(
    network: Network,
    spec: Spec,
    cells: Ints,
    in_time: Callable[[], bool] = lambda: True,
    progress: Progress | None = None,
) -> DataShares:
    """Return how many rows are in cells that are proven to be treated equally, and unequally.

    Cells that are undecided with few pieces of protected values are decided again with more of them, as long as it is
    still ``in_time``; the cells that are left then are undecided.
    """
    unique, counts = np.unique(cells, axis=0, return_counts=True)
    verdict = np.zeros(len(unique), np.int64)  # 1 equally, -1 unequally, 0 undecided
    for pieces in _PIECES:
        space = make_space(network, spec, pieces)
        if not space.matters(network):
            return DataShares(len(cells), 0, 0)
        decider = make_decider(network, space)
        error, step = decider.root_error(), max(1, _BATCH // space.pieces)
        rest = np.flatnonzero(verdict == 0)
        for start in range(0, len(rest), step):
            if not in_time():
                break
            rows = rest[start : start + step]
            found = decider.decide(Boxes(unique[rows], unique[rows]), np.full(len(rows), error))
            verdict[rows] = _whole(space, found.fair).astype(np.int64) - _whole(space, found.unfair)
            if progress is not None:
                progress("rows", min(start + step, len(rest)), len(rest))
    fair, unfair = (int(counts[verdict == answer].sum()) for answer in (1, -1))
    return DataShares(fair, unfair, len(cells) - fair - unfair)


def _whole(space: Space, share: np.ndarray) -> np.ndarray:
    """Return where a lower bound of the share of a cell shows that it is all of it.

    A cell of whole numbers and categories is one person, so any part of it is all of it.
    """
    one_person = all(axis.feature.kind != "continuous" or axis.cells == 1 for axis in space.axes)
    return np.asarray(share > 0.5 if one_person else share == 1)
