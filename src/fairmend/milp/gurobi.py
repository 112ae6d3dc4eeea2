"""Gurobi, an optional solver; without a full licence it takes at most 2,000 variables and 2,000 rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.milp.model import Milp, Status
from fairmend.milp.solver import Answer, Settings, Solver

_OPTIONS = "gurobi.env"  # in the current folder: no parameter of ours can overrule it


class Gurobi(Solver):
    """Gurobi through gurobipy."""

    NAME: ClassVar[str] = "gurobi"
    REQUIRED_MODULE: ClassVar[str] = "gurobipy"
    EXTRA: ClassVar[str | None] = "gurobi"
    STATUS_MAP: ClassVar[Mapping[str, Status]] = {
        "OPTIMAL": Status.OPTIMAL,
        "INFEASIBLE": Status.INFEASIBLE,
        "UNBOUNDED": Status.UNBOUNDED,
        "INF_OR_UNBD": Status.UNBOUNDED,
        "CUTOFF": Status.LIMIT,
        "ITERATION_LIMIT": Status.LIMIT,
        "NODE_LIMIT": Status.LIMIT,
        "TIME_LIMIT": Status.LIMIT,
        "SOLUTION_LIMIT": Status.LIMIT,
        "USER_OBJ_LIMIT": Status.LIMIT,
        "WORK_LIMIT": Status.LIMIT,
        "MEM_LIMIT": Status.LIMIT,
        "INTERRUPTED": Status.LIMIT,
        "SUBOPTIMAL": Status.LIMIT,
        "LOADED": Status.ERROR,
        "INPROGRESS": Status.ERROR,
        "NUMERIC": Status.ERROR,
        "LOCALLY_OPTIMAL": Status.ERROR,  # of nonlinear models only
        "LOCALLY_INFEASIBLE": Status.ERROR,
    }

    def _run(self, milp: Milp, settings: Settings) -> Answer:
        import gurobipy

        if os.path.lexists(_OPTIONS):
            raise FairmendError(
                f"Gurobi: it would take options from {_OPTIONS} in the current folder, which can send the problem to a "
                "server or write files anywhere; move the file away, start in another folder, or use the solver 'highs'"
            )
        parameters: dict[str, Any] = {
            "OutputFlag": 0,
            "FeasibilityTol": 1e-9,
            "IntFeasTol": 1e-9,
            "OptimalityTol": 1e-9,
            "MIPGap": settings.gap,
            "MIPGapAbs": 0.0,
            "Seed": settings.seed,
        }
        if settings.time_limit is not None:
            parameters["TimeLimit"] = settings.time_limit
        if settings.threads is not None:
            parameters["Threads"] = settings.threads
        try:
            with (
                gurobipy.Env(params=parameters) as environment,
                gurobipy.Model(env=environment) as model,
            ):
                return _solve(gurobipy, model, milp, settings)
        except gurobipy.GurobiError as error:
            raise FairmendError(_explain(gurobipy, error, milp)) from error


def _solve(gurobipy: Any, model: Any, milp: Milp, settings: Settings) -> Answer:
    x = model.addMVar(
        milp.variables,
        lb=milp.lower,
        ub=milp.upper,
        obj=milp.cost,
        vtype=np.where(milp.integer, "I", "C"),
    )
    variables = np.array(x.tolist(), dtype=object)
    for i in range(milp.rows):
        entries = slice(milp.indptr[i], milp.indptr[i + 1])
        row = gurobipy.LinExpr(milp.values[entries].tolist(), variables[milp.indices[entries]].tolist())
        lower, upper = float(milp.row_lower[i]), float(milp.row_upper[i])
        if lower == upper:
            model.addLConstr(row, "=", lower)
            continue
        # Two rows, not addRange, which adds a hidden variable that the licence counts too.
        if lower > -np.inf:
            model.addLConstr(row, ">", lower)
        if upper < np.inf:
            model.addLConstr(row, "<", upper)
    if settings.start is not None and milp.integer.any():
        x.Start = settings.start
    model.optimize()

    names = {getattr(gurobipy.GRB.Status, name): name for name in dir(gurobipy.GRB.Status) if name.isupper()}
    word = names.get(model.Status, str(model.Status))
    if word == "INTERRUPTED":  # Gurobi catches Ctrl-C itself, in whichever thread it runs
        raise KeyboardInterrupt
    integer = bool(milp.integer.any())
    solved = word == "OPTIMAL" or (integer and model.SolCount > 0)
    bound = -np.inf
    if integer:
        bound = float(model.ObjBound)
    elif word == "OPTIMAL":  # the only bound of a linear program is its optimum
        bound = float(model.ObjVal)
    bound = -np.inf if bound <= -gurobipy.GRB.INFINITY else bound
    return Answer(word, np.array(x.X, dtype=np.float64) if solved else None, bound)


def _explain(gurobipy: Any, error: Any, milp: Milp) -> str:
    if error.errno == gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED:
        return (
            f"Gurobi: {milp!r} is too large for your licence (the free one takes 2,000 variables "
            "and 2,000 rows); install a full licence or use the solver 'highs'"
        )
    if error.errno == gurobipy.GRB.Error.NO_LICENSE:
        return f"Gurobi: no valid licence ({error}); install one or use the solver 'highs'"
    return f"Gurobi: {error} (error {error.errno}) on {milp!r}; the solver 'highs' needs no licence"
