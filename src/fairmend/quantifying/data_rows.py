"""People in the data: which cell each falls into, and what is proven about these cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.quantifying.decide import CELLS, Decider
from fairmend.spec import Feature, Spec
from fairmend_check.shares.people import Axis, Boxes, People
from fairmend_check.shares.prove import is_blind

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


def find_cells(people: People, spec: Spec, X: FloatArray) -> Ints:
    """Return the cells ``(rows, axes)`` of valid inputs."""
    features = {feature.name: feature for feature in spec.features}
    return np.stack(
        [_cells_of(features[axis.feature.name], axis, X[:, spec.columns(axis.feature.name)]) for axis in people.axes],
        axis=1,
    )


def _cells_of(feature: Feature, axis: Axis, columns: FloatArray) -> Ints:
    if feature.categories:
        cell_of_code = np.argsort(axis.codes(np.arange(axis.cells)))
        return cell_of_code[feature.category_of(columns) if feature.one_hot else _codes(feature, columns)]
    values = feature.nearest(columns[:, 0])
    low, high = feature.bounds
    if feature.kind != "continuous":
        return np.clip(values - low, 0, high - low).astype(np.int64)
    if low == high:
        return np.zeros(len(columns), np.int64)
    return np.clip(np.floor((values - low) / (high - low) * CELLS), 0, CELLS - 1).astype(np.int64)


def _codes(feature: Feature, columns: FloatArray) -> Ints:
    return np.clip(feature.nearest(columns[:, 0]), *feature.bounds).astype(np.int64)


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
        decider = Decider(network, spec, pieces)
        people = decider.people
        if is_blind(decider.model, people):
            return DataShares(len(cells), 0, 0)
        error, step = decider.prover.errors(people.everyone)[0], max(1, _BATCH // len(people.pieces.first))
        rest = np.flatnonzero(verdict == 0)
        for start in range(0, len(rest), step):
            if not in_time():
                break
            rows = rest[start : start + step]
            found = decider.decide(Boxes(unique[rows], unique[rows]), np.full(len(rows), error)).counts
            verdict[rows] = (found.fair == 1).astype(np.int64) - (found.unfair == 1)  # a cell is decided as a whole
            if progress is not None:
                progress("rows", min(start + step, len(rest)), len(rest))
    fair, unfair = (int(counts[verdict == answer].sum()) for answer in (1, -1))
    return DataShares(fair, unfair, len(cells) - fair - unfair)
