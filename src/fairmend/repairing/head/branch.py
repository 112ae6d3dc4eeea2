"""The search over disjunctions: branch on the class of a violated region, bound by a linear program.

Eq. (milp) encodes "region i gets one class" with a binary and a big constant M, and its linear relaxation hardly
constrains the region until the binary is fixed. Here a region costs nothing until the current change violates it. Then
it becomes a branching with one child for each class. A child adds a few rows to a linear program of a few dozen
variables, which is re-solved from its last basis. The optimum is that of Eq. (milp), without M and without integrality
tolerance, and a thousand regions in conflict take some dozens of nodes.

With three classes and more there may be no end to that. So a repair comes first: violated regions take their nearest
class, the worst quarter of them at a time, until none is violated. Then the regions whose classes cost the most take
another one, as long as that makes the change smaller. What is left of the time or of the solver runs goes to the
branching, which improves the change further, and bounds how much smaller it could be.
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
from fairmend.repairing.head.milp_search import NO_TIME, nothing_found
from fairmend.repairing.head.node_program import (
    CornerProgram,
    Decisions,
    NodeProgram,
    OutOfTimeError,
    SplitProgram,
    UndecidedError,
)
from fairmend.repairing.head.problem import HeadChange, HeadProblem, HeadSearchResult, SearchLimits

MOST_CUTS = 200
"""Rounds of vertices added at one node. A region still violated after them is within the solver's tolerances."""

MANY_SOLVES = 10_000
"""Solver runs with three classes and more, if there is no time limit: the branching alone may take days."""

_UNDECIDED = (
    "the solver could not decide whether a repair exists; scale the inputs, or use another solver (solver='scip')"
)

_NO_SOLVES = "the search ended after {solves:,} solver runs without a repair; allow larger changes (delta_limit)"


class _OpenNode(NamedTuple):
    """A node to visit. Its parent's bound comes first, so that the heap returns the most promising one."""

    bound: float
    order: int
    decisions: Decisions


class _Solved(NamedTuple):
    """What a node's program gave: its bound, the change that attains it, and the slack of each region in each class."""

    objective: float
    change: HeadChange
    slack: Floats


