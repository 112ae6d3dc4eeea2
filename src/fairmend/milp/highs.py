"""HiGHS, the default solver, and the linear programs that it solves again and again from the last basis."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.milp.model import Milp, Status
from fairmend.milp.solver import Answer, Settings, Solver, run_interruptibly

_LARGEST = 1e15  # HiGHS refuses coefficients of this size


class Highs(Solver):
    """HiGHS through highspy."""

    NAME: ClassVar[str] = "highs"
    REQUIRED_MODULE: ClassVar[str] = "highspy"
    EXTRA: ClassVar[str | None] = None
    STATUS_MAP: ClassVar[Mapping[str, Status]] = {
        "kOptimal": Status.OPTIMAL,
        "kModelEmpty": Status.OPTIMAL,
        "kInfeasible": Status.INFEASIBLE,
        "kUnbounded": Status.UNBOUNDED,
        "kUnboundedOrInfeasible": Status.UNBOUNDED,
        "kObjectiveBound": Status.LIMIT,
        "kObjectiveTarget": Status.LIMIT,
        "kTimeLimit": Status.LIMIT,
        "kIterationLimit": Status.LIMIT,
        "kSolutionLimit": Status.LIMIT,
        "kMemoryLimit": Status.LIMIT,
        "kInterrupt": Status.LIMIT,
        "kHighsInterrupt": Status.LIMIT,
        "kNotset": Status.ERROR,
        "kLoadError": Status.ERROR,
        "kModelError": Status.ERROR,
        "kPresolveError": Status.ERROR,
        "kSolveError": Status.ERROR,
        "kPostsolveError": Status.ERROR,
        "kUnknown": Status.ERROR,
    }

    def _run(self, milp: Milp, settings: Settings) -> Answer:
        import highspy

        options: dict[str, Any] = {
            "mip_feasibility_tolerance": 1e-9,
            "mip_rel_gap": settings.gap,
            "mip_abs_gap": 1e-12,
            "random_seed": settings.seed,
        }
        if settings.time_limit is not None:
            options["time_limit"] = settings.time_limit
        if settings.threads is not None:
            options["threads"] = settings.threads
        highs = new_highs(options)
        pass_model(highs, milp)
        if settings.start is not None and milp.integer.any():
            highs.setSolution(milp.variables, np.arange(milp.variables, dtype=np.int32), settings.start)
        stop = threading.Event()

        def check(event: Any) -> None:
            if stop.is_set():
                event.interrupt()

        for callback in (highs.cbMipInterrupt, highs.cbSimplexInterrupt, highs.cbIpmInterrupt):
            callback.subscribe(check)
        run_interruptibly(highs.run, stop.set)
        highs.disableCallbacks()  # they and the Highs object hold each other

        info = highs.getInfo()
        word = highs.getModelStatus().name
        solved = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
        x = np.array(highs.getSolution().col_value, dtype=np.float64) if solved else None
        if milp.integer.any():
            bound = float(info.mip_dual_bound)
        else:  # the only bound of a linear program is its optimum
            bound = float(info.objective_function_value) if word == "kOptimal" else -np.inf
        return Answer(word, x, bound)


def new_highs(options: Mapping[str, Any]) -> Any:
    """Return a quiet `highspy.Highs` with these options, and tolerances below its defaults."""
    import highspy

    highs = highspy.Highs()
    common = {
        "output_flag": False,
        "primal_feasibility_tolerance": 1e-9,
        "small_matrix_value": 1e-12,  # the default, 1e-9, silently drops smaller coefficients
    }
    set_options(highs, {**common, **options})
    return highs


def set_options(highs: Any, options: Mapping[str, Any]) -> None:
    """Set options; raise a FairmendError for one that HiGHS does not accept."""
    import highspy

    for name, value in options.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise FairmendError(f"HiGHS does not accept the option {name} = {value!r}")


def pass_model(highs: Any, milp: Milp) -> None:
    """Pass the problem to HiGHS."""
    import highspy

    passed = highs.passModel(
        milp.variables,
        milp.rows,
        len(milp.values),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        milp.cost,
        milp.lower,
        milp.upper,
        milp.row_lower,
        milp.row_upper,
        milp.indptr.astype(np.int32),
        milp.indices.astype(np.int32),
        milp.values,
        milp.integer.astype(np.int32),
    )
    if passed == highspy.HighsStatus.kError:
        raise FairmendError(f"HiGHS does not accept {milp!r}: {why_refused(milp.values)}")


def why_refused(coefficients: Floats) -> str:
    """Return what HiGHS most likely refuses."""
    largest = float(np.abs(coefficients).max(initial=0.0))
    if not largest < _LARGEST:
        return f"the coefficient {largest:.3g} is not below {_LARGEST:.0e}; scale the inputs of the network"
    return "it gives no reason; choose another solver"


_LP_OPTIONS: dict[str, bool | str | float] = {
    "presolve": "off",  # presolve would discard the basis that the next solve starts from
    "simplex_strategy": 1,  # dual
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
    """Minimise cost·x over lower <= x <= upper and rows that you can add, and remove again, by the dual simplex.

    Branching over disjunctions needs thousands of small linear programs that differ in a few rows. Passing every one to
    a new solver would cost more than solving it.
    """

    def __init__(self, cost: Floats, lower: Floats, upper: Floats) -> None:
        """Create the variables, without rows."""
        self._highs: Any = new_highs(_LP_OPTIONS)
        none = np.zeros(0, dtype=np.int32)
        self._highs.addCols(len(cost), cost, lower, upper, 0, none, none, np.zeros(0))
        self.rows = 0

    def add_rows(self, indices: NDArray[np.int64], values: Floats, lower: Floats, upper: Floats) -> None:
        """Add ``lower <= values @ x[indices] <= upper``: indices ``(k,)`` or ``(rows, k)``, values ``(rows, k)``."""
        import highspy

        count, width = values.shape
        columns = np.broadcast_to(indices, values.shape).astype(np.int32).ravel()
        starts = np.arange(count, dtype=np.int32) * width
        status = self._highs.addRows(
            count, lower, upper, count * width, starts, columns, np.ascontiguousarray(values).ravel()
        )
        if status == highspy.HighsStatus.kError:
            raise FairmendError(f"HiGHS does not accept a row of the repair: {why_refused(values)}")
        self.rows += count

    def remove_rows(self, rows: NDArray[np.int64]) -> None:
        """Remove rows, given by their numbers in ascending order."""
        if len(rows):
            self._highs.deleteRows(len(rows), rows.astype(np.int32))
            self.rows -= len(rows)

    def multipliers(self) -> Floats:
        """Return the dual values ``(rows,)`` of the last solution."""
        return _floats(self._highs.getSolution().row_dual)

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
            set_options(self._highs, {**_LP_OPTIONS, **options})
            status = self._run()
            set_options(self._highs, _LP_OPTIONS)
        if status is not Status.OPTIMAL:
            return LpSolution(status, math.inf, None)
        x = _floats(self._highs.getSolution().col_value)
        return LpSolution(status, float(self._highs.getInfo().objective_function_value), x)

    def _run(self) -> Status:
        self._highs.run()
        return Highs.STATUS_MAP.get(self._highs.getModelStatus().name, Status.ERROR)


def _floats(values: Any) -> Floats:
    return np.array(values, dtype=np.float64)
