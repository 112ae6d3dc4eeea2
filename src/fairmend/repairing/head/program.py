"""The linear program of a head's change: its variables, and the rows that tie them together.

Each parameter changes by increase - decrease. The weights of each direction are p - n with p, n >= 0, as the closed
forms of `features` need them. Searches add the rows of their claims.

The program minimises the l1 norm of the change, or by how much the outputs change at given rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.milp import LinearProgram
from fairmend.repairing.head.problem import Head, HeadChange

TIE = 1e-6
"""What the l1 norm of a change costs beside its effect on the outputs: it decides between equal ones."""


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
    """Minimise a change of the head, with each parameter within ``delta_limit``."""

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
