"""Step 2 of ProF: the smallest change of the head that gives every neighbourhood one prediction (Eq. milp).

The paper solves one MILP over all regions with a big constant M. The optimum here is the same. The problem is smaller
(`features`: the closed form of the dual), and so is the search (`branch`, or `milp_search` for other solvers).
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.milp import get_solver
from fairmend.repairing.head.branch import BranchSearch
from fairmend.repairing.head.features import FeatureSet
from fairmend.repairing.head.milp_search import MilpSearch
from fairmend.repairing.head.problem import HeadProblem, HeadSearchResult, SearchLimits
from fairmend.repairing.options import choose_search

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeadSolution(HeadSearchResult):
    """A change of the head that gives each region one prediction, or scores that differ by no more than is allowed.

    ``classes (count,)`` are the predictions of the regions, None for a claim about scores.
    """

    seconds: float
    classes: Ints | None

    @classmethod
    def of(cls, found: HeadSearchResult, count: int, started: float, classes: Ints | None = None) -> HeadSolution:
        """Return what a search over ``count`` regions found, and log it."""
        seconds = time.perf_counter() - started
        solution = cls(found.change, found.bound, found.solves, found.regions_in_play, seconds, classes)
        _logger.info(
            "step 2: %d regions, %d in play, change %.4g (bound %.4g) after %d solves in %.3f s",
            count,
            solution.regions_in_play,
            solution.objective,
            solution.bound,
            solution.solves,
            solution.seconds,
        )
        return solution

    @property
    def weight(self) -> Floats:
        """The change of the weights ``(outputs, dimension)``."""
        return self.change.weight

    @property
    def bias(self) -> Floats:
        """The change of the biases ``(outputs,)``."""
        return self.change.bias

    @property
    def objective(self) -> float:
        """The l1 norm of the change."""
        return self.change.objective

    @property
    def gap(self) -> float:
        """The relative distance between the objective and the proven lower bound; 0 if optimal."""
        distance = self.objective - self.bound
        return 0.0 if distance <= 1e-9 else distance / self.objective


def repair_head(
    weight: np.ndarray,
    bias: np.ndarray,
    features: FeatureSet,
    *,
    bias_shift: Floats | None = None,
    margin: float | Floats = 1e-6,
    delta_limit: float = math.inf,
    solver: str = "highs",
    search: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    most_solves: float = math.inf,
    seed: int = 0,
    progress: Progress | None = None,
) -> HeadSolution:
    """Change ``weight (outputs, dimension)`` and ``bias (outputs,)`` as little as possible (l1).

    Parameters
    ----------
    features : the features of each region.
    bias_shift : ``(dimension,)`` if the head stores no bias: its bias then changes by the change of its weights times
        this, which is 0 unless a norm stands before the head. None if the bias can change.
    margin : how far every region must stay from the decision threshold: one number, or one for each region.
    delta_limit : largest change of one parameter; unlimited by default, and then there is always a solution if the
        bias can change.
    solver, search : search "branch" is the default for solver "highs"; "milp" works with any solver.
    time_limit, gap, most_solves : stop after so many seconds, at this relative gap, or with search "branch" after so
        many solver runs, with the best change so far.
    """
    started = time.perf_counter()
    if not np.all(np.asarray(margin) > 0):
        raise FairmendError(f"margin is {margin}; give a number above 0: a margin of 0 would count ties as fair")
    search = choose_search(solver, search)
    head = HeadProblem(weight.astype(np.float64), bias.astype(np.float64), features, margin, bias_shift)
    limits = SearchLimits(delta_limit, time_limit, gap, most_solves)
    if (head.initial_slack.max(axis=1) >= head.margin).all():
        found = HeadSearchResult(head.no_change(), 0.0, 0, 0)
    elif search == "branch":
        found = BranchSearch(head, limits, progress).run()
    else:
        found = MilpSearch(head, get_solver(solver), limits, seed, progress).run()
    return HeadSolution.of(found, features.count, started, head.slack(found.change).argmax(axis=1))
