"""Step 2 of ProF: the smallest change of the last layer that gives every neighbourhood one answer (Eq. milp).

The paper solves one MILP over all regions with a big constant M. The optimum here is the same; what is smaller is the
problem (`features`: the closed form of the dual) and the way to it (`branch`, or `milp_search` for other solvers).
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

import numpy as np

from fairmend.arrays import Floats, Ints
from fairmend.errors import FairmendError
from fairmend.milp import get_solver
from fairmend.progress import Progress
from fairmend.repair.head.branch import BranchSearch
from fairmend.repair.head.features import FeatureSet
from fairmend.repair.head.milp_search import MilpSearch
from fairmend.repair.head.problem import Found, Head, Limits

_logger = logging.getLogger(__name__)

SEARCHES = ("branch", "milp")


@dataclass(frozen=True)
class HeadRepair:
    """The change of the head and what is known about it.

    ``objective`` is its l1 norm, ``bound`` a proven lower bound on the smallest possible one; ``classes (count,)`` is
    the answer each region gets; ``solves`` counts solver runs and ``regions_in_play`` the regions that mattered.
    """

    weight: Floats
    bias: Floats
    classes: Ints
    objective: float
    bound: float
    solves: int
    regions_in_play: int
    seconds: float

    @property
    def gap(self) -> float:
        """Relative distance between the change found and the proven lower bound; 0 when optimal."""
        distance = self.objective - self.bound
        return 0.0 if distance <= 1e-9 else distance / self.objective


def repair_head(
    weight: np.ndarray,
    bias: np.ndarray,
    features: FeatureSet,
    *,
    margin: float | Floats = 1e-6,
    delta_limit: float = math.inf,
    solver: str = "highs",
    search: str | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> HeadRepair:
    """Change ``weight (outputs, dimension)`` and ``bias (outputs,)`` as little as possible (l1).

    Parameters
    ----------
    features : where the features of each region may lie.
    margin : by how much every region must clear the decision, at least: one number, or one for each region.
    delta_limit : largest change of one parameter; unlimited by default, and then there always is a solution.
    solver, search : "branch" is the default with HiGHS; "milp" hands MILPs to the solver, as other solvers need.
    time_limit, gap : stop after so many seconds, or at this relative gap, with the best change found.
    """
    started = time.perf_counter()
    if not np.all(np.asarray(margin) > 0):
        raise FairmendError(f"margin is {margin}; it must be positive, or ties would count as fair")
    search = check_search(solver, search)
    head = Head(weight.astype(np.float64), bias.astype(np.float64), features, margin)
    limits = Limits(delta_limit, time_limit, gap)
    if (head.initial_slack.max(axis=1) >= head.margin).all():
        found = Found(head.no_change(), 0.0, 0, 0)
    elif search == "branch":
        found = BranchSearch(head, limits, progress).run()
    else:
        found = MilpSearch(head, get_solver(solver), limits, seed, progress).run()
    repaired = HeadRepair(
        weight=found.change.weight,
        bias=found.change.bias,
        classes=head.slack(found.change).argmax(axis=1),
        objective=found.change.objective,
        bound=found.bound,
        solves=found.solves,
        regions_in_play=found.regions_in_play,
        seconds=time.perf_counter() - started,
    )
    _logger.info(
        "step 2: %d regions, %d in play, change %.4g (bound %.4g) after %d solves in %.3f s",
        features.count,
        repaired.regions_in_play,
        repaired.objective,
        repaired.bound,
        repaired.solves,
        repaired.seconds,
    )
    return repaired


def check_search(solver: str, search: str | None) -> str:
    """The search to use; an error where there is no such solver or search, or the two do not go together."""
    get_solver(solver)
    chosen = search or ("branch" if solver == "highs" else "milp")
    if chosen not in SEARCHES or (chosen == "branch" and solver != "highs"):
        raise FairmendError(f"search {chosen!r} with solver {solver!r}: 'branch' needs 'highs', 'milp' takes any")
    return chosen
