"""The repair of the head as a mathematical problem: changes, directions, demands of a class, slack of a region.

`HeadProgram` is its linear program, to which the searches add rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.milp import LinearProgram
from fairmend.repairing.head.features import FeatureSet

VIOLATED = 1e-8
"""A region is violated if it misses the margin by more than this, or by more than half the margin if that is less.
Solvers satisfy rows to 1e-9."""

TIE = 1e-6
"""What the l1 norm of a change costs beside its effect on the outputs: it decides between equal ones."""


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


@dataclass(frozen=True)
class KeptRows:
    """Rows whose outputs are to change little: ``features (rows, dimension)``, ``weight (rows, outputs)`` their cost.

    If the outputs decide on classes, predictions are to be kept as well, and ``offset`` is the log-odds of the
    threshold at which they do; it is None for a regression.
    """

    features: Floats
    weight: Floats
    offset: float | None = None

    def cost(self, change: HeadChange) -> float:
        """Return the weighted sum of the absolute changes of the outputs."""
        return float((np.abs(self.features @ change.weight.T + change.bias) * self.weight).sum())


def bias_rows(increase: Ints, decrease: Ints, shift: Floats) -> tuple[Ints, Floats]:
    """Return the rows ``bias - weight · shift`` of the changes of a head that stores no bias, as columns and values.

    ``increase`` and ``decrease`` are the variables of the parameters, for each output its weights and then its bias.
    """
    own = np.append(-shift, 1.0)
    columns = np.column_stack([increase.reshape(-1, len(own)), decrease.reshape(-1, len(own))])
    return columns, np.tile(np.concatenate([own, -own]), (len(columns), 1))


class HeadProgram:
    """The linear program of a head's change: its variables, and the rows that tie them together.

    Each parameter changes by increase - decrease, within ``delta_limit``. The weights of each direction are p - n with
    p, n >= 0, as the closed forms of `features` need them. Searches add the rows of their claims. The program minimises
    the l1 norm of the change, or by how much the outputs change at the ``kept`` rows.
    """

    def __init__(self, head: Head, delta_limit: float, kept: KeptRows | None = None) -> None:
        self.head, self.kept = head, kept
        outputs, dimension = head.weight.shape
        self.parameters = outputs * (dimension + 1)
        directions = len(head.directions)
        split = directions * dimension
        self.increase = np.arange(self.parameters)
        self.decrease = self.increase + self.parameters
        self.bias_at = np.arange(outputs) * (dimension + 1) + dimension
        self.p = 2 * self.parameters + np.arange(split).reshape(directions, dimension)
        self.n = self.p + split
        total = 2 * self.parameters + 2 * split
        cost = np.zeros(total)
        cost[: 2 * self.parameters] = 1 if kept is None else TIE
        upper = np.full(total, math.inf)
        upper[: 2 * self.parameters] = delta_limit
        if kept is not None:  # one variable for the absolute change of each output at each row
            cost, upper = np.append(cost, kept.weight), np.append(upper, np.full(kept.weight.size, math.inf))
        self.program = LinearProgram(cost, np.zeros(len(cost)), upper)
        self._link_split()
        if head.bias_shift is not None:
            self._link_biases(head.bias_shift)
        if kept is not None:
            self._link_rows(kept, total)

    def cost(self, change: HeadChange) -> float:
        """Return what the program minimises."""
        return change.objective if self.kept is None else self.kept.cost(change) + TIE * change.objective

    def change(self, x: Floats) -> HeadChange:
        """Return the change in a solution ``x (variables,)``."""
        outputs, dimension = self.head.weight.shape
        delta = (x[self.increase] - x[self.decrease]).reshape(outputs, dimension + 1)
        return HeadChange(delta[:, :-1].copy(), delta[:, -1].copy())

    def _link_split(self) -> None:
        """Add rows for p - n = direction · (weight + change)."""
        head = self.head
        outputs, dimension = head.weight.shape
        grid = np.arange(self.parameters).reshape(outputs, dimension + 1)[:, :-1]
        initial = head.directions @ head.weight
        for direction, coefficients in enumerate(head.directions):
            used = np.flatnonzero(coefficients)
            columns = np.concatenate(
                [
                    self.p[direction][None],
                    self.n[direction][None],
                    self.increase[grid[used]],
                    self.decrease[grid[used]],
                ]
            ).T
            values = np.concatenate([[1.0, -1.0], -coefficients[used], coefficients[used]])
            self.program.add_rows(columns, np.tile(values, (dimension, 1)), initial[direction], initial[direction])

    def _link_biases(self, shift: Floats) -> None:
        """Add rows for change of the bias = change of the weights · shift, one for each output."""
        columns, values = bias_rows(self.increase, self.decrease, shift)
        self.program.add_rows(columns, values, np.zeros(len(columns)), np.zeros(len(columns)))

    def _link_rows(self, kept: KeptRows, first: int) -> None:
        """Add rows ``-t <= change of the output <= t`` for the variables t from ``first`` on."""
        rows, outputs = kept.weight.shape
        values = np.column_stack([kept.features, np.ones(rows)])
        width = values.shape[1]
        for output in range(outputs):
            mine = slice(output * width, (output + 1) * width)
            shared = np.concatenate([self.increase[mine], self.decrease[mine]])
            bound = first + np.arange(rows) * outputs + output
            columns = np.column_stack([np.tile(shared, (rows, 1)), bound])
            for sign in (1, -1):
                entries = np.column_stack([sign * values, -sign * values, -np.ones(rows)])
                self.program.add_rows(columns, entries, np.full(rows, -math.inf), np.zeros(rows))
