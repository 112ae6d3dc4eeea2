"""The search over disjunctions: branch on the class of a violated region, bound by a linear program.

Eq. (milp) encodes "region i gets one class" with a binary and a big constant M, and its linear relaxation hardly
constrains the region until the binary is fixed. Here a region costs nothing until the current change violates it. Then
it becomes a branching with one child for each class. A child adds a few rows to a linear program of a few dozen
variables, which is re-solved from its last basis. The optimum is that of Eq. (milp), without M and without integrality
tolerance, and a thousand regions in conflict take some dozens of nodes.
"""

from __future__ import annotations

import heapq
import math
import time
from itertools import count
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.milp import Status
from fairmend.repairing.head.milp_search import NO_TIME, nothing_found
from fairmend.repairing.head.problem import HeadChange, HeadProblem, HeadProgram, HeadSearchResult, SearchLimits

Decisions = tuple[tuple[int, int], ...]
"""A node: the regions decided on the path to it, each with its class, in order."""

MOST_CUTS = 200
"""Rounds of vertices added at one node. A region still violated after them is within the solver's tolerances."""

_UNDECIDED = (
    "the solver could not decide whether a repair exists; scale the inputs, or use another solver (solver='scip')"
)

_NO_SOLVES = "the search ended after {solves:,} solver runs without a repair; allow larger changes (delta_limit)"


class _OutOfTimeError(Exception):
    """The time limit ended while a node was being solved."""


class _UndecidedError(Exception):
    """The solver could not decide whether a node has a solution."""


class _OpenNode(NamedTuple):
    """A node to visit. Its parent's bound comes first, so that the heap returns the most promising one."""

    bound: float
    order: int
    decisions: Decisions


class BranchSearch:
    """Searches depth first towards the nearest class, then from the open node with the lowest bound."""

    def __init__(self, head: HeadProblem, limits: SearchLimits, progress: Progress | None = None) -> None:
        self.head, self.limits, self.progress = head, limits, progress
        self.deadline = math.inf if limits.seconds is None else time.perf_counter() + limits.seconds
        self.best = head.constant_change(limits)
        self.program = _NodeProgram(head, limits)
        self.open: list[_OpenNode] = []
        self.order = count()
        self.solves = 0
        self.undecided = math.inf
        self.decided: set[int] = set()

    def run(self) -> HeadSearchResult:
        """Return the best change within the limits."""
        node: _OpenNode | None = _OpenNode(0.0, next(self.order), ())
        bound = 0.0
        while node is not None and not self._is_over():
            try:
                child = self._visit(node)
            except _OutOfTimeError:
                break  # the node stays open, and its bound counts
            except _UndecidedError:
                child = None
                self.undecided = min(self.undecided, node.bound)  # better changes below it cannot be excluded
            node = child or self._most_promising()
            waiting = [open_node.bound for open_node in (node, *self.open[:1]) if open_node is not None]
            bound = min([self._upper(), self.undecided, *waiting])
            if self.best is not None and self.limits.closed(self.best.objective, bound):
                break
        if self.best is None:
            if node is not None or self.undecided < math.inf:
                raise FairmendError(self._why_stopped() if node is not None else _UNDECIDED)
            raise nothing_found(self.head, self.limits)
        return HeadSearchResult(self.best, bound, self.solves, len(self.decided))

    def _visit(self, node: _OpenNode) -> _OpenNode | None:
        """Solve a node. If it can improve the best change, return the child of the nearest class, queue the others."""
        self.program.go_to(node.decisions)
        for _ in range(MOST_CUTS):
            objective, change = self.program.solve(self.deadline - time.perf_counter())
            self.solves += 1
            if change is None or objective >= self._upper() - 1e-9:
                return None
            slack = self.head.slack(change)
            if not self.program.cut(slack, change):
                break
        violation = (self.head.least - slack.max(axis=1)) / self.head.reach
        violation[[region for region, _ in node.decisions]] = 0.0  # decided; the rest is the solver's tolerance
        region = int(violation.argmax())
        if self.progress is not None:
            self.progress("solve", int((violation <= 0).sum()), len(violation))
        if violation[region] <= 0:
            self.best = change
            return None
        self.decided.add(region)
        children = [
            _OpenNode(objective, next(self.order), (*node.decisions, (region, int(label))))
            for label in np.argsort(-slack[region], kind="stable")
        ]
        for child in children[1:]:
            heapq.heappush(self.open, child)
        return children[0]

    def _most_promising(self) -> _OpenNode | None:
        while self.open:
            node = heapq.heappop(self.open)
            if node.bound < self._upper() - 1e-9:
                return node
        return None

    def _upper(self) -> float:
        return math.inf if self.best is None else self.best.objective

    def _is_over(self) -> bool:
        return self.solves >= self.limits.solves or time.perf_counter() >= self.deadline

    def _why_stopped(self) -> str:
        return _NO_SOLVES.format(solves=self.solves) if self.solves >= self.limits.solves else NO_TIME


class _NodeProgram(HeadProgram):
    """The linear program of one node; moving to another node changes only the rows that differ."""

    def __init__(self, head: HeadProblem, limits: SearchLimits) -> None:
        super().__init__(head, limits.delta)
        self.head: HeadProblem = head
        self.path: list[tuple[int, int]] = []
        self.ends: list[int] = [self.program.rows]  # rows after each decision of the path, cuts included

    def go_to(self, decisions: Decisions) -> None:
        """Make the rows those of this node, keeping the ones that it shares with the last node."""
        shared = 0
        while shared < min(len(self.path), len(decisions)) and self.path[shared] == decisions[shared]:
            shared += 1
        if shared < len(self.path):
            del self.path[shared:], self.ends[shared + 1 :]
            self.program.truncate(self.ends[-1])
        no_change = self.head.no_change()
        for region, label in decisions[shared:]:
            self._demand(region, label, no_change)
            self.path.append((region, label))
            self.ends.append(self.program.rows)

    def cut(self, slack: Floats, change: HeadChange) -> bool:
        """Add the vertices at which decided regions are violated by this change; return whether there were any."""
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
        """Add rows ``p·below - n·above + offset >= margin`` for each demand of the class, at the active vertices."""
        head = self.head
        p, n, _ = head.split(change)
        for direction, sign in head.demands[label]:
            values = (p[direction], n[direction]) if sign > 0 else (n[direction], p[direction])
            below, above, _ = head.features.vertices(region, *values)
            columns, coefficients, bias = self.direction(direction, sign)
            tail = np.tile(coefficients, (len(below), 1))
            lower = np.full(len(below), head.margin[region] - bias)
            self.program.add_rows(columns, np.hstack([below, -above, tail]), lower, np.full(len(below), math.inf))

    def solve(self, seconds: float) -> tuple[float, HeadChange | None]:
        """Return the bound of this node and the change that attains it; None if there is none."""
        solution = self.program.solve(seconds)
        if solution.status is Status.INFEASIBLE:
            return math.inf, None
        if solution.status is Status.LIMIT:
            raise _OutOfTimeError
        if solution.x is None:
            raise _UndecidedError
        return solution.objective, self.change(solution.x)
