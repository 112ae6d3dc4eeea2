"""The search over MILPs: for solvers other than HiGHS, and to compare with `branch`.

- *Lazy regions*: a region enters the model when a solution for the others violates it.
- *An incumbent* (a feasible change of size U) fixes classes: no smaller change moves the score of a region by more than
  U · max(1, largest feature). This gives each region its own M and rules out classes that it cannot reach.
"""

from __future__ import annotations

import math
import time

import numpy as np

from fairmend.base.arrays import Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.milp import Solver, Status
from fairmend.repairing.head.master import MasterProblem
from fairmend.repairing.head.problem import HeadChange, HeadProblem, HeadSearchResult, SearchLimits

NOTHING_WITHIN = (
    "no change with every parameter within {limit} gives each of the {count} regions one prediction; "
    "allow larger changes (delta_limit)"
)
NO_BIAS = (
    "no weights of the last layer, which has no bias, give each of the {count} regions one prediction; give it a bias "
    "(0 changes nothing), or use method auto"
)
NO_TIME = "the time limit ended before a repair was found; allow more time (time_limit) or larger changes (delta_limit)"


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
