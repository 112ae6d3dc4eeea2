"""The linear program of a head's change: its variables, and the rows that tie them together.

Each parameter changes by increase - decrease, both of cost 1. The weights of each direction are p - n with p, n >= 0,
as the closed forms of `features` need them. Searches add the rows of their claims.
"""

from __future__ import annotations

import math

import numpy as np

from fairmend.arrays import Floats
from fairmend.milp import LinearProgram
from fairmend.repair.head.problem import Head, HeadChange

__all__ = ["HeadProgram"]


class HeadProgram:
    """Minimise the l1 norm of a change of the head, with each parameter within ``delta_limit``."""

    def __init__(self, head: Head, delta_limit: float) -> None:
        self.head = head
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
        cost[: 2 * self.parameters] = 1
        upper = np.full(total, math.inf)
        upper[: 2 * self.parameters] = delta_limit
        self.program = LinearProgram(cost, np.zeros(total), upper)
        self._link_split()

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
