"""The search over MILPs: for solvers that are not HiGHS, and as a second opinion on `branch`.

- *lazy regions*: a region enters the model when a solution of the others violates it;
- *an incumbent* (a feasible change, of size U) fixes classes: no change smaller than U moves the score of a region by
  more than U · max(1, largest feature), which gives each region its own M and rules out classes it cannot reach.
"""

from __future__ import annotations

import math
import time

import numpy as np

from fairmend.arrays import Ints
from fairmend.errors import FairmendError
from fairmend.milp import Solver, Status
from fairmend.progress import Progress
from fairmend.repair.head.master import Master
from fairmend.repair.head.problem import Change, Found, Head, Limits

NOTHING_WITHIN = (
    "no change with every parameter within {limit} gives all {count} regions one answer each; "
    "allow larger changes (delta_limit)"
)
NO_TIME = (
    "the time limit struck before any repair was found; allow more time (time_limit) or larger changes (delta_limit)"
)


class MilpSearch:
    """Alternates a relaxation (some regions, their classes free) and a restriction (all regions, classes fixed)."""

    def __init__(
        self, head: Head, solver: Solver, limits: Limits, seed: int = 0, progress: Progress | None = None
    ) -> None:
        self.head, self.solver, self.limits = head, solver, limits
        self.seed, self.progress = seed, progress
        self.deadline = math.inf if limits.seconds is None else time.perf_counter() + limits.seconds
        self.bound, self.solves = 0.0, 0
        self.best = head.constant_change(limits)
        self.master = Master(head, limits.delta)

    def run(self) -> Found:
        """The best change within the limits."""
        slack = self.head.initial_slack
        self._try(np.full(len(slack), -1))
        self.master.admit(np.flatnonzero(slack.max(axis=1) < self.head.margin), self.head.no_change())
        while not self._closed() and time.perf_counter() < self.deadline:
            found = self._relax()
            if found is None:
                break
            slack = self.head.slack(found)
            missed = np.flatnonzero(slack.max(axis=1) < self.head.least)
            if self.progress is not None:
                self.progress("solve", len(slack) - len(missed), len(slack))
            classes = np.full(len(slack), -1)
            classes[self.master.admitted] = slack[self.master.admitted].argmax(axis=1)
            self._try(classes)
            if not self.master.admit(missed, found):
                break  # nothing is missed, or only by what the solver's tolerances let through
        if self.best is None:
            if time.perf_counter() >= self.deadline:
                raise FairmendError(NO_TIME)
            raise FairmendError(NOTHING_WITHIN.format(limit=self.limits.delta, count=len(slack)))
        return Found(self.best, self.bound, self.solves, len(self.master.admitted))

    def _relax(self) -> Change | None:
        """Solve over the regions in play with free classes: a lower bound, and perhaps the answer."""
        upper = math.inf if self.best is None else self.best.objective
        milp, read, start = self.master.build(upper, self.best)
        solution = self.solver.solve(
            milp, time_limit=self._time_left(), gap=self.limits.gap / 2, start=start, seed=self.seed
        )
        self.solves += 1
        if solution.status is Status.INFEASIBLE:
            # The cut-off at the incumbent leaves nothing better; without an incumbent, nothing at all.
            self.bound = max(self.bound, upper if math.isfinite(upper) else 0.0)
            return None
        if solution.status in (Status.UNBOUNDED, Status.ERROR):
            raise FairmendError(
                f"{self.solver.NAME} answered {solution.status.value} on the repair of the head; "
                "try another solver, or scaled inputs"
            )
        self.bound = max(self.bound, min(solution.bound, upper))
        return None if solution.x is None else read(solution.x)

    def _try(self, classes: Ints) -> None:
        """Look for a change with these classes, -1 where one is free; keep it if it beats the best so far.

        Linear programs with lazy rows. A free region that turns out violated takes the class it is nearest to: the
        worst quarter of them at a time, because those decide what the others do.
        """
        classes = classes.copy()
        program = Master(self.head, self.limits.delta)
        change = self.head.no_change()
        while True:
            slack = self.head.slack(change)
            nearest = slack.argmax(axis=1)
            free = classes < 0
            reached = np.where(free, slack.max(axis=1), slack[np.arange(len(slack)), classes])
            missed = np.flatnonzero(reached < self.head.least)
            if len(missed) == 0:
                if self.best is None or change.objective < self.best.objective:
                    self.best = change
                return
            undecided = missed[free[missed]]
            if len(undecided):
                worst = undecided[np.argsort(reached[undecided])][: 1 + len(undecided) // 4]
                classes[worst] = nearest[worst]
                missed = missed[classes[missed] >= 0]
            if not program.admit(missed, change, classes):
                return  # missed by more than the solver's tolerances should let through
            milp, read, _ = program.build(math.inf if self.best is None else self.best.objective, None)
            solution = self.solver.solve(milp, time_limit=self._time_left(), seed=self.seed)
            self.solves += 1
            if solution.status is not Status.OPTIMAL or solution.x is None:
                return  # these classes cannot be had, or not for less, or not in time
            change = read(solution.x)

    def _closed(self) -> bool:
        return self.best is not None and self.limits.closed(self.best.objective, self.bound)

    def _time_left(self) -> float | None:
        return None if self.deadline == math.inf else max(0.0, self.deadline - time.perf_counter())
