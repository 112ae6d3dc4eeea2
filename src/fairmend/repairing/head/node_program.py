"""The linear program of a node of the search: some regions are decided on a class, which must keep its margin there.

`SplitProgram` splits the weights of each direction into p - n, and a vertex of a region is one row. C classes have
C·(C - 1)/2 directions, and their splits would outnumber the weights many times. So with three classes and more,
`CornerProgram` has the weights alone, and a row for one corner of a vertex: the one at which the current weights are
the worst. Few weights change their sign from one change to the next, so that few corners are needed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.milp import Status
from fairmend.repairing.head.problem import Demand, HeadChange, HeadProblem, HeadProgram, SearchLimits

Decisions = tuple[tuple[int, int], ...]
"""A node: the regions decided on the path to it, each with its class, in order."""


class _Corner(NamedTuple):
    """A demand on a direction, and the features of a region ``(dimension,)`` at which it must hold."""

    demand: Demand
    features: Floats


class OutOfTimeError(Exception):
    """The time limit ended while a node was being solved."""


class UndecidedError(Exception):
    """The solver could not decide whether a node has a solution."""


class NodeProgram(HeadProgram):
    """The linear program of one node; moving to another node changes only the rows that differ."""

    def __init__(self, head: HeadProblem, limits: SearchLimits, *, split: bool) -> None:
        super().__init__(head, limits.delta, split=split)
        self.head: HeadProblem = head

    @abstractmethod
    def go_to(self, decisions: Decisions) -> None:
        """Make the rows those of this node, keeping the ones that it shares with the last node."""

    @abstractmethod
    def cut(self, signed: dict[Demand, Floats], change: HeadChange) -> bool:
        """Add rows where decided regions are violated by this change; return whether there were any."""

    def solve(self, seconds: float) -> tuple[float, HeadChange | None]:
        """Return the bound of this node and the change that attains it; None if there is none."""
        solution = self.program.solve(seconds)
        if solution.status is Status.INFEASIBLE:
            return math.inf, None
        if solution.status is Status.LIMIT:
            raise OutOfTimeError
        if solution.x is None:
            raise UndecidedError
        return solution.objective, self.change(solution.x)


class SplitProgram(NodeProgram):
    """The rows ``p·below - n·above + offset >= margin`` at the vertices of a region."""

    def __init__(self, head: HeadProblem, limits: SearchLimits) -> None:
        super().__init__(head, limits, split=True)
        self.path: list[tuple[int, int]] = []
        self.ends: list[int] = [self.program.rows]  # rows after each decision of the path, cuts included

    def go_to(self, decisions: Decisions) -> None:
        """Remove the rows after the last decision that both nodes share, and add those of the others."""
        shared = 0
        while shared < min(len(self.path), len(decisions)) and self.path[shared] == decisions[shared]:
            shared += 1
        if shared < len(self.path):
            del self.path[shared:], self.ends[shared + 1 :]
            self.program.remove_rows(np.arange(self.ends[-1], self.program.rows))
        no_change = self.head.no_change()
        for region, label in decisions[shared:]:
            self._demand(region, label, no_change)
            self.path.append((region, label))
            self.ends.append(self.program.rows)

    def cut(self, signed: dict[Demand, Floats], change: HeadChange) -> bool:
        """Add the vertices at which decided regions are violated by this change; return whether there were any."""
        slack = self.head.slack_of(signed)
        violated = [
            (region, label)
            for region, label in self.path
            if slack[region, label] < self.head.least[region] and not self._complete(region)
        ]
        for region, label in violated:
            self._demand(region, label, change)
        self.ends[-1] = self.program.rows
        return bool(violated)

    def _complete(self, region: int) -> bool:
        p, n, _ = self.head.split(self.head.no_change())
        return self.head.features.vertices(region, p[0], n[0]).complete

    def _demand(self, region: int, label: int, change: HeadChange) -> None:
        """Add rows for each demand of the class, at the active vertices."""
        head = self.head
        p, n, _ = head.split(change)
        for direction, sign in head.demands[label]:
            values = (p[direction], n[direction]) if sign > 0 else (n[direction], p[direction])
            below, above, _ = head.features.vertices(region, *values)
            columns, coefficients, bias = self.direction(direction, sign)
            tail = np.tile(coefficients, (len(below), 1))
            lower = np.full(len(below), head.margin[region] - bias)
            self.program.add_rows(columns, np.hstack([below, -above, tail]), lower, np.full(len(below), math.inf))


class CornerProgram(NodeProgram):
    """The rows ``w·corner + offset >= margin``, for w the weights of a direction.

    The least value over a vertex, p·below - n·above at p = max(w, 0) and n = max(-w, 0), is the least of w·corner over
    its corners. So a row for one corner excludes no change that keeps the margin.
    """

    def __init__(self, head: HeadProblem, limits: SearchLimits) -> None:
        super().__init__(head, limits, split=False)
        self.owners: list[tuple[int, int] | None] = [None] * self.program.rows  # the decision of each row
        self.decisions: Decisions = ()
        # The corners found so far: a decision that returns starts with them.
        self._known: dict[tuple[int, int], list[_Corner]] = {}

    def go_to(self, decisions: Decisions) -> None:
        """Remove the rows of the decisions that this node does not have, and add those of the others."""
        wanted, present = set(decisions), set(self.decisions)
        gone = [row for row, owner in enumerate(self.owners) if owner is not None and owner not in wanted]
        if gone:
            self.program.remove_rows(np.array(gone))
            self.owners = [owner for owner in self.owners if owner is None or owner in wanted]
        for decision in decisions:
            if decision not in present:
                for corner in self._known.setdefault(decision, []):
                    self._add(decision, corner)
        self.decisions = decisions

    def cut(self, signed: dict[Demand, Floats], change: HeadChange) -> bool:
        """Add the worst corner of each demand that a decided region violates; return whether any is new."""
        before = len(self.owners)
        for region, label in self.decisions:
            known = self._known[region, label]
            for demand in self.head.demands[label]:
                if signed[demand][region] < self.head.least[region]:
                    found = self._worst_corner(region, demand, change)
                    # A known one is in the program, and what it misses is the solver's tolerance.
                    if not any(
                        demand == other.demand and np.array_equal(found.features, other.features) for other in known
                    ):
                        known.append(found)
                        self._add((region, label), found)
        return len(self.owners) > before

    def costly(self) -> Decisions:
        """Return the decisions that cost something in the last solution, the costliest first: by their dual values."""
        dual = np.abs(self.program.multipliers())
        cost = dict.fromkeys(self.decisions, 0.0)
        for owner, value in zip(self.owners, dual.tolist(), strict=True):
            if owner is not None:
                cost[owner] += value
        return tuple(sorted((each for each in cost if cost[each] > 0), key=lambda each: -cost[each]))

    def _worst_corner(self, region: int, demand: Demand, change: HeadChange) -> _Corner:
        direction, sign = demand
        w = sign * (self.head.directions[direction] @ (self.head.weight + change.weight))
        p, n = np.maximum(w, 0), np.maximum(-w, 0)
        below, above, _ = self.head.features.vertices(region, p, n)
        worst = int(np.argmin(below @ p - above @ n))
        return _Corner(demand, np.where(w >= 0, below[worst], above[worst]))

    def _add(self, decision: tuple[int, int], corner: _Corner) -> None:
        head, (direction, sign) = self.head, corner.demand
        coefficients = sign * head.directions[direction]
        values = np.append(corner.features, 1.0)
        used = np.flatnonzero(coefficients)
        width = len(values)
        mine = (used[:, None] * width + np.arange(width)).ravel()
        entries = np.outer(coefficients[used], values).ravel()
        now = float(coefficients @ (head.weight @ corner.features + head.bias))
        self.program.add_rows(
            np.concatenate([self.increase[mine], self.decrease[mine]]),
            np.concatenate([entries, -entries])[None],
            np.array([head.margin[decision[0]] - now]),
            np.array([math.inf]),
        )
        self.owners.append(decision)
