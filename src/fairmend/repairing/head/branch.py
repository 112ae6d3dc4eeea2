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

The linear program of a node: some regions are decided on a class, which must keep its margin there. `SplitProgram`
splits the weights of each direction into p - n, and a vertex of a region is one row. C classes have C·(C - 1)/2
directions, and their splits would outnumber the weights many times. So with three classes and more, `CornerProgram` has
the weights alone, and a row for one corner of a vertex: the one at which the current weights are the worst. Few weights
change their sign from one change to the next, so that few corners are needed.
"""

from __future__ import annotations

import heapq
import math
import time
from abc import abstractmethod
from itertools import count
from typing import NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.milp import Status
from fairmend.repairing.head.milp_search import NO_TIME, nothing_found
from fairmend.repairing.head.problem import Demand, HeadChange, HeadProblem, HeadProgram, HeadSearchResult, SearchLimits

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
