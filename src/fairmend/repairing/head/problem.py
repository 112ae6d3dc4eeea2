"""The repair of the head as a mathematical problem: changes, directions, demands of a class, slack of a region."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.repairing.head.features import FeatureSet

VIOLATED = 1e-8
"""A region is violated if it misses the margin by more than this, or by more than half the margin if that is less.
Solvers satisfy rows to 1e-9."""


@dataclass(frozen=True)
class HeadChange:
    """A change of the head: ``weight (outputs, dimension)`` and ``bias (outputs,)``, and its l1 norm."""

    weight: Floats
    bias: Floats

    @property
    def objective(self) -> float:
        """The l1 norm, which the repair minimises."""
        return float(np.abs(self.weight).sum() + np.abs(self.bias).sum())


@dataclass(frozen=True)
class HeadSearchResult:
    """The best change, a proven lower bound on the l1 norm of the smallest, and the work done."""

    change: HeadChange
    bound: float
    solves: int
    regions_in_play: int


@dataclass(frozen=True)
class SearchLimits:
    """The largest change of one parameter; and when to stop: the seconds, the relative gap, and the solver runs."""

    delta: float = math.inf
    seconds: float | None = None
    gap: float = 0.0
    solves: float = math.inf

    def closed(self, objective: float, bound: float) -> bool:
        """Return whether the objective is within the gap of the bound."""
        return objective - bound <= max(self.gap * objective, 1e-9)


class Head:
    """A head ``weight (outputs, dimension)``, ``bias (outputs,)`` over the features of regions.

    A *direction* is a linear function of the outputs, ``directions (directions, outputs)``: an output itself, or a
    difference of two. Claims are about the values of directions over regions.

    ``bias_shift (dimension,)`` is for a head that stores no bias: where its weights change, its bias changes by
    weight·bias_shift, which is 0 unless a norm stands before the head.
    """

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        features: FeatureSet,
        directions: Floats,
        bias_shift: Floats | None = None,
    ) -> None:
        self.weight, self.bias, self.features, self.directions = weight, bias, features, directions
        self.bias_shift = bias_shift
        # A change of l1 norm U moves an output over region i by U · reach[i] at the most.
        self.reach = np.maximum(1.0, features.magnitude())

    def no_change(self) -> HeadChange:
        """Return the change that changes nothing."""
        return HeadChange(np.zeros_like(self.weight), np.zeros_like(self.bias))

    def without_weights(self) -> HeadChange:
        """Return the change to a head whose weights are 0; its bias stays as it is, or follows."""
        followed = np.zeros(self.weight.shape[1]) if self.bias_shift is None else self.bias_shift
        return HeadChange(-self.weight, -(self.weight @ followed))

    def split(self, change: HeadChange) -> tuple[Floats, Floats, Floats]:
        """Return the directions' weights as p - n with p, n >= 0, ``(directions, dimension)``, and their offsets."""
        v = self.directions @ (self.weight + change.weight)
        return np.maximum(v, 0), np.maximum(-v, 0), self.directions @ (self.bias + change.bias)


def pairs_of_outputs(outputs: int) -> Floats:
    """Return the differences of two outputs, the earlier minus the later: ``(pairs, outputs)``."""
    pairs = list(combinations(range(outputs), 2))
    directions = np.zeros((len(pairs), outputs))
    for number, (high, low) in enumerate(pairs):
        directions[number, [high, low]] = 1, -1
    return directions


class HeadProblem(Head):
    """The head over feature sets, for one output or several, if every region is to get one class.

    The sign of the directions decides: the output itself where there is one, every pair of outputs where there are
    several. A class asks for the sign of some directions: ``demands[c]`` lists ``(direction, sign)``. The *slack* of a
    region in a class is the smallest of its demands' lower bounds, and the *margin* what it must reach, one number for
    all regions or ``(count,)``; ``least`` is what counts as reached.
    """

    def __init__(
        self,
        weight: Floats,
        bias: Floats,
        features: FeatureSet,
        margin: float | Floats,
        bias_shift: Floats | None = None,
    ) -> None:
        outputs = len(bias)
        directions = np.ones((1, 1)) if outputs == 1 else pairs_of_outputs(outputs)
        super().__init__(weight, bias, features, directions, bias_shift)
        self.margin = np.broadcast_to(np.asarray(margin, dtype=np.float64), (features.count,))
        self.least = self.margin - np.minimum(VIOLATED, self.margin / 2)
        if outputs == 1:
            self.demands: list[list[tuple[int, int]]] = [[(0, -1)], [(0, 1)]]
        else:
            self.demands = [
                [(number, int(sign)) for number, sign in enumerate(self.directions[:, label]) if sign]
                for label in range(outputs)
            ]
        self.classes = len(self.demands)
        self.initial = self.signed(self.no_change())
        self.initial_slack = self._slack(self.initial)

    def signed(self, change: HeadChange) -> dict[tuple[int, int], Floats]:
        """Return a lower bound of each direction times each sign over each region, ``(count,)`` each."""
        p, n, offset = self.split(change)
        bounds = {}
        for direction in range(len(self.directions)):
            bounds[direction, 1] = self.features.lowest(p[direction], n[direction]) + offset[direction]
            bounds[direction, -1] = self.features.lowest(n[direction], p[direction]) - offset[direction]
        return bounds

    def slack(self, change: HeadChange) -> Floats:
        """Return by how much each region is in each class, ``(count, classes)``."""
        return self._slack(self.signed(change))

    def _slack(self, signed: dict[tuple[int, int], Floats]) -> Floats:
        return np.stack([np.min([signed[demand] for demand in demands], axis=0) for demands in self.demands], axis=1)

    def constant_change(self, limits: SearchLimits) -> HeadChange | None:
        """Return the smallest change to a head that is constant: hardly ever useful, but always possible with a bias.

        Return None if a parameter would change by more than the limit, or if no bias can keep the margin.
        """
        if self.bias_shift is None:
            changes = [self._constant(label) for label in range(self.classes)]
        else:
            constant = self.without_weights()
            changes = [constant] if (self.slack(constant).max(axis=1) >= self.margin).all() else []
        allowed = [
            change for change in changes if max(np.abs(change.weight).max(), np.abs(change.bias).max()) <= limits.delta
        ]
        return min(allowed, key=lambda change: change.objective, default=None)

    def _constant(self, label: int) -> HeadChange:
        bias = np.zeros_like(self.bias)
        if len(bias) == 1:
            sign = 1 if label == 1 else -1
            bias[0] = sign * max(0.0, float(self.margin.max()) - sign * self.bias[0])
        else:
            others = np.delete(self.bias, label)
            bias[label] = max(0.0, float(others.max() + self.margin.max()) - self.bias[label])
        return HeadChange(-self.weight, bias)
