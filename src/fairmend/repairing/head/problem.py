"""The repair of the head as a mathematical problem: changes, directions, demands of a class, slack of a region.

`HeadProgram` is its linear program, to which the searches add rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.milp import LinearProgram
from fairmend.repairing.head.features import FeatureSet

VIOLATED = 1e-8
"""A region is violated if it misses the margin by more than this, or by more than half the margin if that is less.
Solvers satisfy rows to 1e-9."""

Demand = tuple[int, int]
"""A direction, and the sign that it must have."""

MOST_VALUES = 2**24
"""The values of directions over pieces of regions that are computed at once."""

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

    def ranges(self, change: HeadChange) -> tuple[Floats, Floats]:
        """Return the least and the largest value of each direction over each region: each ``(count, directions)``."""
        p, n, offset = self.split(change)
        return self._lowest(p, n) + offset, -self._lowest(n, p) + offset

    def _lowest(self, p: Floats, n: Floats) -> Floats:
        """Return the least ``p·below - n·above`` of each direction over each region: ``(count, directions)``."""
        step = max(1, MOST_VALUES // self.features.values)
        if len(p) == 1 or step == 1:
            return np.stack([self.features.lowest(*split) for split in zip(p, n, strict=True)], axis=1)
        parts = [slice(start, start + step) for start in range(0, len(p), step)]
        return np.concatenate([self.features.lowest(p[part].T, n[part].T) for part in parts], axis=1)


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
            self.demands: list[list[Demand]] = [[(0, -1)], [(0, 1)]]
        else:
            self.demands = [
                [(number, int(sign)) for number, sign in enumerate(self.directions[:, label]) if sign]
                for label in range(outputs)
            ]
        self.classes = len(self.demands)
        self.initial = self.signed(self.no_change())
        self.initial_slack = self.slack_of(self.initial)

    def signed(self, change: HeadChange) -> dict[Demand, Floats]:
        """Return a lower bound of each direction times each sign over each region, ``(count,)`` each."""
        low, high = self.ranges(change)
        numbers = range(len(self.directions))
        return {(k, 1): low[:, k] for k in numbers} | {(k, -1): -high[:, k] for k in numbers}

    def slack(self, change: HeadChange) -> Floats:
        """Return by how much each region is in each class, ``(count, classes)``."""
        return self.slack_of(self.signed(change))

    def slack_of(self, signed: dict[Demand, Floats]) -> Floats:
        """Return the same from the lower bounds of `signed`."""
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


class HeadVariables:
    """The variables of a head's change in a program, numbered from 0: ``increase``, ``decrease``, ``p`` and ``n``.

    Each parameter changes by increase - decrease: for each output its weights and then its bias. The weights of each
    direction are p - n with p, n >= 0, as the closed forms of `features` need them;
    without ``split`` they are left out.
    """

    def __init__(self, head: Head, *, split: bool = True) -> None:
        self.head: Head = head
        outputs, dimension = head.weight.shape
        self.parameters, splits = outputs * (dimension + 1), head.directions.shape[0] * dimension * split
        self.increase = np.arange(self.parameters)
        self.decrease = self.increase + self.parameters
        self.bias_at = np.arange(outputs) * (dimension + 1) + dimension
        self.p = 2 * self.parameters + np.arange(splits).reshape(-1, dimension)
        self.n = self.p + splits
        self.count = 2 * self.parameters + 2 * splits

    def link(self, add_rows: Callable[[Ints, Floats, Floats, Floats], object]) -> None:
        """Add rows for p - n = direction · (weight + change); and for a bias that is not stored, how it follows."""
        head = self.head
        outputs, dimension = head.weight.shape
        grid = np.arange(self.parameters).reshape(outputs, dimension + 1)[:, :-1]
        initial = head.directions @ head.weight
        for direction, coefficients in enumerate(head.directions[: len(self.p)]):
            used = np.flatnonzero(coefficients)
            split = [self.p[direction][None], self.n[direction][None]]
            columns = np.concatenate([*split, self.increase[grid[used]], self.decrease[grid[used]]]).T
            values = np.concatenate([[1.0, -1.0], -coefficients[used], coefficients[used]])
            add_rows(columns, np.tile(values, (dimension, 1)), initial[direction], initial[direction])
        if head.bias_shift is not None:  # change of the bias = change of the weights · shift, for each output
            own = np.append(-head.bias_shift, 1.0)
            columns = np.column_stack([self.increase.reshape(outputs, -1), self.decrease.reshape(outputs, -1)])
            values = np.tile(np.concatenate([own, -own]), (outputs, 1))
            add_rows(columns, values, np.zeros(outputs), np.zeros(outputs))

    def direction(self, number: int, sign: int = 1) -> tuple[Ints, Floats, float]:
        """Return the columns of a direction times a sign: its p and n, and those of the biases that it has.

        Then the coefficients of the latter, and the bias of the direction before the change.
        """
        plus, minus = (self.p, self.n) if sign > 0 else (self.n, self.p)
        coefficients = sign * self.head.directions[number]
        used = np.flatnonzero(coefficients)
        biases = [self.increase[self.bias_at[used]], self.decrease[self.bias_at[used]]]
        columns = np.concatenate([plus[number], minus[number], *biases])
        return columns, np.concatenate([coefficients[used], -coefficients[used]]), float(coefficients @ self.head.bias)

    def change(self, x: Floats) -> HeadChange:
        """Return the change in a solution ``x (variables,)``."""
        delta = (x[self.increase] - x[self.decrease]).reshape(len(self.head.bias), -1)
        return HeadChange(delta[:, :-1].copy(), delta[:, -1].copy())

    def set_change(self, x: Floats, change: HeadChange) -> None:
        """Write a change into ``x (variables,)``, in place."""
        delta = np.column_stack([change.weight, change.bias]).ravel()
        x[self.increase], x[self.decrease] = np.maximum(delta, 0), np.maximum(-delta, 0)
        x[self.p], x[self.n], _ = self.head.split(change)


class HeadProgram(HeadVariables):
    """The linear program of a head's change, each parameter within ``delta_limit``; searches add rows of their claims.

    It minimises the l1 norm of the change, or by how much the outputs change at the ``kept`` rows.
    """

    def __init__(self, head: Head, delta_limit: float, kept: KeptRows | None = None, *, split: bool = True) -> None:
        super().__init__(head, split=split)
        self.kept = kept
        cost, upper = np.zeros(self.count), np.full(self.count, math.inf)
        cost[: 2 * self.parameters] = 1 if kept is None else TIE
        upper[: 2 * self.parameters] = delta_limit
        if kept is not None:  # one variable for the absolute change of each output at each row
            cost, upper = np.append(cost, kept.weight), np.append(upper, np.full(kept.weight.size, math.inf))
        self.program = LinearProgram(cost, np.zeros(len(cost)), upper)
        self.link(self.program.add_rows)
        if kept is not None:
            self._link_rows(kept)

    def cost(self, change: HeadChange) -> float:
        """Return what the program minimises."""
        return change.objective if self.kept is None else self.kept.cost(change) + TIE * change.objective

    def _link_rows(self, kept: KeptRows) -> None:
        """Add rows ``-t <= change of the output <= t`` for the last variables, t."""
        rows, outputs = kept.weight.shape
        values = np.column_stack([kept.features, np.ones(rows)])
        width = values.shape[1]
        for output in range(outputs):
            mine = slice(output * width, (output + 1) * width)
            shared = np.concatenate([self.increase[mine], self.decrease[mine]])
            bound = self.count + np.arange(rows) * outputs + output
            columns = np.column_stack([np.tile(shared, (rows, 1)), bound])
            for sign in (1, -1):
                entries = np.column_stack([sign * values, -sign * values, -np.ones(rows)])
                self.program.add_rows(columns, entries, np.full(rows, -math.inf), np.zeros(rows))
