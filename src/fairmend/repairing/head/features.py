"""Feature sets: enclosures of the head's features over a neighbourhood, and the extremes of a linear head over them.

Every variant has the same form. *Vertices*, pairs of vectors ``below <= above``, enclose the features of a
neighbourhood, such that for any split w = p - n of the head's weights with p, n >= 0

    min over the features of w·h  >=  min over the vertices of  p·below - n·above,

with equality over the enclosing set at p = max(w, 0), n = max(-w, 0). For `Linear` this is the closed form of the
paper's LP dual (its vertices are the corners of the box of inputs), for `Box` the naive method (one vertex), for
`Points` the exact minimum (below = above). For the maximum, exchange p and n.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from fairmend.base.arrays import Floats, Ints
from fairmend.base.device import current_device
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU, memory_of, run_in_parts
from fairmend.base.threads import few_threads
from fairmend.bounds import Boxes, Forms, propagate
from fairmend.network import Network
from fairmend.prove.proof import most_points
from fairmend.repairing.training import step_entries
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions, describe_count

ALL_VERTICES_UP_TO = 16
"""A region with at most this many vertices lists all of them; a larger one returns the active vertex only."""

MOST_POINTS = 5_000_000
"""More exact points than this are refused: their features would not fit the memory of a laptop."""


class Vertices(NamedTuple):
    """Some vertices of a region, ``below`` and ``above (vertices, dimension)``, and whether these are all of them."""

    below: Floats
    above: Floats
    complete: bool


class FeatureSet(ABC):
    """The features of ``count`` neighbourhoods, in pieces; piece k belongs to region ``owner[k]``."""

    owner: Ints

    def __init__(self, owner: Ints, count: int, dimension: int) -> None:
        """Take ``owner (pieces,)``, sorted, in which every region occurs."""
        self.owner, self.count, self.dimension = owner, count, dimension
        self._starts = np.searchsorted(owner, np.arange(count))

    def lowest(self, p: Floats, n: Floats) -> Floats:
        """Return the smallest ``p·below - n·above`` over the vertices of each region, ``(count,)``.

        With p and n ``(dimension, directions)`` it is ``(count, directions)``.
        """
        return np.minimum.reduceat(self._lowest(p, n), self._starts)

    def vertices(self, region: int, p: Floats, n: Floats) -> Vertices:
        """Return all vertices of a region if they are few, else the one where ``p·below - n·above`` is smallest."""
        end = self._starts[region + 1] if region + 1 < self.count else len(self.owner)
        return self._vertices(slice(self._starts[region], end), p, n)

    @property
    @abstractmethod
    def values(self) -> int:
        """How many values `lowest` computes for each direction."""

    def magnitude(self) -> Floats:
        """Return the largest absolute feature in each region, ``(count,)``."""
        return np.maximum.reduceat(self._magnitude(), self._starts)

    @abstractmethod
    def _lowest(self, p: Floats, n: Floats) -> Floats: ...

    @abstractmethod
    def _vertices(self, pieces: slice, p: Floats, n: Floats) -> Vertices: ...

    @abstractmethod
    def _magnitude(self) -> Floats: ...


class _VertexList(FeatureSet):
    """A list of vertices, ``below`` and ``above (pieces, dimension)``."""

    def __init__(self, below: Floats, above: Floats, owner: Ints, count: int) -> None:
        super().__init__(owner, count, below.shape[1])
        self.below, self.above = below, above

    @property
    def values(self) -> int:
        """One for each vertex."""
        return len(self.below)

    def _lowest(self, p: Floats, n: Floats) -> Floats:
        return self.below @ p - self.above @ n

    def _vertices(self, pieces: slice, p: Floats, n: Floats) -> Vertices:
        below, above = self.below[pieces], self.above[pieces]
        if len(below) <= ALL_VERTICES_UP_TO:
            return Vertices(below, above, complete=True)
        worst = int(np.argmin(below @ p - above @ n))
        return Vertices(below[worst : worst + 1], above[worst : worst + 1], complete=False)

    def _magnitude(self) -> Floats:
        return np.asarray(np.maximum(np.abs(self.below), np.abs(self.above)).max(axis=1))


class Box(_VertexList):
    """Concrete bounds ``lower <= h <= upper``, each ``(pieces, dimension)``: the paper's naive method."""

    @staticmethod
    def from_network(network: Network, regions: Regions) -> Box:
        """Return the intervals of the linear bounds."""
        lower, upper = Linear.from_network(network, regions).concretise()
        return Box(lower, upper, regions.owner, regions.count)


def require_few_points(network: Network, spec: Spec, X: np.ndarray) -> None:
    """Raise an error for neighbourhoods of X with too many points to list, or to check one by one."""
    total, most = int(np.sum(spec.neighbourhood_sizes(X, network.dtype))), min(MOST_POINTS, most_points(network))
    if total > most:
        raise FairmendError(
            f"the neighbourhoods hold {describe_count(total)} points, more than {most:,}; "
            'use features="linear", or give fewer repair inputs'
        )