class BranchSearch:
    """Searches depth first towards the nearest class, then from the open node with the lowest bound."""

    def __init__(self, head: HeadProblem, limits: SearchLimits, progress: Progress | None = None) -> None:
        self.head, self.limits, self.progress = head, limits, progress
        self.deadline = math.inf if limits.seconds is None else time.perf_counter() + limits.seconds
        self.best = head.constant_change(limits)
        many = head.classes > 2
        self.most_solves = min(limits.solves, MANY_SOLVES) if many and limits.seconds is None else limits.solves
        self.program: NodeProgram = CornerProgram(head, limits) if many else SplitProgram(head, limits)
        self.open: list[_OpenNode] = []
        self.order = count()
        self.solves = 0
        self.undecided = math.inf
        self.decided: set[int] = set()

    def run(self) -> HeadSearchResult:
        """Return the best change within the limits."""
        if isinstance(self.program, CornerProgram):
            self._find_early(self.program)
        node: _OpenNode | None = _OpenNode(0.0, next(self.order), ())
        bound = 0.0
        while node is not None and not self._is_over():
            try:
                child = self._visit(node)
            except OutOfTimeError:
                break  # the node stays open, and its bound counts
            except UndecidedError:
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

    def _find_early(self, program: CornerProgram) -> None:
        """Find a change soon, and improve it region by region, for half of the limits at most."""
        halfway = (self.solves + self.most_solves) / 2, (time.perf_counter() + self.deadline) / 2
        decisions = self._dive(())
        while decisions is not None:
            decisions = self._flip_one(program, decisions, *halfway)

    def _flip_one(
        self, program: CornerProgram, decisions: Decisions, solves: float, deadline: float
    ) -> Decisions | None:
        """Give the region whose class costs the most its second nearest class, then the next one, until that helps.

        Return the decisions of the smaller change; None if there is none, or no time for more.
        """
        assert self.best is not None
        slack = self.head.slack(self.best)
        for region, label in program.costly():
            if self.solves >= solves or time.perf_counter() >= deadline:
                return None
            second = next(int(c) for c in np.argsort(-slack[region], kind="stable") if c != label)
            others = tuple(decision for decision in decisions if decision[0] != region)
            found = self._dive((*others, (region, second)))
            if found is not None:
                return found
        return None

    def _dive(self, decisions: Decisions) -> Decisions | None:
        """Decide on regions until none is violated; return the decisions if the change is the best so far.

        If no change meets the classes of several regions, they are decided one by one.
        """
        batch = 4
        kept = decisions
        while not self._is_over():
            try:
                found = self._solve(decisions)
            except (OutOfTimeError, UndecidedError):
                return None
            if found is None:
                if len(decisions) <= len(kept) + 1:
                    return None
                decisions, batch = kept, len(self.head.least) + 1
                continue
            violation = self._violation(found.slack, decisions)
            violated = np.flatnonzero(violation > 0)
            if self.progress is not None:
                self.progress("solve", len(violation) - len(violated), len(violation))
            if len(violated) == 0:
                self.best = found.change
                return decisions
            worst = violated[np.argsort(-violation[violated], kind="stable")][: 1 + len(violated) // batch]
            kept = decisions
            decisions += tuple((int(region), int(found.slack[region].argmax())) for region in worst)
            self.decided.update(worst.tolist())
        return None

    def _solve(self, decisions: Decisions) -> _Solved | None:
        """Solve the program of a node; None if it has no change, or none that improves the best one."""
        self.program.go_to(decisions)
        for cuts in range(MOST_CUTS):
            if cuts and isinstance(self.program, CornerProgram) and self._is_over():
                raise OutOfTimeError  # it takes many cuts, where the splits take one solver run in general
            objective, change = self.program.solve(self.deadline - time.perf_counter())
            self.solves += 1
            if change is None or objective >= self._upper() - 1e-9:
                return None
            signed = self.head.signed(change)
            if not self.program.cut(signed, change):
                break
        assert change is not None
        return _Solved(objective, change, self.head.slack_of(signed))

    def _violation(self, slack: Floats, decisions: Decisions) -> Floats:
        violation: Floats = (self.head.least - slack.max(axis=1)) / self.head.reach
        violation[[region for region, _ in decisions]] = 0.0  # decided; the rest is the solver's tolerance
        return violation

    def _visit(self, node: _OpenNode) -> _OpenNode | None:
        """Solve a node. If it can improve the best change, return the child of the nearest class, queue the others."""
        found = self._solve(node.decisions)
        if found is None:
            return None
        violation = self._violation(found.slack, node.decisions)
        region = int(violation.argmax())
        if self.progress is not None:
            self.progress("solve", int((violation <= 0).sum()), len(violation))
        if violation[region] <= 0:
            self.best = found.change
            return None
        self.decided.add(region)
        children = [
            _OpenNode(found.objective, next(self.order), (*node.decisions, (region, label)))
            for label in self._labels(region, found.slack[region])
        ]
        for child in children[1:]:
            heapq.heappush(self.open, child)
        return children[0] if children else None

    def _labels(self, region: int, slack: Floats) -> list[int]:
        """Return the classes that a region may take, the nearest first; of many, those that a better change reaches."""
        labels = np.argsort(-slack, kind="stable")
        if isinstance(self.program, CornerProgram):
            reached = self.head.initial_slack[region] + self._upper() * self.head.reach[region]
            labels = labels[reached[labels] >= self.head.margin[region] - 1e-9]
        return [int(label) for label in labels]

    def _most_promising(self) -> _OpenNode | None:
        while self.open:
            node = heapq.heappop(self.open)
            if node.bound < self._upper() - 1e-9:
                return node
        return None

    def _upper(self) -> float:
        return math.inf if self.best is None else self.best.objective

    def _is_over(self) -> bool:
        return self.solves >= self.most_solves or time.perf_counter() >= self.deadline

    def _why_stopped(self) -> str:
        return _NO_SOLVES.format(solves=self.solves) if self.solves >= self.most_solves else NO_TIME
