"""SCIP, an optional solver."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.milp.model import Milp, Status
from fairmend.milp.solver import Answer, Settings, Solver, run_interruptibly

_logger = logging.getLogger(__name__)


class Scip(Solver):
    """SCIP through PySCIPOpt. It always runs on one thread, and treats coefficients below 1e-9 as 0."""

    NAME: ClassVar[str] = "scip"
    REQUIRED_MODULE: ClassVar[str] = "pyscipopt"
    EXTRA: ClassVar[str | None] = "scip"
    STATUS_MAP: ClassVar[Mapping[str, Status]] = {
        "optimal": Status.OPTIMAL,
        "gaplimit": Status.OPTIMAL,  # the requested gap
        "infeasible": Status.INFEASIBLE,
        "unbounded": Status.UNBOUNDED,
        "inforunbd": Status.UNBOUNDED,
        "timelimit": Status.LIMIT,
        "memlimit": Status.LIMIT,
        "nodelimit": Status.LIMIT,
        "totalnodelimit": Status.LIMIT,
        "stallnodelimit": Status.LIMIT,
        "sollimit": Status.LIMIT,
        "bestsollimit": Status.LIMIT,
        "restartlimit": Status.LIMIT,
        "primallimit": Status.LIMIT,
        "duallimit": Status.LIMIT,
        "userinterrupt": Status.LIMIT,
        "terminate": Status.LIMIT,
        "unknown": Status.ERROR,
    }

    def _run(self, milp: Milp, settings: Settings) -> Answer:
        try:
            with _errors_not_printed():
                return self._optimize(milp, settings)
        except Exception as error:
            # PySCIPOpt raises the base class: "SCIP: error in LP solver!", or "in input data!" for numbers above 1e20.
            if type(error) is not Exception:
                raise
            _logger.warning("%s", error)
            return Answer("unknown", None, -np.inf)

    def _optimize(self, milp: Milp, settings: Settings) -> Answer:
        from pyscipopt import Model, quicksum

        model = Model()
        model.hideOutput()
        largest = max(np.abs(part).max(initial=0.0) for part in (milp.cost, milp.values))
        if largest >= model.infinity():  # SCIP would print to stderr and raise a bare Exception
            raise FairmendError(
                f"SCIP does not accept {milp!r}: {largest:.3g} counts as infinite; scale the inputs of the network, or "
                "choose another solver"
            )
        # On an unbounded ray, SCIP tries whole numbers up to about 1/feastol, beyond any time limit.
        whole = np.concatenate([milp.lower[milp.integer], milp.upper[milp.integer]])
        model.setParams(
            {
                "misc/catchctrlc": False,  # run_interruptibly handles Ctrl-C, without printing
                "numerics/feastol": 1e-9 if np.isfinite(whole).all() else 1e-6,
                "numerics/dualfeastol": 1e-9,
                "limits/gap": settings.gap,
                "randomization/randomseedshift": settings.seed,
            }
        )
        if settings.time_limit is not None:
            model.setParam("limits/time", settings.time_limit)
        variables = [
            model.addVar(vtype="I" if integer else "C", lb=_bound(lower), ub=_bound(upper), obj=cost)
            for integer, lower, upper, cost in zip(
                milp.integer.tolist(),
                milp.lower.tolist(),
                milp.upper.tolist(),
                milp.cost.tolist(),
                strict=True,
            )
        ]
        for i in range(milp.rows):
            lower, upper = float(milp.row_lower[i]), float(milp.row_upper[i])
            entries = slice(milp.indptr[i], milp.indptr[i + 1])
            pairs = zip(milp.indices[entries].tolist(), milp.values[entries].tolist(), strict=True)
            row = quicksum(value * variables[column] for column, value in pairs)
            if entries.start == entries.stop or (np.isinf(lower) and np.isinf(upper)):
                continue  # no constraint; PySCIPOpt does not accept it
            if np.isinf(lower):
                model.addCons(row <= upper)
            elif np.isinf(upper):
                model.addCons(row >= lower)
            elif lower == upper:
                model.addCons(row == lower)
            else:
                model.addCons((lower <= row) <= upper)
        if settings.start is not None:
            start = model.createSol()
            for variable, value in zip(variables, settings.start.tolist(), strict=True):
                model.setSolVal(start, variable, value)
            model.addSol(start)
        run_interruptibly(model.optimizeNogil, model.interruptSolve)

        x = None
        if model.getNSols():
            best = model.getBestSol()
            x = np.array([model.getSolVal(best, variable) for variable in variables], dtype=np.float64)
        bound = float(model.getDualbound())
        return Answer(model.getStatus(), x, -np.inf if bound <= -model.infinity() else bound)


@contextmanager
def _errors_not_printed() -> Iterator[None]:
    """Stop SCIP from printing errors to stderr, which `hideOutput` does not: they reach the caller as exceptions.

    PySCIPOpt has no such setting (its `redirectOutput` is not safe while the GIL is released), so this calls SCIP
    itself. Windows does not find its functions through the module; there, SCIP prints.
    """
    import pyscipopt.scip

    scip = ctypes.CDLL(pyscipopt.scip.__file__)
    if not hasattr(scip, "SCIPmessageSetErrorPrinting"):
        yield
        return
    scip.SCIPmessageSetErrorPrinting(None, None)
    try:
        yield
    finally:
        scip.SCIPmessageSetErrorPrintingDefault()


def _bound(value: float) -> float | None:
    return None if np.isinf(value) else value