class Points(_VertexList):
    """The features ``(points, dimension)`` of every member of finite neighbourhoods: exact, without relaxation."""

    @staticmethod
    def from_network(network: Network, spec: Spec, X: np.ndarray) -> Points:
        """Return the features of all points of the neighbourhoods of X."""
        require_few_points(network, spec, X)
        wide = network.astype(np.float64)
        chunks = [(rows, wide.features(points)) for rows, points in spec.points(X, dtype=network.dtype)]
        features = np.concatenate([features for _, features in chunks])
        return Points(features, features, np.concatenate([rows for rows, _ in chunks]), len(X))


class Linear(FeatureSet):
    """The paper's symbolic bounds (Eq. def-hat-H), with the closed form of its dual."""

    def __init__(self, lower: Floats, upper: Floats, owner: Ints, count: int) -> None:
        """Take forms ``lower[0] + sum_k t_k lower[k] <= h <= upper[0] + …`` for t in [-1, 1] of `fairmend.bounds`.

        Both are ``(1 + varying, pieces, dimension)``.
        """
        super().__init__(owner, count, lower.shape[2])
        self.lower, self.upper = lower, upper

    @staticmethod
    def from_network(network: Network, regions: Regions) -> Linear:
        """Return linear bounds of the extractor over the regions, in float64."""
        lower, upper = symbolic_bounds(network, regions)
        return Linear(lower, upper, regions.owner, regions.count)

    @property
    def values(self) -> int:
        """One for each piece, and its slopes."""
        return self.lower[..., 0].size

    def concretise(self) -> tuple[Floats, Floats]:
        """Return the interval of each feature, each ``(pieces, dimension)``."""
        lower, upper = self.lower, self.upper
        return lower[0] - np.abs(lower[1:]).sum(axis=0), upper[0] + np.abs(upper[1:]).sum(axis=0)

    def _tilt(self, pieces: slice, p: Floats, n: Floats) -> Floats:
        """Return value and slopes of ``p·lower - n·upper`` in t, ``(1 + varying, pieces)``."""
        return self.lower[:, pieces] @ p - self.upper[:, pieces] @ n

    def _lowest(self, p: Floats, n: Floats) -> Floats:
        tilt = self._tilt(slice(None), p, n)
        return np.asarray(tilt[0] - np.abs(tilt[1:]).sum(axis=0))

    def _vertices(self, pieces: slice, p: Floats, n: Floats) -> Vertices:
        lower, upper = self.lower[:, pieces], self.upper[:, pieces]
        varying = len(lower) - 1
        if lower.shape[1] * 2**varying <= ALL_VERTICES_UP_TO:
            corners = np.array(list(product([-1.0, 1.0], repeat=varying))).reshape(2**varying, varying).T
            below = lower[0][None] + np.einsum("kc,kpd->cpd", corners, lower[1:])
            above = upper[0][None] + np.einsum("kc,kpd->cpd", corners, upper[1:])
            return Vertices(below.reshape(-1, self.dimension), above.reshape(-1, self.dimension), complete=True)
        tilt = self._tilt(pieces, p, n)
        worst = int(np.argmin(tilt[0] - np.abs(tilt[1:]).sum(axis=0)))
        corner = np.where(tilt[1:, worst] > 0, -1.0, 1.0)
        return Vertices(
            (lower[0, worst] + corner @ lower[1:, worst])[None],
            (upper[0, worst] + corner @ upper[1:, worst])[None],
            complete=False,
        )

    def _magnitude(self) -> Floats:
        lower, upper = self.concretise()
        return np.asarray(np.maximum(np.abs(lower), np.abs(upper)).max(axis=1))


def symbolic_bounds(network: Network, regions: Regions) -> tuple[Floats, Floats]:
    """Return linear forms of the features over the regions, in float64: each ``(1 + varying, pieces, dimension)``."""
    device = current_device() or CPU
    parameters = [
        (
            torch.tensor(affine.weight, dtype=torch.float64, device=device),
            torch.tensor(affine.bias, dtype=torch.float64, device=device),
        )
        for affine in network.affines[:-1]
    ]
    whole = Boxes.from_arrays(regions.lower, regions.upper, torch.float64).to(device)
    rows = whole.rows.shape[0] * whole.rows.shape[1]
    found: list[Forms] = []

    def bound(part: slice) -> None:
        forms = propagate(network, parameters, whole._replace(rows=whole.rows[:, part])).features()
        found.append(Forms(forms.lower.cpu(), forms.upper.cpu()))

    pieces = max(1, memory_of(device) // (8 * step_entries(network, "linear")))
    with torch.no_grad(), few_threads(rows * sum(weight.numel() for weight, _ in parameters)):
        run_in_parts(whole.rows.shape[1], pieces, bound, "neighbourhoods")
    lower, upper = (torch.cat([forms[side] for forms in found], dim=1).numpy() for side in (0, 1))
    return lower, upper
