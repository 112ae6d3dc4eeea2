"""The linear relaxation of a mixed-integer program, solved again and again under other bounds of its variables.

For a branch and bound of one's own: each solve starts from the last basis, and gives the multipliers of the rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.milp.highs import Highs, new_highs, pass_model
from fairmend.milp.model import Milp, Status


class RelaxedSolution(NamedTuple):
    """The status; if it is optimal, ``x (variables,)``; and ``multipliers (rows,)``.

    The multipliers are the dual solution if the status is optimal, a ray that proves it if the status is infeasible and
    HiGHS has one, else None. They are what floating-point arithmetic gave: a proof must not take them for exact.
    """

    status: Status
    x: Floats | None
    multipliers: Floats | None


class Relaxation:
    """A MILP without its integrality."""

    def __init__(self, milp: Milp) -> None:
        """Pass the problem to HiGHS; raise a FairmendError if it does not accept a coefficient."""
        self.milp = milp
        # Presolve would discard the basis that the next solve starts from, and rays with it.
        self._highs: Any = new_highs({"presolve": "off", "threads": 1})
        pass_model(self._highs, milp, integer=False)
        self._columns = np.arange(milp.variables, dtype=np.int32)

    def solve(self, lower: Floats, upper: Floats, time_limit: float = math.inf) -> RelaxedSolution:
        """Solve with these bounds of the variables, each ``(variables,)``."""
        highs = self._highs
        highs.changeColsBounds(len(self._columns), self._columns, lower, upper)
        if math.isfinite(time_limit):
            # HiGHS measures its time over all runs.
            highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, time_limit))
        highs.run()
        status = Highs.STATUS_MAP.get(highs.getModelStatus().name, Status.ERROR)
        if status is Status.OPTIMAL:
            solution = highs.getSolution()
            return RelaxedSolution(status, _floats(solution.col_value), _floats(solution.row_dual))
        if status is Status.INFEASIBLE:
            _, found, ray = highs.getDualRay()
            return RelaxedSolution(status, None, _floats(ray) if found else None)
        highs.clearSolver()  # the last basis may be why
        return RelaxedSolution(status, None, None)


def _floats(values: Any) -> Floats:
    return np.array(values, dtype=np.float64)
