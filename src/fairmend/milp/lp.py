"""A linear program to which you add rows and from which you remove the last ones, solved by HiGHS's dual simplex.

Branching over disjunctions needs thousands of small linear programs that differ in a few rows. Each solve starts from
the last basis, because passing every program to a new solver would cost more than solving it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.milp.highs import Highs, why_refused
from fairmend.milp.model import Status

_OPTIONS: dict[str, bool | str | float] = {
    "output_flag": False,
    "presolve": "off",  # presolve would discard the basis that the next solve starts from
    "simplex_strategy": 1,  # dual
    "primal_feasibility_tolerance": 1e-9,
    "small_matrix_value": 1e-12,
}

# What to try if HiGHS ends with "unknown": first without the last basis, which can be a bad start, then with presolve,
# then the primal simplex. Only the quality of a repair depends on the answer; its proof does not rely on the solver.
_SECOND_TRIES: tuple[dict[str, bool | str | float], ...] = ({}, {"presolve": "on"}, {"simplex_strategy": 4})


class LpSolution(NamedTuple):
    """The status, and if it is optimal, the objective and ``x (variables,)``."""

    status: Status
    objective: float
    x: Floats | None


class LinearProgram:
    """Minimise cost·x over lower <= x <= upper and rows that you can add, and remove again."""

    def __init__(self, cost: Floats, lower: Floats, upper: Floats) -> None:
        """Create the variables, without rows."""
        import highspy

        self._highspy = highspy
        self._highs = highspy.Highs()
        self._set(_OPTIONS)
        none = np.zeros(0, dtype=np.int32)
        self._highs.addCols(len(cost), cost, lower, upper, 0, none, none, np.zeros(0))
        self.rows = 0

    def add_rows(self, indices: NDArray[np.int64], values: Floats, lower: Floats, upper: Floats) -> None:
        """Add ``lower <= values @ x[indices] <= upper``: indices ``(k,)`` or ``(rows, k)``, values ``(rows, k)``."""
        count, width = values.shape
        columns = np.broadcast_to(indices, values.shape).astype(np.int32).ravel()
        starts = np.arange(count, dtype=np.int32) * width
        status = self._highs.addRows(
            count, lower, upper, count * width, starts, columns, np.ascontiguousarray(values).ravel()
        )
        if status == self._highspy.HighsStatus.kError:
            raise FairmendError(f"HiGHS does not accept a row of the repair: {why_refused(values)}")
        self.rows += count

    def truncate(self, rows: int) -> None:
        """Remove every row after the first ``rows``."""
        if rows < self.rows:
            self._highs.deleteRows(self.rows - rows, np.arange(rows, self.rows, dtype=np.int32))
            self.rows = rows

    def solve(self, time_limit: float = math.inf) -> LpSolution:
        """Solve from the last basis."""
        if math.isfinite(time_limit):
            # HiGHS measures its time over all runs.
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(0.0, time_limit))
        status = self._run()
        for options in _SECOND_TRIES:
            if status in (Status.OPTIMAL, Status.INFEASIBLE, Status.LIMIT):
                break
            self._highs.clearSolver()
            self._set({**_OPTIONS, **options})
            status = self._run()
            self._set(_OPTIONS)
        if status is not Status.OPTIMAL:
            return LpSolution(status, math.inf, None)
        x = np.array(self._highs.getSolution().col_value, dtype=np.float64)
        return LpSolution(status, float(self._highs.getInfo().objective_function_value), x)

    def _set(self, options: Mapping[str, bool | str | float]) -> None:
        for name, value in options.items():
            self._highs.setOptionValue(name, value)

    def _run(self) -> Status:
        self._highs.run()
        return Highs.STATUS_MAP.get(self._highs.getModelStatus().name, Status.ERROR)
