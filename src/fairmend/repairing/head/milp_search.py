"""The search over MILPs: for solvers other than HiGHS, and to compare with `branch`.

- *Lazy regions*: a region enters the model when a solution for the others violates it.
- *An incumbent* (a feasible change of size U) fixes classes: no smaller change moves the score of a region by more than
  U · max(1, largest feature). This gives each region its own M and rules out classes that it cannot reach.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.milp import Milp, MilpBuilder, Solver, Status
from fairmend.repairing.head.features import Vertices
from fairmend.repairing.head.problem import HeadChange, HeadProblem, HeadSearchResult, HeadVariables, SearchLimits

NOTHING_WITHIN = (
    "no change with every parameter within {limit} gives each of the {count} regions one prediction; "
    "allow larger changes (delta_limit)"
)
NO_BIAS = (
    "no weights of the last layer, which has no bias, give each of the {count} regions one prediction; give it a bias "
    "(0 changes nothing), or use method auto"
)
NO_TIME = "the time limit ended before a repair was found; allow more time (time_limit) or larger changes (delta_limit)"


@dataclass
class _Region:
    """A region in the model: the vertices added so far, and its class if that is fixed."""

    below: list[Floats] = field(default_factory=list)
    above: list[Floats] = field(default_factory=list)
    complete: bool = False
    label: int | None = None

    def add(self, vertices: Vertices) -> bool:
        """Add vertices; return whether they are new."""
        known = zip(self.below, self.above, strict=True)
        if any(np.array_equal(vertices.below, b) and np.array_equal(vertices.above, a) for b, a in known):
            return False
        self.below.append(vertices.below)
        self.above.append(vertices.above)
        self.complete = vertices.complete
        return True


class MasterProblem:
    """The model over the regions added so far."""

    def __init__(self, head: HeadProblem, delta_limit: float) -> None:
        self.head, self.delta_limit = head, delta_limit
        self._regions: dict[int, _Region] = {}

    @property
    def regions(self) -> list[int]:
        """The regions in the model."""
        return list(self._regions)

    def add_regions(self, regions: Ints, change: HeadChange, labels: Ints | None = None) -> bool:
        """Add regions, or the vertices of theirs that are active at this change; return whether any is new."""
        p, n, _ = self.head.split(change)
        grew = False
        for region in regions.tolist():
            entry = self._regions.setdefault(region, _Region())
            if labels is not None:
                entry.label = int(labels[region])
            for direction in range(len(p)):
                for plus, minus in ((p[direction], n[direction]), (n[direction], p[direction])):
                    if not entry.complete:
                        grew |= entry.add(self.head.features.vertices(region, plus, minus))
        return grew

    def build(
        self, upper: float, incumbent: HeadChange | None
    ) -> tuple[Milp, Callable[[Floats], HeadChange], Floats | None]:
        """Return the model, a function that reads its solutions, and the incumbent as a point of it.

        No solution needs a larger objective than ``upper``: it bounds every variable.
        """
        head, model, variables = self.head, MilpBuilder(), HeadVariables(self.head)
        limit = min(self.delta_limit, upper * (1 + 1e-9) + 1e-12)
        model.add_variables(2 * variables.parameters, 0, limit, cost=1)
        self._add_split(model, limit)
        variables.link(model.add_rows)
        if math.isfinite(upper):
            everything = np.concatenate([variables.increase, variables.decrease])
            model.add_row(everything, np.ones(len(everything)), upper=upper * (1 + 1e-9) + 1e-12)
        choices = self._class_variables(model, upper)
        self._demand_rows(model, upper, variables, choices)

        milp = model.build()
        if incumbent is None:
            return milp, variables.change, None
        start = np.zeros(milp.variables)
        variables.set_change(start, incumbent)
        best = head.slack(incumbent).argmax(axis=1)
        for (region, label), variable in choices.items():
            start[variable] = best[region] == label
        return milp, variables.change, start

    def _add_split(self, model: MilpBuilder, limit: float) -> None:
        """Add p and n, and fix the signs that no allowed change can turn."""
        initial = self.head.directions @ self.head.weight
        # A parameter moves by at most the limit, a direction of two outputs by twice as much.
        reach = limit * np.abs(self.head.directions).sum(axis=1, keepdims=True)
        model.add_variables(initial.size, 0, np.where(initial + reach <= 0, 0.0, np.inf).ravel())
        model.add_variables(initial.size, 0, np.where(initial - reach >= 0, 0.0, np.inf).ravel())

    def _class_variables(self, model: MilpBuilder, upper: float) -> dict[tuple[int, int], int]:
        """Add a binary for each class that a free region can reach; exactly one of them is 1."""
        choices: dict[tuple[int, int], int] = {}
        for region, entry in self._regions.items():
            if entry.label is not None:
                continue
            attainable = self.head.initial_slack[region] + upper * self.head.reach[region]
            labels = np.flatnonzero(attainable >= self.head.margin[region] - 1e-9)
            variables = model.add_variables(len(labels), 0, 1, integer=True)
            model.add_row(variables, np.ones(len(labels)), 1, 1)
            for label, variable in zip(labels.tolist(), variables.tolist(), strict=True):
                choices[region, label] = variable
        return choices

    def _demand_rows(
        self,
        model: MilpBuilder,
        upper: float,
        variables: HeadVariables,
        choices: dict[tuple[int, int], int],
    ) -> None:
        """Add for each class ``p·below - n·above + offset >= margin``, which binds only if the class is chosen."""
        head = self.head
        wanted = [(region, label, variable) for (region, label), variable in choices.items()]
        wanted += [(region, entry.label, -1) for region, entry in self._regions.items() if entry.label is not None]
        for region, label, variable in wanted:
            entry = self._regions[region]
            below, above = np.concatenate(entry.below), np.concatenate(entry.above)
            for direction, sign in head.demands[label]:
                columns, tail, bias = variables.direction(direction, sign)
                right = head.margin[region] - bias
                if variable >= 0:
                    # From the smallest value of the left side: no smaller M is valid, no larger one is needed.
                    big = max(0.0, head.margin[region] - self._least(region, direction, sign, upper))
                    columns = np.append(columns, variable)
                    tail = np.append(tail, -big)
                    right = right - big
                values = np.hstack([below, -above, np.tile(tail, (len(below), 1))])
                model.add_rows(columns, values, lower=right)

    def _least(self, region: int, direction: int, sign: int, upper: float) -> float:
        """Return a lower bound on the left side of a demand under every allowed change."""
        head = self.head
        outputs, dimension = head.weight.shape
        total = min(upper * (1 + 1e-9) + 1e-12, self.delta_limit * outputs * (dimension + 1))
        return float(head.initial[direction, sign][region] - total * head.reach[region]) - 1e-9


def nothing_found(head: HeadProblem, limits: SearchLimits) -> FairmendError:
    """Return the error for a head that no change within the limits repairs."""
    if head.bias_shift is not None and math.isinf(limits.delta):
        return FairmendError(NO_BIAS.format(count=head.features.count))
    return FairmendError(NOTHING_WITHIN.format(limit=limits.delta, count=head.features.count))


class MilpSearch:
    """Alternates a relaxation (some regions, free classes) and a restriction (all regions, fixed classes)."""

    def __init__(
        self, head: HeadProblem, solver: Solver, limits: SearchLimits, seed: int = 0, progress: Progress | None = None
    ) -> None:
        self.head, self.solver, self.limits = head, solver, limits
        self.seed, self.progress = seed, progress
        self.deadline = math.inf if limits.seconds is None else time.perf_counter() + limits.seconds
        self.bound, self.solves = 0.0, 0
        self.best = head.constant_change(limits)
        self.master = MasterProblem(head, limits.delta)

    def run(self) -> HeadSearchResult:
        """Return the best change within the limits."""
        slack = self.head.initial_slack
        self._try_classes(np.full(len(slack), -1))
        if self.best is None and math.isinf(self.limits.delta):  # each M is finite only if there is a change to compare
            for label in range(self.head.classes):
                self._try_classes(np.full(len(slack), label))
            if self.best is None:
                raise self._failure()
        self.master.add_regions(np.flatnonzero(slack.max(axis=1) < self.head.margin), self.head.no_change())
        while not self._closed() and time.perf_counter() < self.deadline:
            found = self._relax()
            if found is None:
                break
            slack = self.head.slack(found)
            violated = np.flatnonzero(slack.max(axis=1) < self.head.least)
            if self.progress is not None:
                self.progress("solve", len(slack) - len(violated), len(slack))
            classes = np.full(len(slack), -1)
            classes[self.master.regions] = slack[self.master.regions].argmax(axis=1)
            self._try_classes(classes)
            if not self.master.add_regions(violated, found):
                break  # nothing is violated, or only within the solver's tolerances
        if self.best is None:
            raise self._failure()
        return HeadSearchResult(self.best, self.bound, self.solves, len(self.master.regions))

    def _relax(self) -> HeadChange | None:
        """Solve over the regions in the model with free classes: a lower bound, and perhaps the solution."""
        upper = math.inf if self.best is None else self.best.objective
        milp, read, start = self.master.build(upper, self.best)
        solution = self.solver.solve(
            milp, time_limit=self._time_left(), gap=self.limits.gap / 2, start=start, seed=self.seed
        )
        self.solves += 1
        if solution.status is Status.INFEASIBLE:
            # With an incumbent, there is nothing better; without one, there is no solution.
            self.bound = max(self.bound, upper if math.isfinite(upper) else 0.0)
            return None
        if solution.status in (Status.UNBOUNDED, Status.ERROR):
            raise FairmendError(
                f"{self.solver.NAME} returned {solution.status.value} on the repair of the head; "
                "use another solver, or scale the inputs"
            )
        self.bound = max(self.bound, min(solution.bound, upper))
        return None if solution.x is None else read(solution.x)

    def _try_classes(self, classes: Ints) -> None:
        """Search for a change with these classes, -1 for free ones; keep it if it is the best so far.

        This solves linear programs with lazy rows. A free region that is violated takes its nearest class: the worst
        quarter of them at a time, because their classes affect the others.
        """
        classes = classes.copy()
        program = MasterProblem(self.head, self.limits.delta)
        change = self.head.no_change()
        while True:
            slack = self.head.slack(change)
            nearest = slack.argmax(axis=1)
            free = classes < 0
            reached = np.where(free, slack.max(axis=1), slack[np.arange(len(slack)), classes])
            violated = np.flatnonzero(reached < self.head.least)
            if len(violated) == 0:
                if self.best is None or change.objective < self.best.objective:
                    self.best = change
                return
            undecided = violated[free[violated]]
            if len(undecided):
                worst = undecided[np.argsort(reached[undecided])][: 1 + len(undecided) // 4]
                classes[worst] = nearest[worst]
                violated = violated[classes[violated] >= 0]
            if not program.add_regions(violated, change, classes):
                return  # violated by more than the solver's tolerances should allow
            milp, read, _ = program.build(math.inf if self.best is None else self.best.objective, None)
            solution = self.solver.solve(milp, time_limit=self._time_left(), seed=self.seed)
            self.solves += 1
            if solution.status is not Status.OPTIMAL or solution.x is None:
                return  # these classes are infeasible, cost more, or take too long
            change = read(solution.x)

    def _failure(self) -> FairmendError:
        late = time.perf_counter() >= self.deadline
        return FairmendError(NO_TIME) if late else nothing_found(self.head, self.limits)

    def _closed(self) -> bool:
        return self.best is not None and self.limits.closed(self.best.objective, self.bound)

    def _time_left(self) -> float | None:
        return None if self.deadline == math.inf else max(0.0, self.deadline - time.perf_counter())
