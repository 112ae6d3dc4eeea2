"""HiGHS, the default solver."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.milp.interrupt import run_interruptibly
from fairmend.milp.model import Milp, Status
from fairmend.milp.solver import Answer, Settings, Solver

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
    for name, value in {**common, **options}.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise FairmendError(f"HiGHS does not accept the option {name} = {value!r}")
    return highs


def pass_model(highs: Any, milp: Milp, *, integer: bool = True) -> None:
    """Pass the problem to HiGHS, with or without its integrality."""
    import highspy

    whole = milp.integer & integer
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
        whole.astype(np.int32),
    )
    if passed == highspy.HighsStatus.kError:
        raise FairmendError(f"HiGHS does not accept {milp!r}: {why_refused(milp.values)}")


def why_refused(coefficients: Floats) -> str:
    """Return what HiGHS most likely refuses."""
    largest = float(np.abs(coefficients).max(initial=0.0))
    if not largest < _LARGEST:
        return f"the coefficient {largest:.3g} is not below {_LARGEST:.0e}; scale the inputs of the network"
    return "it gives no reason; choose another solver"
